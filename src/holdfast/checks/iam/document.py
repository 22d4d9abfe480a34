"""A policy document as it is written: JSON with positions, keys that stand twice, and holes.

A hole is a part that only Terraform will know (`${var.bucket}`). It may be a whole value (`UNKNOWN`) or a
part of a text (`HOLE` stands for it there). Nothing is ever said about what a hole may hold. Where it can
only be one of a few values (`var.open ? "*" : "s3:Get*"`), these are kept: see `Either`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from json import JSONDecodeError
from typing import Final, NamedTuple

from holdfast.hcl.jsontext import JsonValue, Members, parse_json
from holdfast.hcl.reader import COMPUTED, UNKNOWN, Unknown
from holdfast.kernel.patterns import pattern

HOLE: Final = "\ue000"
"""Stands in a text where something is not known. A character that AWS allows in no policy."""

BY_OBJECT: Final = "\ue001"
"""Stands after a hole that an object of Terraform fills (`aws_iam_role.a.arn`), and not a variable."""

_QUOTED = json.JSONEncoder(ensure_ascii=False).encode
_SPACE = pattern(r"[ \t\r\n]+")
_HOLES = pattern(f"[{HOLE}{BY_OBJECT}]+")
_TEXT_OR_HOLE = pattern(rf'"(?:[^"\\]|\\.)*"|{HOLE}{BY_OBJECT}?', re.DOTALL)


class Either(Unknown):
    """One of a few values: which one, or whether any, only Terraform knows.

    Whoever does not ask for its ways sees a hole. Without any, it is something that is looked at elsewhere.
    """

    __slots__ = ("ways",)

    def __init__(self, *ways: Node) -> None:
        super().__init__("EITHER")
        self.ways = ways


class Fields(NamedTuple):
    """An object: its keys in the order they are written, doubles included."""

    pairs: tuple[tuple[Node, Node], ...]
    more: bool = False
    """There may be keys that are not known."""
    partly: tuple[tuple[Node, Node], ...] = ()
    """All of those keys, where a part of each is known: `${local.host}:sub`."""

    def get(self, name: str) -> Node | None:
        """Of a key that stands twice, the last one: so do readers of JSON."""
        found = None
        for key, value in self.pairs:
            if key.content == name:
                found = value
        return found

    def has(self, name: str) -> bool:
        return any(key.content == name for key, _ in self.pairs)


class Node(NamedTuple):
    """A value and where it stands. `line` 0: the place is not known."""

    content: Content
    line: int = 0
    column: int = 0

    @property
    def known(self) -> bool:
        """Known by itself; what is inside a list or an object may not be."""
        return not isinstance(self.content, Unknown) and not (
            isinstance(self.content, str) and HOLE in self.content
        )

    @property
    def told(self) -> bool:
        """Whether there is anything at all: what is not known may be null, and then not be there."""
        return not isinstance(self.content, Unknown)

    @property
    def text(self) -> str | None:
        """A text that is known from end to end."""
        return self.content if isinstance(self.content, str) and HOLE not in self.content else None

    @property
    def fields(self) -> Fields:
        return self.content if isinstance(self.content, Fields) else _NO_FIELDS

    @property
    def items(self) -> tuple[Node, ...]:
        """A list's items; of anything else, itself alone: policies allow one value for a list of one."""
        listed = isinstance(self.content, tuple) and not isinstance(self.content, Fields)
        return self.content if listed else (self,)  # type: ignore[return-value] # just asked


Content = str | int | float | bool | None | Unknown | Fields | tuple[Node, ...]
_NO_FIELDS = Fields(pairs=())


class Malformed(NamedTuple):
    """Text that is no JSON at all."""

    message: str
    line: int
    column: int


def is_heredoc(lines: Sequence[str], line: int, column: int) -> bool:
    """Whether the text that begins here is one: what it says begins on the next line."""
    return line <= len(lines) and lines[line - 1][column - 1 :].startswith("<<")


def is_list(node: Node) -> bool:
    return isinstance(node.content, tuple) and not isinstance(node.content, Fields)


def spread(node: Node) -> Iterator[Node]:
    """The items of a list, or the one value that stands for a list of one, in every way that they may be."""
    for item in node.items:
        if isinstance(item.content, Either):
            for way in item.content.ways:
                yield from spread(way)
        else:
            yield item


