"""Native HCL syntax: from text to blocks and attributes, with every mistake and its place."""

from __future__ import annotations

import re

import tree_sitter_hcl
from msgspec.structs import replace
from tree_sitter import Language, Node, Parser

from holdfast.hcl.expressions import Source, expression, string
from holdfast.hcl.nodes import Attribute, Block, Body, Expression, File, Lazy, Literal, Opaque, Template
from holdfast.kernel.errors import Place, Problem

_LANGUAGE = Language(tree_sitter_hcl.language())
_MAX_PROBLEMS = 20
_MAX_SHOWN = 40
_MAX_INVALID_BYTES = 200
"""Problems on the lines of so many invalid bytes are left out: one is enough for each."""
_ESCAPED_BYTE = "[\udc80-\udcff]"
_CLOSERS = {
    "block_start": "block_end",
    "tuple_start": "tuple_end",
    "object_start": "object_end",
    "quoted_template_start": "quoted_template_end",
}


def read_native(data: bytes, path: str) -> File:
    """Continues after a mistake; the mistakes are the file's `problems`.

    The parser is not Terraform's own and knows slightly less syntax (`1e3`): with a problem, only a part of
    the file was read, and callers that need all of it must check.
    """
    root = tree(data)
    source = Source(data=data, ascii=data.isascii())
    problems = _problems(root, source, path) if root.has_error else ()
    return File(path=path, body=_body(root, source, path), problems=problems)


def tree(data: bytes) -> Node:
    """The parser's own tree, for callers that need the text of a file piece by piece."""
    return Parser(_LANGUAGE).parse(data).root_node


def read_template(text: str, *, line: int, column: int) -> Expression:
    """A string in JSON syntax, or a whole template: like a heredoc, without the final newline."""
    mark = "HOLDFAST"
    while mark in text:
        mark += "_"
    data = f"x = <<{mark}\n{text}\n{mark}\n".encode()
    root = Parser(_LANGUAGE).parse(data).root_node
    source = Source(data=data, ascii=data.isascii(), place=(line, column))
    attributes = _body(root, source, "").attributes
    inside = tuple(attribute.expression for attribute in attributes)
    if root.has_error or len(inside) != 1:
        return Opaque(line, column, inside, unread=True)
    return _without_final_newline(inside[0])


def _without_final_newline(expression: Expression) -> Expression:
    match expression:
        case Literal(value=str() as text):
            return replace(expression, value=text.removesuffix("\n"))
        case Template(pieces=(*before, Literal(value="\n"))):
            return replace(expression, pieces=tuple(before))
        case Template(pieces=(*before, Literal(value=str()) as last)):
            return replace(expression, pieces=(*before, _without_final_newline(last)))
        case _:
            return expression


def _body(node: Node, source: Source, path: str) -> Body:
    attributes: list[Attribute] = []
    blocks: list[Block] = []
    _collect(node, source, path, attributes, blocks)
    return Body(attributes=tuple(attributes), blocks=tuple(blocks))


def _collect(node: Node, source: Source, path: str, attributes: list[Attribute], blocks: list[Block]) -> None:
    for child in node.children:
        kind = child.type
        if kind == "block":
            blocks.append(_block(child, source, path))
        elif kind == "attribute":
            attributes.append(_attribute(child, source, path))
        elif kind in ("body", "ERROR"):
            _collect(child, source, path, attributes, blocks)


def _attribute(node: Node, source: Source, path: str) -> Attribute:
    values = [child for child in node.children if child.type == "expression"]

    def build() -> Expression:
        return expression(values[-1], source) if values else Opaque(*source.at(node), unread=True)

    return Attribute(path, *source.at(node), source.text(node.children[0]), Lazy(build))


def _block(node: Node, source: Source, path: str) -> Block:
    names: list[str] = []
    body: Node | None = None
    end = node
    for child in node.children:
        kind = child.type
        if kind == "identifier":
            names.append(source.text(child))
        elif kind == "string_lit":
            names.append(str(string(child, source).value))
        elif kind == "body":
            body = child
        elif kind == "block_end":
            end = child

    def build() -> Body:
        return Body() if body is None else _body(body, source, path)

    type_ = names[0] if names else ""
    return Block(path, *source.at(node), type_, tuple(names[1:]), *source.at(end), Lazy(build))


def _problems(root: Node, source: Source, path: str) -> tuple[Problem, ...]:
    problems: list[Problem] = []
    waiting = [root]
    while waiting and len(problems) < _MAX_PROBLEMS:
        node = waiting.pop()
        broken = [child for child in node.children if child.has_error]
        opener = _opener(node)
        if opener is not None:
            mark = source.text(opener)
            problems.append(_problem(opener, source, path, f"the `{mark}` here is never closed"))
        elif node.is_missing:
            problems.append(_problem(node, source, path, f"`{node.type}` is missing"))
        elif node.is_error and not broken:
            shown = " ".join(source.text(node)[:_MAX_SHOWN].split())
            problems.append(_problem(node, source, path, f"unexpected `{shown}`"))
        waiting.extend(reversed(broken))
    if not problems:
        problems.append(_problem(root, source, path, "the file cannot be read"))
    return tuple(problems)


def _opener(node: Node) -> Node | None:
    """The unclosed brace or quote: a better place to report than the end of the file."""
    if not node.is_missing and not node.is_error:
        return None
    owner: Node | None = node
    for _ in range(3 if node.is_missing else 1):
        if owner is None:
            return None
        kinds = [child.type for child in owner.children if not child.has_error]
        for child in reversed(owner.children):
            if child.type in _CLOSERS and kinds.count(child.type) > kinds.count(_CLOSERS[child.type]):
                return child
        owner = owner.parent
    return None


def _problem(node: Node, source: Source, path: str, message: str) -> Problem:
    return Problem(
        code="HF-HCL-1",
        message=f"invalid HCL: {message}",
        hint="Run `terraform validate` in that folder for details.",
        place=Place(path, *source.at(node)),
    )


# Files that are not UTF-8


def read_not_utf8(data: bytes, path: str) -> File:
    """Reads code with `?` for each invalid byte; in comments they are no mistake, as in Terraform.

    Other encodings such as UTF-16 are not decoded.
    """
    replaced = re.sub(_ESCAPED_BYTE, "?", data.decode(errors="surrogateescape")).encode()
    invalid = [at for at, (before, after) in enumerate(zip(data, replaced, strict=True)) if before != after]
    if path.endswith(".json") or b"\0" in data:
        return File(path=path, body=Body(), problems=(_not_utf8(data, invalid[0], path),))
    root = tree(replaced)
    outside = next((at for at in invalid if not _in_comment(root, at)), None)
    file = read_native(replaced, path)
    if outside is None:
        return file
    lines = {data.count(b"\n", 0, at) + 1 for at in invalid[:_MAX_INVALID_BYTES]}
    others = (other for other in file.problems if other.place is None or other.place.line not in lines)
    return File(path=path, body=file.body, problems=(_not_utf8(data, outside, path), *others))


def _in_comment(root: Node, at: int) -> bool:
    node = root.descendant_for_byte_range(at, at + 1)
    return node is not None and node.type == "comment"


def _not_utf8(data: bytes, at: int, path: str) -> Problem:
    before = data[:at]
    line_start = before.rfind(b"\n") + 1
    column = len(before[line_start:].decode(errors="replace")) + 1
    return Problem(
        code="HF-HCL-2",
        message=f"not UTF-8 (byte {at})",
        hint="Save the file as UTF-8.",
        place=Place(file=path, line=before.count(b"\n") + 1, column=column),
    )
