"""From the parser's tree to expressions. Unknown syntax becomes `Opaque`, with the expressions inside it."""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections.abc import Callable

from msgspec import Struct
from tree_sitter import Node

from holdfast.hcl.nodes import (
    Access,
    Binary,
    Call,
    Conditional,
    Expression,
    For,
    Literal,
    Object,
    Opaque,
    Traversal,
    Tuple,
    Unary,
    number,
)
from holdfast.hcl.templates import Pieces, dedent, template, unmark, unquote


class Source(Struct, frozen=True, kw_only=True):
    """The parsed bytes."""

    data: bytes
    inside: tuple[int, ...]
    """Bytes inside a character, by offset: columns are counted in characters, and a line may be very long."""
    place: tuple[int, int] | None = None
    """The place of everything, for text that was taken out of another file."""

    def text(self, node: Node) -> str:
        return sys.intern(self.data[node.start_byte : node.end_byte].decode(errors="replace"))

    def at(self, node: Node) -> tuple[int, int]:
        if self.place is not None:
            return self.place
        row, column = node.start_point
        if self.inside:
            begin, end = node.start_byte - column, node.start_byte
            column -= bisect_left(self.inside, end) - bisect_left(self.inside, begin)
        return row + 1, column + 1


def source_of(data: bytes, place: tuple[int, int] | None = None) -> Source:
    inside = () if data.isascii() else tuple(match.start() for match in re.finditer(rb"[\x80-\xbf]", data))
    return Source(data=data, inside=inside, place=place)


def expression(node: Node, source: Source) -> Expression:
    """Never raises: an expression that exceeds the recursion limit is opaque and marked as unread."""
    try:
        return _build(node, source)
    except RecursionError:
        return Opaque(*source.at(node), unread=True)


def _build(node: Node, source: Source) -> Expression:
    if node.type != "expression":
        return _primary(node, source)
    return _sequence([child for child in node.children if child.type != "comment"], source, node)


def _sequence(children: list[Node], source: Source, whole: Node) -> Expression:
    """A term and the accesses that follow it: `f(x)`, `.a`, `[0]`, `[*].b`."""
    if not children or any(child.is_error or child.is_missing for child in children):
        return _opaque(whole, source)
    if children[0].type == "(":
        base, rest = _parenthesised(children, source, whole)
    else:
        base, rest = _primary(children[0], source), children[1:]
    return _access(base, rest, source) if rest else base


def _parenthesised(children: list[Node], source: Source, whole: Node) -> tuple[Expression, list[Node]]:
    for at, child in enumerate(children):
        if child.type == ")":
            return _build(children[1], source), children[at + 1 :]
    return _opaque(whole, source), []


def _access(base: Expression, rest: list[Node], source: Source) -> Expression:
    steps: list[str | Expression] = []
    for node in rest:
        kind = node.type
        if kind == "get_attr":
            steps.append(source.text(node.children[-1]))
        elif kind == "index" and node.children[0].type == "new_index":
            steps.append(_build(_inner(node.children[0]), source))
        elif kind == "index":
            steps.append(_number(source.text(node).lstrip(".").strip(), source.at(node)))
        else:  # a splat: its meaning depends on the value at run time
            inside = (_with_steps(base, steps), *_inside(node, source))
            return Opaque(base.line, base.column, inside)
    return _with_steps(base, steps)


def _inner(node: Node) -> Node:
    return next((child for child in node.children if child.type == "expression"), node)


def _with_steps(base: Expression, steps: list[str | Expression]) -> Expression:
    if not steps:
        return base
    if isinstance(base, Traversal):
        return Traversal(base.line, base.column, base.root, (*base.steps, *steps))
    return Access(base.line, base.column, base, tuple(steps))


def _primary(node: Node, source: Source) -> Expression:
    if node.has_error and (node.is_error or any(child.is_error for child in node.children)):
        return _opaque(node, source)
    build = _BUILDERS.get(node.type)
    return build(node, source) if build else _opaque(node, source)


def _opaque(node: Node, source: Source) -> Expression:
    return Opaque(*source.at(node), _inside(node, source))


def _inside(node: Node, source: Source) -> tuple[Expression, ...]:
    """The outermost expressions below a node that is not one itself."""
    expressions: list[Expression] = []
    for child in node.children:
        if child.type == "expression" or child.type in _BUILDERS:
            expressions.append(_build(child, source))
        elif child.child_count:
            expressions.extend(_inside(child, source))
    return tuple(expressions)


def _first(node: Node, source: Source) -> Expression:
    return _primary(node.children[0], source)


def _number(text: str, at: tuple[int, int]) -> Expression:
    value = number(text)
    return Opaque(*at) if value is None else Literal(*at, value)


def _literal(node: Node, source: Source) -> Expression:
    inner = node.children[0] if node.children else node
    if inner.type == "string_lit":
        return string(inner, source)
    text, at = source.text(inner), source.at(node)
    if inner.type == "numeric_lit":
        return _number(text, at)
    return Literal(*at, _CONSTANTS[text]) if text in _CONSTANTS else Opaque(*at)


def string(node: Node, source: Source) -> Literal:
    """A quoted string without interpolation; also the label of a block."""
    return Literal(*source.at(node), unquote(source.text(node)[1:-1]))


def _name(node: Node, source: Source) -> Expression:
    return Traversal(*source.at(node), source.text(node), ())


def _template(node: Node, source: Source) -> Expression:
    inner = node.children[0]
    return _heredoc(inner, source) if inner.type == "heredoc_template" else _quoted(inner, source)


