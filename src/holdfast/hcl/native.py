"""Native HCL syntax: from text to blocks and attributes, with every mistake and its place."""

from __future__ import annotations

import re
import time
from collections import deque

import tree_sitter_hcl
from msgspec.structs import replace
from tree_sitter import Language, Node, Parser

from holdfast.hcl.expressions import Source, expression, source_of, string
from holdfast.hcl.nodes import (
    OLD_SYNTAX,
    Attribute,
    Block,
    Body,
    Expression,
    File,
    Lazy,
    Literal,
    Opaque,
    Template,
)
from holdfast.kernel.errors import Place, Problem

_LANGUAGE = Language(tree_sitter_hcl.language())
_MOST_BYTES = 500_000
_MAX_PROBLEMS = 20
_MAX_SHOWN = 40
_MAX_INVALID_BYTES = 200
"""Problems on the lines of so many invalid bytes are left out: one is enough for each."""
_MAX_DEPTH = 50
_CHUNK = 4096
_SECONDS = 2.0
_SLOWEST = 200_000
"""Bytes per second of processor time, for a valid file on a slow machine."""
_ESCAPED_BYTE = "[\udc80-\udcff]"
_BLOCK_IN_OBJECT = re.compile(rb"[a-z_]\w*\s*\{")
_QUOTED_NAME = re.compile(rb'(?:\s|(?:#|//)[^\n]*\n)*"[^"\n]*"[ \t]*=(?![=>])')
_QUOTED_AT_START = re.compile(
    rb'(?m)^([ \t]*)"([A-Za-z_][\w-]*)"(?=(?:[ \t]+"[^"\n]*")*[ \t]*(?:\{|=(?![=>])))'
)
_EXPONENT = re.compile(rb"(?<![\w.])(?<!\w-)([0-9]+)([eE][+-]?[0-9]+)(?!\w)")
_ODD_ESCAPE = re.compile(rb"(?<!\$)\$(?=(?:\$\$)+\{)|(?<!%)%(?=(?:%%)+\{)")
_CLOSERS = {
    "block_start": "block_end",
    "tuple_start": "tuple_end",
    "object_start": "object_end",
    "quoted_template_start": "quoted_template_end",
}


def read_native(data: bytes, path: str, seconds: float = _SECONDS) -> File:
    """Continues after a mistake; the mistakes are the file's `problems`.

    The parser is not Terraform's own and may know slightly less syntax: with a problem, only a part of the
    file was read, and callers that need all of it must check.
    """
    root, complete = _parse(data, seconds)
    if root.has_error and complete and (plain := _with_fractions(root, data)) != data:
        data = plain
        root, complete = _parse(data, seconds)
    source = source_of(data)
    problems = _problems(root, source, path) if root.has_error else ()
    if not complete:
        problems = (_problem(root, source, path, "reading the whole file would take too long"), *problems)
    if _nested(data) > _MAX_DEPTH and (deep := _deep_block(root)) is not None:
        problem = _problem(deep, source, path, "blocks are nested too deeply")
        return File(path=path, body=Body(), problems=(problem, *problems))
    file = File(path=path, body=_body(root, source, path), problems=problems)
    _keep_tree(file, len(data))
    return file


_latest: deque[tuple[File, int, int]] = deque()
"""The last files that were read, each with the number of bytes read before and after it."""


def _keep_tree(file: File, size: int) -> None:
    """Builds older files completely, so that their trees are freed: these are 60 times as large as the text,
    and what is built only 7 times.
    """
    before = _latest[-1][2] if _latest else 0
    _latest.append((file, before, before + size))
    while before + size - _latest[0][1] > _MOST_BYTES and len(_latest) > 1:
        _build_all(_latest.popleft()[0].body)


def _build_all(body: Body) -> None:
    waiting = [body]
    while waiting:
        inner = waiting.pop()
        for attribute in inner.attributes:
            attribute.lazy.get()
        waiting.extend(block.body for block in inner.blocks)


def tree(data: bytes) -> Node:
    """The parser's own tree, for callers that need the text of a file piece by piece."""
    return _parse(data, _SECONDS)[0]


