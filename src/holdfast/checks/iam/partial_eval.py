"""Evaluates expressions as far as the source allows. Nothing is guessed.

Constants are filled in, both sides of a condition and the element of a `for` are kept, the rest is unknown.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from holdfast.checks.iam.document import (
    BY_OBJECT,
    HOLE,
    Alternatives,
    Fields,
    Node,
    fields_of,
    is_fully_known,
    is_list,
    node_from_value,
    with_place,
)
from holdfast.checks.model.subjects import Module
from holdfast.checks.model.subjects import value as value_of
from holdfast.hcl.eval.evaluate import Scope, elements, evaluate
from holdfast.hcl.eval.values import parts_of, text_of
from holdfast.hcl.nodes import (
    Access,
    Attribute,
    Call,
    Conditional,
    Expression,
    For,
    Literal,
    Object,
    Template,
    Tuple,
)
from holdfast.hcl.nodes import Traversal as Reference
from holdfast.hcl.reader import COMPUTED, UNKNOWN, Unknown
from holdfast.kernel.work_limit import check_work_limit

_MOST_ELEMENTS: Final = 30
_MOST_WAYS: Final = 8
_MOST_OPTIONS: Final = 100
_MOST_STEPS: Final = 5000
_A_STEP: Final = 1000
"""Characters: strings that are built from themselves grow fast."""
_PROVIDER: Final = "aws_iam_openid_connect_provider"
_THE_SAME: Final = frozenset(
    ("distinct", "compact", "tolist", "toset", "tomap", "sort", "reverse", "sensitive", "nonsensitive")
)
"""Functions that return their argument, except for order, duplicates and type."""
_FIRST_OF: Final = frozenset(("try", "coalesce", "coalescelist"))


class PartialEvaluator:
    """Evaluates the expressions of one module."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.locals: dict[str, tuple[str, Attribute]] = {}
        for file in module.files:
            for block in file.body.blocks_of("locals"):
                self.locals.update(
                    {attribute.name: (file.path, attribute) for attribute in block.body.attributes}
                )
        scope = Scope(locals=module.code.locals)
        self.scope = scope.bind(_providers(module, scope))
        self._left = [_MOST_STEPS]
        self._within: frozenset[str] = frozenset()
        """The locals being evaluated, to stop at one that refers to itself."""

    def reset_budget(self) -> None:
        """Starts a document with a new budget of steps: a few lines can require endless work."""
        self._left[0] = _MOST_STEPS

    def _spend(self, steps: int = 1) -> bool:
        self._left[0] -= steps
        return self._left[0] >= 0

    def with_names(self, names: Mapping[str, object]) -> PartialEvaluator:
        """The same evaluator with these names: in a `for`, a `dynamic` block, a template."""
        other = copy.copy(self)
        other.scope = self.scope.bind(names)
        return other

    def text(self, expression: Expression) -> str:
        """A string with `HOLE` for each unknown part."""
        if isinstance(expression, Template):
            return "".join(self.text(piece) for piece in expression.pieces)
        value = evaluate(expression, self.scope)
        text = text_of(value)
        if text is not None:
            return text
        if isinstance(value, Unknown):
            content = self._partial_text(expression)
            if content is not None:
                return content
        return f"{HOLE}{BY_OBJECT}" if value is COMPUTED else HOLE

    def _partial_text(self, expression: Expression) -> str | None:
        match expression:
            case Reference(root="local") | Call(name="format"):
                content = self.node(expression).content
                is_text = isinstance(content, str) and self._spend(len(content) // _A_STEP)
                return content if is_text else None  # type: ignore[return-value] # just asked
            case _:
                return None

    def node(self, expression: Expression) -> Node:  # noqa: C901, PLR0911 - one line for each kind of expression
        """A value with the places of its parts, if they are where the value is."""
        check_work_limit()
        line, column = expression.line, expression.column
        if type(expression) is Literal:
            return Node(expression.value, line, column)
        match expression:
            case Object():
                pairs = tuple((self.node(key), self.node(item)) for key, item in expression.items)
                return Node(fields_of(pairs), line, column)
            case Tuple():
                return Node(tuple(self.node(item) for item in expression.items), line, column)
            case Conditional():
                return self._conditional(expression)
            case For(key=None):
                return Node(tuple(self._elements_of(expression)), line, column)
            case Call():
                return self._call(expression)
            case Access():
                return self._access(expression)
            case Reference(root="local", steps=(str() as name,)) if name in self.locals:
                return self._local(expression, name)
            case Template(pieces=(single,)):
                return self.node(single)
            case Template():
                return Node(self.text(expression), line, column)
            case _:
                return node_from_value(evaluate(expression, self.scope), line, column)

    def _conditional(self, expression: Conditional) -> Node:
        decided = evaluate(expression.condition, self.scope)
        if isinstance(decided, bool):
            return self.node(expression.yes if decided else expression.no)
        ways = (self.node(expression.yes), self.node(expression.no))
        return _any_of(ways, expression.line, expression.column)

    def _elements_of(self, expression: For) -> Iterator[Node]:
        """One value for each element; if these are unknown, one alternative."""
        evaluate(expression.collection, self.scope)  # so that the elements cost no more than one question may
        scopes = elements(expression, self.scope)
        if isinstance(scopes, Unknown) or len(scopes) > _MOST_ELEMENTS:
            unknown = scopes if isinstance(scopes, Unknown) else UNKNOWN
            names = dict.fromkeys(
                (expression.value_name, expression.key_name or expression.value_name), unknown
            )
            yield _possible(self.with_names(names).node(expression.value))
            return
        for scope in scopes:
            if not self._spend():
                yield Node(UNKNOWN, expression.line, expression.column)
                return
            included = True if expression.condition is None else evaluate(expression.condition, scope)
            if included is not False:
                node = self.with_names(scope.names).node(expression.value)
                yield node if included is True else _possible(node)

    def _call(self, call: Call) -> Node:  # noqa: PLR0911 - one line for each function
        line, column = call.line, call.column
        name = call.name.removeprefix("core::")
        match name, call.arguments:
            case "concat" | "setunion", _:
                return Node(tuple(_join_lists(self._arguments(call))), line, column)
            case "flatten", (first,):
                return Node(tuple(_flat(self.node(first))), line, column)
            case "merge", _:
                return _merge_objects(self._arguments(call), line, column)
            case "format", (Literal(value=str() as form), *given) if form.count("%") == form.count("%s"):
                return self._format(form, given, call)
            case "jsondecode", (first,):
                return self.decode_json(first)
            case _, (first,) if name in _THE_SAME:
                return self.node(first)
        result = node_from_value(evaluate(call, self.scope), line, column)
        if name in _FIRST_OF and not is_fully_known(result):
            return _any_of(map(self.node, call.arguments), line, column)
        return result

    def _arguments(self, call: Call) -> Iterator[Node]:
        for number, argument in enumerate(call.arguments, start=1):
            node = self.node(argument)
            if call.expand_final and number == len(call.arguments):
                yield from node.items
            else:
                yield node

    def _format(self, form: str, arguments: list[Expression], call: Call) -> Node:
        pieces = form.split("%s")
        texts = [self.text(argument) for argument in arguments]
        if len(texts) != len(pieces) - 1:
            return Node(UNKNOWN, call.line, call.column)
        joined = "".join(f"{piece}{text}" for piece, text in zip(pieces, [*texts, ""], strict=True))
        return Node(joined, call.line, call.column)

    def decode_json(self, argument: Expression) -> Node:
        """`jsondecode`: unknown, unless a subclass reads documents."""
        return Node(UNKNOWN, argument.line, argument.column)

    def _access(self, expression: Access) -> Node:
        node = self.node(expression.base)
        for step in expression.steps:
            if not isinstance(step, str) or isinstance(node.content, Unknown):
                break
            node = node.fields.get(step) or Node(UNKNOWN, expression.line, expression.column)
        else:
            return node
        told_elsewhere = isinstance(node.content, Alternatives) and not node.content.options
        return (
            node
            if told_elsewhere
            else node_from_value(evaluate(expression, self.scope), expression.line, expression.column)
        )

    def _local(self, expression: Reference, name: str) -> Node:
        value = evaluate(expression, self.scope)
        if not self._spend(parts_of(value, _MOST_STEPS)):
            return Node(UNKNOWN, expression.line, expression.column)
        known = node_from_value(value, expression.line, expression.column)
        if name in self._within or is_fully_known(known):
            return known
        other = copy.copy(self)
        other.scope = self.scope.unbound().bind(_providers(self.module, self.scope))
        other._within = self._within | {name}  # noqa: SLF001 - its own copy
        node = other.node(self.locals[name][1].expression)
        return with_place(node, expression.line, expression.column)


def _any_of(ways: Iterable[Node], line: int, column: int) -> Node:
    """One of these, each once: locals that refer to each other in conditions would double their number."""
    options: dict[Node, None] = {}
    for way in ways:
        inner = way.content.options if isinstance(way.content, Alternatives) else ()
        options.update(dict.fromkeys(inner or (way,)))
    few = tuple(options)[:_MOST_OPTIONS]
    rest = (Node(UNKNOWN, line, column),) if len(options) > len(few) else ()
    return Node(Alternatives(*few, *rest), line, column)


def _possible(node: Node) -> Node:
    return Node(Alternatives(node), node.line, node.column)


def _join_lists(lists: Iterable[Node]) -> Iterator[Node]:
    """The items of all lists; an unknown list is one unknown item."""
    for node in lists:
        if isinstance(node.content, Alternatives) and node.content.options:
            for way in node.content.options:
                yield from (_possible(item) for item in way.items if item.content is not None)
        else:
            yield from node.items


def _flat(node: Node) -> Iterator[Node]:
    """The same for nested lists."""
    for item in _join_lists((node,)):
        if is_list(item):
            yield from _flat(item)
        elif isinstance(item.content, Alternatives) and any(is_list(way) for way in item.content.options):
            yield from (_possible(inner) for way in item.content.options for inner in _flat(way))
        else:
            yield item


def _merge_objects(objects: Iterable[Node], line: int, column: int) -> Node:
    """Merged objects, with every alternative; of a key in several, the last counts."""
    ways = [Fields(())]
    for node in objects:
        options = node.content.options if isinstance(node.content, Alternatives) else (node,)
        if len(ways) * len(options) > _MOST_WAYS:
            ways = [way._replace(more=True) for way in ways]
        else:
            ways = [_merge_pair(way, option) for way in ways for option in options]
    nodes = tuple(Node(way, line, column) for way in ways)
    return nodes[0] if len(nodes) == 1 else Node(Alternatives(*nodes), line, column)


def _merge_pair(first: Fields, last: Node) -> Fields:
    if last.content is None:
        return first
    if not isinstance(last.content, Fields):
        return first._replace(more=True)
    again = {str(key.content) for key, _ in last.fields.pairs}
    kept = tuple(pair for pair in first.pairs if str(pair[0].content) not in again)
    return Fields(
        (*kept, *last.fields.pairs), first.more or last.fields.more, (*first.partly, *last.fields.partly)
    )


class _Objects(dict[str, object]):
    """Resources by name with a few known attributes; only Terraform knows the others."""

    def get(self, name: str, default: object = None) -> object:
        del default
        return self if name.isdigit() else super().get(name, COMPUTED)


def _providers(module: Module, scope: Scope) -> dict[str, object]:
    """The identity providers of the module: their URL is part of their ARN."""
    providers: Mapping[str, object] = module.checkout.code.once(
        ("identity providers", module.folder), lambda: _find_providers(module, scope)
    )
    return dict(providers)


def _find_providers(module: Module, scope: Scope) -> dict[str, object]:
    by_mode: dict[str, _Objects] = {}
    for resource in module.resources(_PROVIDER):
        url = value_of(resource.body, "url", scope)
        if isinstance(url, str):
            host = url.removeprefix("https://")
            arn = f"arn:{HOLE}{BY_OBJECT}:iam::{HOLE}{BY_OBJECT}:oidc-provider/{host}"
            named = by_mode.setdefault(resource.mode, _Objects())
            named[resource.name] = _Objects({"arn": arn, "id": arn, "url": host})
    names: dict[str, object] = {}
    if "managed" in by_mode:
        names[_PROVIDER] = by_mode["managed"]
    if "data" in by_mode:
        names["data"] = _Objects({_PROVIDER: by_mode["data"]})
    return names
