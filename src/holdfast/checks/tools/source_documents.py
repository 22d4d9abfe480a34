"""A file of code as a document that policies are asked about: what Conftest makes of it. Pure.

    resource "aws_eip" "a" { domain = var.d }
    {"resource": {"aws_eip": {"a": [{"domain": "${var.d}"}]}}}

Blocks are lists under their labels. What is written out is its value; what is computed is its text in `${…}`,
as it stands in the file. A text that only looks computed keeps its second sign: `$${…}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tree_sitter import Node

from holdfast.hcl.expressions import Source, expression
from holdfast.hcl.native import tree
from holdfast.hcl.nodes import Expression, Literal, Opaque, Unary
from holdfast.hcl.templates import Pieces, dedent, unmark, unquote

_BOM = b"\xef\xbb\xbf"


class _Shown(Opaque, frozen=True, kw_only=True, gc=False):
    """What stands between the texts of a template: an interpolation, or a mark such as `%{endif}`."""

    text: str
    alone: Node | None = None
    """The expression, which is all there is where there is no text beside it."""
    strips: tuple[bool, bool] = (False, False)
    """Whether it takes the white space before and after it away."""


def document(data: bytes, path: str) -> dict[str, Any]:
    """Of a file that can be read as a whole. JSON says itself what it is."""
    data = data.removeprefix(_BOM)
    if path.endswith(".json"):
        value = json.loads(data)
        return value if isinstance(value, dict) else {}
    return _Reader(Source(data=data, ascii=data.isascii())).body(tree(data))


class _Reader:
    def __init__(self, source: Source) -> None:
        self._source = source

    def body(self, node: Node) -> dict[str, Any]:
        """An attribute wins over blocks of the same name."""
        found: dict[str, Any] = {}
        bodies = [child for child in node.children if child.type == "body"] or [node]
        inside = [child for body in bodies for child in body.children]
        for child in inside:
            if child.type == "block":
                self._block(child, found)
        for child in inside:
            if child.type == "attribute":
                found[self._source.text(child.children[0])] = self._value(child.children[-1])
        return found

    def _block(self, node: Node, found: dict[str, Any]) -> None:
        names = [self._name(child) for child in node.children if child.type in ("identifier", "string_lit")]
        body = next((child for child in node.children if child.type == "body"), None)
        for label in names[:-1]:
            step = found.setdefault(label, {})
            found = step if isinstance(step, dict) else {}
        rows = found.setdefault(names[-1], [])
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
                return _joined(pieces) if alone is None else self._value(alone)
            case "tuple":
                return [self._value(child) for child in inner.children if child.type == "expression"]
            case "object":
                return dict(self._items(inner))
            case _:
                return self._computed(node)

    def _constant(self, node: Node) -> Any:
        plain = "(" not in self._source.text(node)
        match expression(node, self._source):
            case Literal(value=str() as text):
                return _escaped(text)
            case Literal(value=value):
                return value
            case Unary(operator="!", operand=Literal(value=bool() as truth)) if plain:
                return not truth
            case Unary(operator="-", operand=Literal(value=int() | float() as number)) if plain:
                return -number
            case _:
                return self._computed(node)

    def _items(self, node: Node) -> Iterator[tuple[str, Any]]:
        for element in node.children:
            sides = [child for child in element.children if child.type == "expression"]
            if element.type == "object_elem" and sides:
                yield self._key(sides[0]), self._value(sides[-1])

    def _key(self, node: Node) -> str:
        """A bare name is a text; everything else is what it would be inside a text."""
        bare = node.children[0].type == "variable_expr"
        return self._source.text(node) if bare else self._inside(node)

    def _computed(self, node: Node) -> str:
        return f"${{{self._source.text(node)}}}"

    def _inside(self, node: Node) -> str:
        """An expression inside a text."""
        inner = _only(node)
        match inner.type:
            case "literal_value":
                value = self._constant(inner)
                return value if isinstance(value, str) else json.dumps(value)
            case "template_expr":
                pieces = self._pieces(inner)
                alone = _alone(pieces)
                return _joined(pieces) if alone is None else self._inside(alone)
            case "conditional":
                condition, yes, no = (child for child in inner.children if child.type == "expression")
                other = self._inside(no)
                start = f"%{{if {self._source.text(condition)}}}{self._inside(yes)}"
                return f"{start}%{{else}}{other}%{{endif}}" if other else f"{start}%{{endif}}"
            case _:
                return self._computed(node)

    # Templates.

    def _pieces(self, node: Node) -> Pieces:
        inner = node.children[0]
        if inner.type == "heredoc_template":
            return self._heredoc(inner)
        pieces = list(self._between(inner.children, inner.start_byte + 1, inner.end_byte - 1))
        return [unquote(piece) if isinstance(piece, str) else piece for piece in _stripped(pieces)]

    def _heredoc(self, node: Node) -> Pieces:
        marks = [child for child in node.children if child.type == "heredoc_identifier"]
        data = self._source.data
        begin = data.find(b"\n", marks[0].end_byte) + 1
        end = max(begin, data.rfind(b"\n", begin - 1, marks[-1].start_byte) + 1)
        pieces = list(self._between(node.children, begin, end))
        if self._source.text(node.children[0]) == "<<-":
            pieces = dedent(pieces)
        return [unmark(piece) if isinstance(piece, str) else piece for piece in _stripped(pieces)]

    def _between(self, children: list[Node], begin: int, end: int) -> Iterator[str | Expression]:
        """Texts, cut out of the file (the parser's own lose white space), and what stands between them."""
        for child in children:
            kind = child.type
            if kind in ("template_interpolation", "template_directive"):
                yield self._cut(begin, child.start_byte)
                yield from (
                    self._marks(child.children[0]) if kind == "template_directive" else self._given(child)
                )
                begin = child.end_byte
        yield self._cut(begin, end)

    def _cut(self, begin: int, end: int) -> str:
        return self._source.data[begin:end].decode(errors="replace")

    def _given(self, node: Node) -> Iterator[str | Expression]:
        inner = next((child for child in node.children if child.type == "expression"), None)
        text = self._inside(inner) if inner is not None else self._source.text(node)
        yield _shown(node, text, inner)

    def _marks(self, node: Node) -> Iterator[str | Expression]:
        """`%{if x}a%{else}b%{endif}`, `%{for i in l}a%{endfor}`: the marks, and what is between them."""
        marks = [child for child in node.children if child.type in _MARKS]
        for mark, following in zip(marks, [*marks[1:], None], strict=True):
            yield _shown(mark, self._mark(mark))
            if following is not None:
                between = [
                    child
                    for child in node.children
                    if mark.end_byte <= child.start_byte < following.start_byte
                ]
                yield from self._between(between, mark.end_byte, following.start_byte)

    def _mark(self, node: Node) -> str:
        words = [
            self._source.text(child)
            for child in node.children
            if child.type not in ("template_directive_start", "template_directive_end", "strip_marker", ",")
        ]
        if node.type == "template_for_start":
            *names, _, collection = words[1:]
            return f"%{{for {', '.join(names)} in {collection}}}"
        return f"%{{{' '.join(words)}}}"


_MARKS = frozenset(
    (
        *("template_if_intro", "template_else_intro", "template_if_end"),
        *("template_for_start", "template_for_end"),
    )
)


def _only(node: Node) -> Node:
    """What an expression is, where it is one thing alone: no access behind it, no parentheses around it."""
    while node.type in ("expression", "collection_value"):
        children = [child for child in node.children if child.type != "comment"]
        if len(children) != 1:
            break
        node = children[0]
    return node


def _shown(node: Node, text: str, alone: Node | None = None) -> _Shown:
    kinds = [child.type for child in node.children]
    strips = (kinds[1:2] == ["strip_marker"], kinds[-2:-1] == ["strip_marker"])
    return _Shown(line=0, column=0, text=text, alone=alone, strips=strips)


def _alone(pieces: Pieces) -> Node | None:
    first, *rest = [piece for piece in pieces if piece != ""] or [""]
    return first.alone if isinstance(first, _Shown) and not rest else None


def _stripped(pieces: Pieces) -> Pieces:
    found = list(pieces)
    for number, piece in enumerate(pieces):
        if isinstance(piece, _Shown):
            before, after = piece.strips
            if before and number and isinstance(text := found[number - 1], str):
                found[number - 1] = text.rstrip()
            if after and isinstance(text := found[number + 1], str):
                found[number + 1] = text.lstrip()
    return found


def _joined(pieces: Pieces) -> str:
    return "".join(piece.text if isinstance(piece, _Shown) else _escaped(str(piece)) for piece in pieces)


def _escaped(text: str) -> str:
    return text.replace("${", "$${").replace("%{", "%%{")