def _parse(data: bytes, seconds: float) -> tuple[Node, bool]:
    """The tree, and whether it is complete.

    Text that is no HCL at all can take the parser quadratic time. After `seconds` and the time that a valid
    file of this size takes, the rest of the text is left out.
    """
    if b"$$${" in data or b"%%%{" in data:
        # A `$` and an escaped `${`, but the parser pairs from the left. Nothing moves.
        data = _ODD_ESCAPE.sub(b"_", data)
    if len(data) <= _CHUNK:
        return Parser(_LANGUAGE).parse(data).root_node, True
    end = time.thread_time() + seconds + len(data) / _SLOWEST
    complete = True

    def chunk(offset: int, _place: object) -> bytes:
        nonlocal complete
        complete = complete and time.thread_time() < end
        return data[offset : offset + _CHUNK] if complete else b""

    return Parser(_LANGUAGE).parse(chunk).root_node, complete


def _with_fractions(root: Node, data: bytes) -> bytes:
    """With `1.0e3` for `1e3`, which the parser does not know: what follows on the line moves to the right."""

    def fraction(match: re.Match[bytes]) -> bytes:
        node = root.descendant_for_byte_range(match.start(), match.start() + 1)
        is_number = node is not None and node.type in ("numeric_lit", "ERROR")
        return b"%b.0%b" % match.groups() if is_number else match[0]

    return _EXPONENT.sub(fraction, data)


def _nested(data: bytes) -> int:
    """How deeply braces are nested at most, also those in strings and comments."""
    depth = deepest = 0
    for brace in re.finditer(rb"[{}]", data):
        depth += 1 if brace.group() == b"{" else -1
        deepest = max(deepest, depth)
    return deepest


def _deep_block(root: Node) -> Node | None:
    """A block nested more deeply than any real one: readers of blocks follow them recursively."""
    level = [root]
    for _ in range(_MAX_DEPTH):
        bodies = [part for node in level for part in node.children if part.type in ("body", "ERROR")]
        level = [block for part in (*level, *bodies) for block in part.children if block.type == "block"]
        if not level:
            return None
    return level[0]


def read_template(text: str, *, line: int, column: int) -> Expression:
    """A string in JSON syntax, or a whole template: like a heredoc, without the final newline."""
    mark = "HOLDFAST"
    while mark in text:
        mark += "_"
    data = f"x = <<{mark}\n{text}\n{mark}\n".encode()
    root = tree(data)
    source = source_of(data, (line, column))
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
    old: Problem | None = None
    waiting = [root]
    while waiting and len(problems) < _MAX_PROBLEMS:
        node = waiting.pop()
        broken = [child for child in node.children if child.has_error]
        opener = _opener(node)
        old = old or _old_syntax(node, opener, source, path)
        if opener is not None:
            mark = source.text(opener)
            problems.append(_problem(opener, source, path, f"the `{mark}` here is never closed"))
        elif node.is_missing:
            problems.append(_problem(node, source, path, f"`{node.type}` is missing"))
        elif node.is_error and not broken:
            shown = " ".join(source.text(node)[:_MAX_SHOWN].split())
            problems.append(_problem(node, source, path, f"unexpected `{shown}`"))
        waiting.extend(reversed(broken))
    old = old or _quoted_block(source, path)
    if old is not None:
        return (old,)
    if not problems:
        problems.append(_problem(root, source, path, "the file cannot be read"))
    return tuple(problems)


def _old_syntax(node: Node, opener: Node | None, source: Source, path: str) -> Problem | None:
    """A quoted argument name in a block, which causes the other problems."""
    if opener is not None and opener.type == "block_start":
        start = opener.end_byte
    elif node.is_error and node.parent is not None and node.parent.type == "attribute":
        start = node.start_byte
    elif node.is_error and (block := _BLOCK_IN_OBJECT.match(source.data, node.start_byte)) is not None:
        start = block.end()
    else:
        return None
    name = _QUOTED_NAME.match(source.data, start)
    if name is None:
        return None
    return _old("argument names", path, source.at(opener or node)[0] + name.group().count(b"\n"))


def _quoted_block(source: Source, path: str) -> Problem | None:
    """A quoted block type such as `"metadata" {`, if nothing else is wrong."""
    quoted = _QUOTED_AT_START.search(source.data)
    if quoted is None or tree(_QUOTED_AT_START.sub(rb"\1\2", source.data)).has_error:
        return None
    return _old("names of blocks and arguments", path, source.data.count(b"\n", 0, quoted.start()) + 1)


def _old(what: str, path: str, line: int) -> Problem:
    return Problem(
        code=OLD_SYNTAX,
        message=f"invalid HCL: {what} must not be quoted (this is the syntax of Terraform 0.11)",
        hint="Upgrade old code with `terraform 0.12upgrade`, a command of Terraform 0.12. Otherwise remove "
        "the quotes, or write `NAME = {` for a map.",
        place=Place(path, line),
    )


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