def fields_of(pairs: tuple[tuple[Node, Node], ...]) -> Fields:
    """An object of which some keys may be holes."""
    sure = tuple((key, value) for key, value in pairs if key.text is not None)
    if len(sure) == len(pairs):
        return Fields(sure)
    unsure = tuple((key, value) for key, value in pairs if key.text is None)
    partly = all(isinstance(key.content, str) for key, _ in unsure)
    return Fields(sure, more=True, partly=unsure if partly else ())


def shown(text: object) -> str:
    """A text for people: holes are dots."""
    return _HOLES.sub("…", str(text))


def read_text(text: str, *, line: int = 1, columns: bool = True) -> Node | Malformed:
    """JSON that begins on this line of its file. Without `columns` only lines are told."""
    try:
        return _from_json(parse_json(_filled(text)), line - 1, columns=columns)
    except JSONDecodeError as error:
        shown = error.msg[:1].lower() + error.msg[1:]
        return Malformed(shown, error.lineno + line - 1, error.colno if columns else 0)
    except RecursionError:
        return Malformed("nested too deeply", line, 0)


def _filled(text: str) -> str:
    """A hole outside quotes is a value of its own: in quotes it can be read as one."""
    if HOLE not in text:
        return text
    return _TEXT_OR_HOLE.sub(lambda found: f'"{found[0]}"' if found[0][0] == HOLE else found[0], text)


def _from_json(value: JsonValue, above: int, *, columns: bool) -> Node:
    line, column = value.line + above, value.column if columns else 0
    content = value.content
    if isinstance(content, Members):
        pairs = tuple(
            (_from_json(key, above, columns=columns), _from_json(item, above, columns=columns))
            for key, item in content.pairs
        )
        return Node(fields_of(pairs), line, column)
    if isinstance(content, tuple):
        return Node(tuple(_from_json(item, above, columns=columns) for item in content), line, column)
    if content == HOLE:
        return Node(UNKNOWN, line, column)
    return Node(COMPUTED if content == f"{HOLE}{BY_OBJECT}" else content, line, column)


def plain(value: object, line: int = 0, column: int = 0) -> Node:
    """A value that Terraform would make, all of it standing at one place."""
    if isinstance(value, Mapping):
        pairs = tuple(
            (Node(str(key), line, column), plain(item, line, column)) for key, item in value.items()
        )
        return Node(Fields(pairs=pairs), line, column)
    if isinstance(value, tuple | list):
        return Node(tuple(plain(item, line, column) for item in value), line, column)
    if value is None or isinstance(value, str | int | float | bool | Unknown):
        return Node(value, line, column)
    return Node(UNKNOWN, line, column)


def compact(node: Node) -> str:
    """The document as `jsonencode` would write it, as far as it is known: holes are empty."""
    content = node.content
    if isinstance(content, str):
        return _HOLES.sub("", _QUOTED(content))
    if isinstance(content, Fields):
        return "{" + ",".join(f"{compact(key)}:{compact(value)}" for key, value in content.pairs) + "}"
    if isinstance(content, tuple):
        return "[" + ",".join(compact(item) for item in content) + "]"
    if isinstance(content, Unknown):
        return ""
    return _QUOTED(content)


def size(text: str) -> int:
    """How AWS counts: characters without white space."""
    return len(_HOLES.sub("", _SPACE.sub("", text)))


def doubles(node: Node) -> Iterator[tuple[Node, Node]]:
    """Every key that stands twice in one object, at any depth: the first one and the other."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        first: dict[object, Node] = {}
        for key, value in found.fields.pairs:
            if key.content in first:
                yield first[key.content], key
            first.setdefault(key.content, key)
            waiting.append(value)
        if is_list(found):
            waiting.extend(found.items)
        elif isinstance(found.content, Either):
            waiting.extend(found.content.ways)


def pinned(node: Node, line: int, column: int) -> Node:
    """The same with all of it at one place."""
    content = node.content
    if isinstance(content, Fields):
        pairs, partly = (
            tuple((pinned(key, line, column), pinned(value, line, column)) for key, value in part)
            for part in (content.pairs, content.partly)
        )
        return Node(Fields(pairs, content.more, partly), line, column)
    if isinstance(content, tuple):
        return Node(tuple(pinned(item, line, column) for item in content), line, column)
    if isinstance(content, Either):
        return Node(Either(*(pinned(way, line, column) for way in content.ways)), line, column)
    return Node(content, line, column)


def known_throughout(node: Node) -> bool:
    if isinstance(node.content, Fields):
        whole = all(known_throughout(value) for _, value in node.content.pairs)
        return whole and not node.content.more
    if is_list(node):
        return all(known_throughout(item) for item in node.items)
    return node.known
