"""Builds the document of the data source `aws_iam_policy_document`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from holdfast.checks.iam.document import Alternatives, Fields, Node, fields_of, flatten, is_list
from holdfast.checks.iam.expressions import DocumentReader, unknown
from holdfast.checks.iam.partial_eval import PartialEvaluator
from holdfast.hcl.eval.evaluate import evaluate
from holdfast.hcl.eval.values import pairs, text_of
from holdfast.hcl.nodes import Block, Body, Call, Expression, Object, Tuple
from holdfast.hcl.nodes import Traversal as Reference
from holdfast.hcl.reader import UNKNOWN, Unknown

_MERGED: Final = (
    *("source_json", "override_json", "source_policy_documents", "override_policy_documents"),
    *("source_policy_document", "override_policy_document"),
)
_LISTS: Final = (
    *(("actions", "Action"), ("not_actions", "NotAction")),
    *(("resources", "Resource"), ("not_resources", "NotResource")),
)
_MOST_BLOCKS: Final = 30


class _Part(Struct, frozen=True):
    """The content of a block in either syntax: its attributes, and its blocks by type."""

    attributes: dict[str, Expression]
    parts: tuple[tuple[str, _Part, bool], ...]
    """Type, content, and whether there may be any number of them (a `dynamic` block)."""
    line: int
    column: int
    evaluator: PartialEvaluator
    """With the names of `dynamic` blocks around it."""

    def of(self, type_: str) -> Iterator[tuple[_Part, bool]]:
        return ((part, many) for name, part, many in self.parts if name == type_)


def document_from_data_source(body: Body, reader: DocumentReader, line: int, column: int) -> Node:
    """Without the statements of other documents: see `merged_documents`."""
    reader.reset_budget()
    part = _from_body(body, reader, line, column)
    statements: list[Node] = []
    for inner, many in part.of("statement"):
        statement = _Builder(inner.evaluator).statement(inner)
        statements.append(Node(Alternatives(statement), inner.line, inner.column) if many else statement)
    if any(name in part.attributes for name in _MERGED):
        statements.append(Node(Alternatives(), line, column))
    if "dynamic" in part.attributes:  # in JSON syntax
        statements.append(unknown(line, column))
    builder = _Builder(reader)
    version = builder.value_or("2012-10-17", part, "version")
    members = [
        builder.pair("Version", version),
        builder.pair("Statement", Node(tuple(statements), line, column)),
    ]
    id_ = builder.value_or(None, part, "policy_id")
    if id_.content is not None:
        members.append(builder.pair("Id", id_))
    return Node(Fields(pairs=tuple(members)), line, column)


def merged_documents(body: Body) -> Iterator[Expression]:
    """The documents that it includes, one by one if they are listed."""
    for name in _MERGED:
        attribute = body.attribute(name)
        if attribute is not None:
            yield from _each_document(attribute.expression)


def _each_document(expression: Expression) -> Iterator[Expression]:
    match expression:
        case Tuple(items=items):
            for item in items:
                yield from _each_document(item)
        case Call(name="compact" | "concat" | "flatten" | "distinct", arguments=arguments):
            for argument in arguments:
                yield from _each_document(argument)
        case _:
            yield expression


class _Builder:
    def __init__(self, evaluator: PartialEvaluator) -> None:
        self._evaluator = evaluator

    def value(self, expression: Expression) -> Node:
        return _as_string(self._evaluator.node(expression))

    def value_or(self, default: str | None, part: _Part, name: str) -> Node:
        """The value of an attribute; the default if it is missing or null."""
        expression = part.attributes.get(name)
        node = self.value(expression) if expression is not None else Node(None, part.line, part.column)
        return node._replace(content=default) if node.content is None else node

    def texts(self, expression: Expression) -> Node:
        node = self.value(expression)
        if not is_list(node):
            return node
        items = map(_as_string, node.items)
        # A set, as in the provider: the size of the document depends on it.
        unique = {item.content if isinstance(item.content, str) else id(item): item for item in items}
        return _one_or_list(tuple(unique.values()), node)

    def pair(self, name: str, value: Node) -> tuple[Node, Node]:
        return Node(name, value.line, value.column), value

    def statement(self, part: _Part) -> Node:
        at = (part.line, part.column)
        pairs: list[tuple[Node, Node]] = []
        sid = self.value_or(None, part, "sid")
        if sid.content not in ("", None):
            pairs.append(self.pair("Sid", sid))
        pairs.append(self.pair("Effect", self.value_or("Allow", part, "effect")))
        for name, key in _LISTS:
            if name in part.attributes:
                value = self.texts(part.attributes[name])
                if value.content not in ((), None):  # an empty list is left out, as the provider does
                    pairs.append(self.pair(key, value))
        for type_, key in (("principals", "Principal"), ("not_principals", "NotPrincipal")):
            named = list(part.of(type_))
            if named:
                pairs.append(self.pair(key, self._principals(named)))
        conditions = list(part.of("condition"))
        if conditions:
            pairs.append(self.pair("Condition", self._conditions(conditions)))
        return Node(Fields(pairs=tuple(pairs)), *at)

    def _principals(self, parts: list[tuple[_Part, bool]]) -> Node:
        at = (parts[0][0].line, parts[0][0].column)
        named: dict[str, list[Node]] = {}
        more = False
        for part, many in parts:
            builder = _Builder(part.evaluator)
            type_ = builder.attribute(part, "type")
            identifiers = part.attributes.get("identifiers")
            if type_.text is None or identifiers is None:
                more = True
                continue
            listed = builder.texts(identifiers)
            if type_.text == "*" and [item.content for item in flatten(listed)] == ["*"]:
                everyone = Node("*", listed.line, listed.column)
                return Node(Alternatives(everyone, Node(UNKNOWN, *at)), *at) if many else everyone
            items = (
                Node(Alternatives(item), item.line, item.column) if many else item for item in listed.items
            )
            named.setdefault(type_.text, []).extend(items)
        if not named:
            return unknown(*at)
        pairs = tuple(
            (Node(name, *at), _one_or_list(tuple(items), items[0] if items else Node(None, *at)))
            for name, items in named.items()
        )
        return Node(Fields(pairs=pairs, more=more), *at)

    def _conditions(self, parts: list[tuple[_Part, bool]]) -> Node:
        """A condition in a `dynamic` block with unknown elements is unknown."""
        at = (parts[0][0].line, parts[0][0].column)
        tests: dict[str, dict[object, tuple[Node, Node]]] = {}
        more = False
        for part, many in parts:
            builder = _Builder(part.evaluator)
            test, key = builder.attribute(part, "test"), builder.attribute(part, "variable")
            values = part.attributes.get("values")
            if many or test.text is None or values is None or isinstance(key.content, Unknown):
                more = True
                continue
            texts = builder.texts(values)
            before = tests.setdefault(test.text, {}).get(key.content)
            if before is not None:
                texts = texts._replace(content=(*before[1].items, *texts.items))
            here = (part.line, part.column)
            tests[test.text][key.content] = (Node(key.content, *here), Node(texts.content, *here))
        pairs = tuple(
            (Node(test, *at), Node(fields_of(tuple(keys.values())), *at)) for test, keys in tests.items()
        )
        return Node(Fields(pairs=pairs, more=more), *at)

    def attribute(self, part: _Part, name: str) -> Node:
        expression = part.attributes.get(name)
        return unknown(part.line, part.column) if expression is None else self.value(expression)


def _as_string(node: Node) -> Node:
    """As the provider reads a value: its arguments are strings, and `sid = 1` is converted."""
    text = text_of(node.content)
    return node if text is None else node._replace(content=text.replace("&{", "${"))


def _one_or_list(items: tuple[Node, ...], at: Node) -> Node:
    """The provider writes a list of one as a single value."""
    return items[0] if len(items) == 1 else Node(items, at.line, at.column)


def _from_body(body: Body, evaluator: PartialEvaluator, line: int, column: int) -> _Part:
    attributes: dict[str, Expression] = {}
    parts: list[tuple[str, _Part, bool]] = []
    for attribute in body.attributes:
        if attribute.name in _BLOCKS:
            parts.extend(_from_json(attribute.name, attribute.expression, evaluator))
        else:
            attributes[attribute.name] = attribute.expression
    for block in body.blocks:
        if block.type == "dynamic":
            parts.extend(_from_dynamic(block, evaluator, line, column))
        else:
            place = (block.place.line or line, block.place.column or column)
            parts.append((block.type, _from_body(block.body, evaluator, *place), False))
    return _Part(attributes, tuple(parts), line, column, evaluator)


def _from_dynamic(
    block: Block, evaluator: PartialEvaluator, line: int, column: int
) -> Iterator[tuple[str, _Part, bool]]:
    """One block for each element; if these are unknown, one alternative."""
    name = block.labels[0] if block.labels else ""
    place = (block.place.line or line, block.place.column or column)
    each, called = block.body.attribute("for_each"), block.body.attribute("iterator")
    iterator = called.expression.root if called and isinstance(called.expression, Reference) else name
    collection = evaluate(each.expression, evaluator.scope) if each is not None else UNKNOWN
    elements = pairs(collection)
    for content in block.body.blocks_of("content"):
        if elements is None or len(elements) > _MOST_BLOCKS:
            hole = collection if isinstance(collection, Unknown) else UNKNOWN
            inner = evaluator.with_names({iterator: {"key": hole, "value": hole}})
            yield name, _from_body(content.body, inner, *place), True
            continue
        for key, value in elements:
            inner = evaluator.with_names({iterator: {"key": key, "value": value}})
            yield name, _from_body(content.body, inner, *place), False


_BLOCKS = ("statement", "principals", "not_principals", "condition")


def _from_json(
    type_: str, expression: Expression, evaluator: PartialEvaluator
) -> Iterator[tuple[str, _Part, bool]]:
    """In JSON syntax a block is an object or a list of objects."""
    if isinstance(expression, Tuple):
        for item in expression.items:
            yield from _from_json(type_, item, evaluator)
    elif isinstance(expression, Object):
        attributes: dict[str, Expression] = {}
        parts: list[tuple[str, _Part, bool]] = []
        for key, value in expression.items:
            name = str(getattr(key, "value", ""))
            if name in _BLOCKS:
                parts.extend(_from_json(name, value, evaluator))
            else:
                attributes[name] = value
        yield type_, _Part(attributes, tuple(parts), expression.line, expression.column, evaluator), False
    else:
        yield type_, _Part({}, (), expression.line, expression.column, evaluator), True
