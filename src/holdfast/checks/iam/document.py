"""A policy document as it is written: JSON with positions, keys that stand twice, and holes.

A hole is a part that only Terraform will know (`${var.bucket}`). It may be a whole value (`UNKNOWN`) or a
part of a text (`HOLE` stands for it there). Nothing is ever said about what a hole may hold.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from json import JSONDecodeError
from typing import Final, NamedTuple

from holdfast.hcl.jsontext import JsonValue, Members, parse_json
from holdfast.hcl.reader import UNKNOWN, Unknown
from holdfast.kernel.patterns import pattern

HOLE: Final = "\ue000"
"""Stands in a text where something is not known. A character that AWS allows in no policy."""

_QUOTED = json.JSONEncoder(ensure_ascii=False).encode
_SPACE = pattern(r"[ \t\r\n]+")
_TEXT_OR_HOLE = pattern(rf'"(?:[^"\\]|\\.)*"|{HOLE}', re.DOTALL)


class Fields(NamedTuple):
    """An object: its keys in the order they are written, doubles included."""

    pairs: tuple[tuple[Node, Node], ...]
    more: bool = False
    """There may be keys that are not known."""

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


def is_list(node: Node) -> bool:
    return isinstance(node.content, tuple) and not isinstance(node.content, Fields)


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
    return _TEXT_OR_HOLE.sub(lambda found: f'"{HOLE}"' if found[0] == HOLE else found[0], text)


def _from_json(value: JsonValue, above: int, *, columns: bool) -> Node:
    line, column = value.line + above, value.column if columns else 0
    content = value.content
    if isinstance(content, Members):
        pairs = tuple(
            (_from_json(key, above, columns=columns), _from_json(item, above, columns=columns))
            for key, item in content.pairs
        )
        sure = tuple((key, item) for key, item in pairs if key.known)
        return Node(Fields(pairs=sure, more=len(sure) != len(pairs)), line, column)
    if isinstance(content, tuple):
        return Node(tuple(_from_json(item, above, columns=columns) for item in content), line, column)
    return Node(UNKNOWN if content == HOLE else content, line, column)


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
        return _QUOTED(content).replace(HOLE, "")
    if isinstance(content, Fields):
        return "{" + ",".join(f"{compact(key)}:{compact(value)}" for key, value in content.pairs) + "}"
    if isinstance(content, tuple):
        return "[" + ",".join(compact(item) for item in content) + "]"
    if isinstance(content, Unknown):
        return ""
    return _QUOTED(content)


def size(text: str) -> int:
    """How AWS counts: characters without white space."""
    return len(_SPACE.sub("", text).replace(HOLE, ""))


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


def known_throughout(node: Node) -> bool:
    if isinstance(node.content, Fields):
        whole = all(known_throughout(value) for _, value in node.content.pairs)
        return whole and not node.content.more
    if is_list(node):
        return all(known_throughout(item) for item in node.items)
    return node.known