def _quoted(node: Node, source: Source) -> Expression:
    pieces = _pieces(node, source, node.start_byte + 1, node.end_byte - 1)
    if pieces is None:
        return _opaque(node, source)
    plain = [unquote(piece) if isinstance(piece, str) else piece for piece in pieces]
    return template(plain, source.at(node))


def _heredoc(node: Node, source: Source) -> Expression:
    marks = [child for child in node.children if child.type == "heredoc_identifier"]
    begin = source.data.find(b"\n", marks[0].end_byte) + 1
    end = source.data.rfind(b"\n", begin - 1, marks[-1].start_byte) + 1
    pieces = _pieces(node, source, begin, max(begin, end))
    if pieces is None or len(marks) == 1:
        return _opaque(node, source)
    if source.text(node.children[0]) == "<<-":
        pieces = dedent(pieces)
    plain = [unmark(piece) if isinstance(piece, str) else piece for piece in pieces]
    return template(plain, source.at(node))


def _pieces(node: Node, source: Source, begin: int, end: int) -> Pieces | None:
    """Text is everything between interpolations: the parser's own pieces lose white space.

    None for a template with a directive or a strip marker, which is not evaluated.
    """
    pieces: Pieces = []
    for child in node.children:
        if child.type == "template_directive":
            return None
        if child.type != "template_interpolation":
            continue
        if any(inner.type == "strip_marker" for inner in child.children):
            return None
        pieces.append(source.data[begin : child.start_byte].decode(errors="replace"))
        pieces.append(_build(_inner(child), source))
        begin = child.end_byte
    pieces.append(source.data[begin:end].decode(errors="replace"))
    return pieces


def _tuple(node: Node, source: Source) -> Expression:
    items = tuple(_build(child, source) for child in node.children if child.type == "expression")
    return Tuple(*source.at(node), items)


def _object(node: Node, source: Source) -> Expression:
    items: list[tuple[Expression, Expression]] = []
    for element in node.children:
        if element.type != "object_elem":
            continue
        sides = [child for child in element.children if child.type == "expression"]
        if len(sides) != 2:  # noqa: PLR2004 - a key and a value
            return _opaque(node, source)
        items.append((_key(sides[0], source), _build(sides[1], source)))
    return Object(*source.at(node), tuple(items))


def _key(node: Node, source: Source) -> Expression:
    key = _build(node, source)
    if isinstance(key, Traversal) and not key.steps and node.children[0].type != "(":
        return Literal(key.line, key.column, key.root)
    return key


def _call(node: Node, source: Source) -> Expression:
    arguments: list[Expression] = []
    expand = False
    for child in node.children:
        if child.type == "function_arguments":
            arguments = [_build(arg, source) for arg in child.children if arg.type == "expression"]
            expand = any(arg.type == "ellipsis" for arg in child.children)
    return Call(*source.at(node), source.text(node.children[0]), tuple(arguments), expand)


def _conditional(node: Node, source: Source) -> Expression:
    """The parser reads `a ? b : c ? d : e` as `(a ? b : c) ? d : e`; HCL means `a ? b : (c ? d : e)`."""
    answers: list[tuple[Node, Node]] = []
    current: Node | None = node
    condition = node
    while current is not None:
        sides = [child for child in current.children if child.type == "expression"]
        if len(sides) != 3:  # noqa: PLR2004 - a condition and two answers
            return _opaque(node, source)
        condition, yes, no = sides
        answers.append((yes, no))
        current = next((child for child in condition.children if child.type == "conditional"), None)
    result = _build(answers[0][1], source)
    conditions = [*(no for _, no in answers[1:]), condition]
    for test, (yes, _) in zip(conditions, answers, strict=True):
        result = Conditional(*source.at(test), _build(test, source), _build(yes, source), result)
    return result


def _operation(node: Node, source: Source) -> Expression:
    operation = node.children[0]
    children = [child for child in operation.children if child.type != "comment"]
    if operation.type == "unary_operation":
        return Unary(*source.at(node), children[0].type, _sequence(children[1:], source, operation))
    split = next((n for n, child in enumerate(children) if child.type in _OPERATORS), None)
    if split is None:
        return _opaque(node, source)
    left = _sequence(children[:split], source, operation)
    right = _sequence(children[split + 1 :], source, operation)
    return Binary(*source.at(node), children[split].type, left, right)


def _for(node: Node, source: Source) -> Expression:
    inner = node.children[0]
    intro = next((child for child in inner.children if child.type == "for_intro"), None)
    results = [child for child in inner.children if child.type == "expression"]
    if intro is None or not results:
        return _opaque(node, source)
    names = [source.text(child) for child in intro.children if child.type == "identifier"]
    condition = next((child for child in inner.children if child.type == "for_cond"), None)
    return For(
        *source.at(node),
        key_name=names[0] if len(names) > 1 else None,
        value_name=names[-1],
        collection=_build(_inner(intro), source),
        key=_build(results[0], source) if len(results) > 1 else None,
        value=_build(results[-1], source),
        condition=_build(_inner(condition), source) if condition else None,
        grouped=any(child.type == "ellipsis" for child in inner.children),
    )


_CONSTANTS = {"true": True, "false": False, "null": None}
_OPERATORS = frozenset(("==", "!=", "<", ">", "<=", ">=", "&&", "||", "+", "-", "*", "/", "%"))

_BUILDERS: dict[str, Callable[[Node, Source], Expression]] = {
    "literal_value": _literal,
    "variable_expr": _name,
    "template_expr": _template,
    "collection_value": _first,
    "tuple": _tuple,
    "object": _object,
    "function_call": _call,
    "conditional": _conditional,
    "operation": _operation,
    "for_expr": _for,
}
