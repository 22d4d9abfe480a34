"""The data source `aws_iam_policy_document` as the document that it makes."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from holdfast.checks.iam.document import Fields, Node
from holdfast.checks.iam.written import Writing, unknown
from holdfast.hcl.nodes import Body, Expression, Object, Tuple

TYPE = "aws_iam_policy_document"
_MERGED = (
    *("source_json", "override_json", "source_policy_documents", "override_policy_documents"),
    *("source_policy_document", "override_policy_document"),
)
_LISTS = (
    *(("actions", "Action"), ("not_actions", "NotAction")),
    *(("resources", "Resource"), ("not_resources", "NotResource")),
)


class _Part(Struct, frozen=True):
    """A block's inside, in either syntax: its attributes, and the blocks in it by type."""

    attributes: dict[str, Expression]
    parts: tuple[tuple[str, _Part, bool], ...]
    """Type, inside, and whether there may be any number of it (a `dynamic` block)."""
    line: int
    column: int

    def of(self, type_: str) -> Iterator[tuple[_Part, bool]]:
        return ((part, many) for name, part, many in self.parts if name == type_)


def document_of(body: Body, writing: Writing, line: int, column: int) -> Node:
    """Statements that other documents bring along are not known: then the list has a hole at its end."""
    part = _from_body(body, line, column)
    made = _Made(writing)
    statements: list[Node] = []
    for inner, many in part.of("statement"):
        statements.append(made.statement(inner))
        if many:
            statements.append(unknown(inner.line, inner.column))
    if any(name in part.attributes for name in _MERGED):
        statements.append(unknown(line, column))
    version = part.attributes.get("version")
    said = made.value(version) if version is not None else Node(None, line, column)
    pairs = [
        made.pair("Version", said if said.content is not None else Node("2012-10-17", line, column)),
        made.pair("Statement", Node(tuple(statements), line, column)),
    ]
    id_ = part.attributes.get("policy_id")
    if id_ is not None and (name := made.value(id_)).content is not None:
        pairs.append(made.pair("Id", name))
    return Node(Fields(pairs=tuple(pairs)), line, column)


class _Made:
    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def value(self, expression: Expression) -> Node:
        node = self._writing.node(expression)
        if isinstance(node.content, str) and "&{" in node.content:
            return node._replace(content=node.content.replace("&{", "${"))
        return node

    def texts(self, expression: Expression) -> Node:
        node = self.value(expression)
        if not isinstance(node.content, tuple) or isinstance(node.content, Fields):
            return node
        items = (
            item._replace(content=item.content.replace("&{", "${")) if isinstance(item.content, str) else item
            for item in node.items
        )
        return _one_or_list(tuple(items), node)

    def pair(self, name: str, value: Node) -> tuple[Node, Node]:
        return Node(name, value.line, value.column), value

    def statement(self, part: _Part) -> Node:
        at = (part.line, part.column)
        pairs: list[tuple[Node, Node]] = []
        sid, effect = part.attributes.get("sid"), part.attributes.get("effect")
        if sid is not None and (name := self.value(sid)).content not in ("", None):
            pairs.append(self.pair("Sid", name))
        said = self.value(effect) if effect is not None else Node("Allow", *at)
        pairs.append(self.pair("Effect", said._replace(content="Allow") if said.content is None else said))
        for name_, key in _LISTS:
            if name_ in part.attributes:
                value = self.texts(part.attributes[name_])
                if value.content not in ((), None):  # an empty list is left out, as the provider does
                    pairs.append(self.pair(key, value))
        for type_, key in (("principals", "Principal"), ("not_principals", "NotPrincipal")):
            found = list(part.of(type_))
            if found:
                pairs.append(self.pair(key, self._principals(found)))
        conditions = list(part.of("condition"))
        if any(many for _, many in conditions):
            pairs.append(self.pair("Condition", unknown(*at)))
        elif conditions:
            pairs.append(self.pair("Condition", self._conditions([inner for inner, _ in conditions])))
        return Node(Fields(pairs=tuple(pairs)), *at)

    def _principals(self, found: list[tuple[_Part, bool]]) -> Node:
        at = (found[0][0].line, found[0][0].column)
        if any(many for _, many in found):
            return unknown(*at)
        named: dict[str, list[Node]] = {}
        for part, _ in found:
            type_ = self._attribute(part, "type")
            who = part.attributes.get("identifiers")
            if type_.text is None or who is None:
                return unknown(*at)
            listed = self.texts(who)
            if type_.text == "*" and [item.content for item in listed.items] == ["*"]:
                return Node("*", listed.line, listed.column)
            named.setdefault(type_.text, []).extend(listed.items)
        pairs = tuple(
            (Node(name, *at), _one_or_list(tuple(items), items[0] if items else Node(None, *at)))
            for name, items in named.items()
        )
        return Node(Fields(pairs=pairs), *at)

    def _conditions(self, found: list[_Part]) -> Node:
        at = (found[0].line, found[0].column)
        tests: dict[str, dict[str, Node]] = {}
        for part in found:
            test, key = self._attribute(part, "test"), self._attribute(part, "variable")
            values = part.attributes.get("values")
            if test.text is None or key.text is None or values is None:
                return unknown(*at)
            given = self.texts(values)
            before = tests.setdefault(test.text, {}).get(key.text)
            if before is not None:
                given = given._replace(content=(*before.items, *given.items))
            tests[test.text][key.text] = given._replace(line=part.line, column=part.column)
        pairs = tuple(
            (
                Node(test, *at),
                Node(Fields(pairs=tuple(self.pair(key, value) for key, value in keys.items())), *at),
            )
            for test, keys in tests.items()
        )
        return Node(Fields(pairs=pairs), *at)

    def _attribute(self, part: _Part, name: str) -> Node:
        expression = part.attributes.get(name)
        return unknown(part.line, part.column) if expression is None else self.value(expression)


def _one_or_list(items: tuple[Node, ...], at: Node) -> Node:
    """The provider writes a list of one as that one."""
    return items[0] if len(items) == 1 else Node(items, at.line, at.column)


def _from_body(body: Body, line: int, column: int) -> _Part:
    attributes: dict[str, Expression] = {}
    parts: list[tuple[str, _Part, bool]] = []
    for attribute in body.attributes:
        if attribute.name in _BLOCKS:
            parts.extend(_from_json(attribute.name, attribute.expression))
        else:
            attributes[attribute.name] = attribute.expression
    for block in body.blocks:
        place = (block.place.line or line, block.place.column or column)
        if block.type == "dynamic":
            name = block.labels[0] if block.labels else ""
            inside = block.body.blocks_of("content")
            parts.extend((name, _from_body(content.body, *place), True) for content in inside)
        else:
            parts.append((block.type, _from_body(block.body, *place), False))
    return _Part(attributes, tuple(parts), line, column)


_BLOCKS = ("statement", "principals", "not_principals", "condition")


def _from_json(type_: str, expression: Expression) -> Iterator[tuple[str, _Part, bool]]:
    """JSON syntax has no blocks: there a block is an object, or a list of objects."""
    if isinstance(expression, Tuple):
        for item in expression.items:
            yield from _from_json(type_, item)
    elif isinstance(expression, Object):
        attributes: dict[str, Expression] = {}
        parts: list[tuple[str, _Part, bool]] = []
        for key, value in expression.items:
            name = str(getattr(key, "value", ""))
            if name in _BLOCKS:
                parts.extend(_from_json(name, value))
            else:
                attributes[name] = value
        yield type_, _Part(attributes, tuple(parts), expression.line, expression.column), False
    else:
        yield type_, _Part({}, (), expression.line, expression.column), True
