"""Converts a file of code to the document that policies get, as Conftest does. Pure.

    resource "aws_eip" "a" { domain = var.d }
    {"resource": {"aws_eip": {"a": [{"domain": "${var.d}"}]}}}

Blocks are lists under their labels. A literal is its value; any other expression is its source in `${…}`. An
escaped `$${…}` stays escaped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tree_sitter import Node

from holdfast.hcl.expressions import Source, expression, source_of
from holdfast.hcl.native import tree
from holdfast.hcl.nodes import Expression, Literal, Opaque, Unary
from holdfast.hcl.templates import Pieces, dedent, unmark, unquote

_BOM = b"\xef\xbb\xbf"


class _Sequence(Opaque, frozen=True, kw_only=True, gc=False):
    """A template sequence: an interpolation, or a directive such as `%{endif}`."""

    text: str
    alone: Node | None = None
    """The expression of an interpolation."""
    strips: tuple[bool, bool] = (False, False)
    """Whether it strips the white space before and after it."""


def document_from_source(data: bytes, path: str) -> dict[str, Any]:
    """Of a file without syntax errors. JSON stays as it is."""
    data = data.removeprefix(_BOM)
    if path.endswith(".json"):
        value = json.loads(data)
        return value if isinstance(value, dict) else {}
    return _Reader(source_of(data)).body(tree(data))


class _Reader:
    def __init__(self, source: Source) -> None:
        self._source = source

    def body(self, node: Node) -> dict[str, Any]:
        """An attribute wins over blocks of the same name."""
        values: dict[str, Any] = {}
        bodies = [child for child in node.children if child.type == "body"] or [node]
        inside = [child for body in bodies for child in body.children]
        for child in inside:
            if child.type == "block":
                self._block(child, values)
        for child in inside:
            if child.type == "attribute":
                values[self._source.text(child.children[0])] = self._value(child.children[-1])
        return values

    def _block(self, node: Node, values: dict[str, Any]) -> None:
        names = [self._name(child) for child in node.children if child.type in ("identifier", "string_lit")]
        body = next((child for child in node.children if child.type == "body"), None)
        for label in names[:-1]:
            step = values.setdefault(label, {})
            values = step if isinstance(step, dict) else {}
        rows = values.setdefault(names[-1], [])
        if isinstance(rows, list):
            rows.append(self.body(body) if body is not None else {})

    def _name(self, node: Node) -> str:
        text = self._source.text(node)
        return unquote(text[1:-1]) if node.type == "string_lit" else text

    # Expressions.

    def _value(self, node: Node) -> Any:
        inner = _only(node)
        match inner.type:
            case "literal_value" | "operation":
                return self._constant(inner)
            case "template_expr":
                pieces = self._pieces(inner)
                alone = _alone(pieces)
                return _join(pieces) if alone is None else self._value(alone)
            case "tuple":
                return [self._value(child) for child in inner.children if child.type == "expression"]
            case "object":
                return dict(self._items(inner))
            case _:
                return self._interpolated(node)

    def _constant(self, node: Node) -> Any:
        plain = "(" not in self._source.text(node)
        match expression(node, self._source):
            case Literal(value=str() as text):
                return _escape(text)
            case Literal(value=value):
                return value
            case Unary(operator="!", operand=Literal(value=bool() as truth)) if plain:
                return not truth
            case Unary(operator="-", operand=Literal(value=int() | float() as number)) if plain:
                return -number
            case _:
                return self._interpolated(node)

    def _items(self, node: Node) -> Iterator[tuple[str, Any]]:
        for element in node.children:
            sides = [child for child in element.children if child.type == "expression"]
            if element.type == "object_elem" and sides:
                yield self._key(sides[0]), self._value(sides[-1])

    def _key(self, node: Node) -> str:
        """A bare name is a string; any other key is converted as inside a template."""
        bare = node.children[0].type == "variable_expr"
        return self._source.text(node) if bare else self._inside(node)

    def _interpolated(self, node: Node) -> str:
        return f"${{{self._source.text(node)}}}"

    def _inside(self, node: Node) -> str:
        """An expression inside a template."""
        inner = _only(node)
        match inner.type:
            case "literal_value":
                value = self._constant(inner)
                return value if isinstance(value, str) else json.dumps(value)
            case "template_expr":
                pieces = self._pieces(inner)
                alone = _alone(pieces)
                return _join(pieces) if alone is None else self._inside(alone)
            case "conditional":
                condition, yes, no = (child for child in inner.children if child.type == "expression")
                other = self._inside(no)
                start = f"%{{if {self._source.text(condition)}}}{self._inside(yes)}"
                return f"{start}%{{else}}{other}%{{endif}}" if other else f"{start}%{{endif}}"
            case _:
                return self._interpolated(node)

    # Templates.

    def _pieces(self, node: Node) -> Pieces:
        inner = node.children[0]
        if inner.type == "heredoc_template":
            return self._heredoc(inner)
        pieces = list(self._between(inner.children, inner.start_byte + 1, inner.end_byte - 1))
        return [unquote(piece) if isinstance(piece, str) else piece for piece in _strip(pieces)]

    def _heredoc(self, node: Node) -> Pieces:
        marks = [child for child in node.children if child.type == "heredoc_identifier"]
        data = self._source.data
        begin = data.find(b"\n", marks[0].end_byte) + 1
        end = max(begin, data.rfind(b"\n", begin - 1, marks[-1].start_byte) + 1)
        pieces = list(self._between(node.children, begin, end))
        if self._source.text(node.children[0]) == "<<-":
            pieces = dedent(pieces)
        return [unmark(piece) if isinstance(piece, str) else piece for piece in _strip(pieces)]

    def _between(self, children: list[Node], begin: int, end: int) -> Iterator[str | Expression]:
        """Literal parts, cut out of the source because the parser drops white space, and sequences."""
        for child in children:
            kind = child.type
            if kind in ("template_interpolation", "template_directive"):
                yield self._cut(begin, child.start_byte)
                yield from (
                    self._directives(child.children[0])
                    if kind == "template_directive"
                    else self._interpolation(child)
                )
                begin = child.end_byte
        yield self._cut(begin, end)

    def _cut(self, begin: int, end: int) -> str:
        return self._source.data[begin:end].decode(errors="replace")

    def _interpolation(self, node: Node) -> Iterator[str | Expression]:
        inner = next((child for child in node.children if child.type == "expression"), None)
        text = self._inside(inner) if inner is not None else self._source.text(node)
        yield _sequence(node, text, inner)

    def _directives(self, node: Node) -> Iterator[str | Expression]:
        """`%{if x}a%{else}b%{endif}`, `%{for i in l}a%{endfor}`: directives and the text between them."""
        marks = [child for child in node.children if child.type in _DIRECTIVES]
        for mark, following in zip(marks, [*marks[1:], None], strict=True):
            yield _sequence(mark, self._directive(mark))
            if following is not None:
                between = [
                    child
                    for child in node.children
                    if mark.end_byte <= child.start_byte < following.start_byte
                ]
                yield from self._between(between, mark.end_byte, following.start_byte)

    def _directive(self, node: Node) -> str:
        words = [
            self._source.text(child)
            for child in node.children
            if child.type not in ("template_directive_start", "template_directive_end", "strip_marker", ",")
        ]
        if node.type == "template_for_start":
            *names, _, collection = words[1:]
            return f"%{{for {', '.join(names)} in {collection}}}"
        return f"%{{{' '.join(words)}}}"


_DIRECTIVES = frozenset(
    (
        *("template_if_intro", "template_else_intro", "template_if_end"),
        *("template_for_start", "template_for_end"),
    )
)


def _only(node: Node) -> Node:
    """The single node of an expression without attribute access and parentheses, else the expression."""
    while node.type in ("expression", "collection_value"):
        children = [child for child in node.children if child.type != "comment"]
        if len(children) != 1:
            break
        node = children[0]
    return node


def _sequence(node: Node, text: str, alone: Node | None = None) -> _Sequence:
    kinds = [child.type for child in node.children]
    strips = (kinds[1:2] == ["strip_marker"], kinds[-2:-1] == ["strip_marker"])
    return _Sequence(line=0, column=0, text=text, alone=alone, strips=strips)


def _alone(pieces: Pieces) -> Node | None:
    first, *rest = [piece for piece in pieces if piece != ""] or [""]
    return first.alone if isinstance(first, _Sequence) and not rest else None


def _strip(pieces: Pieces) -> Pieces:
    stripped = list(pieces)
    for index, piece in enumerate(pieces):
        if isinstance(piece, _Sequence):
            before, after = piece.strips
            if before and index and isinstance(text := stripped[index - 1], str):
                stripped[index - 1] = text.rstrip()
            if after and isinstance(text := stripped[index + 1], str):
                stripped[index + 1] = text.lstrip()
    return stripped


def _join(pieces: Pieces) -> str:
    return "".join(piece.text if isinstance(piece, _Sequence) else _escape(str(piece)) for piece in pieces)


def _escape(text: str) -> str:
    return text.replace("${", "$${").replace("%{", "%%{")
