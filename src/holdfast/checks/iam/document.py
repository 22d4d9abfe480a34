"""A policy document in the source: JSON with positions, duplicate keys and unknown parts.

An unknown part is one that only Terraform knows (`${var.bucket}`): a whole value (`UNKNOWN`), or a part of a
string (marked with `HOLE`). No rule reports anything about it. If it can only be one of a few values
(`var.open ? "*" : "s3:Get*"`), these are kept as `Alternatives`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from json import JSONDecodeError
from typing import Final, NamedTuple

from msgspec import Struct

from holdfast.hcl.jsonsyntax import JsonValue, Members, parse_json
from holdfast.hcl.reader import COMPUTED, UNKNOWN, Unknown
from holdfast.kernel.patterns import pattern

HOLE: Final = "\ue000"
"""Marks an unknown part of a string. AWS does not allow this character in a policy."""

BY_OBJECT: Final = "\ue001"
"""Follows a `HOLE` that comes from a resource (`aws_iam_role.a.arn`) and not from a variable."""

_QUOTED = json.JSONEncoder(ensure_ascii=False).encode
_SPACE = pattern(r"[ \t\r\n]+")
_HOLES = pattern(f"[{HOLE}{BY_OBJECT}]+")
_TEXT_OR_HOLE = pattern(rf'"(?:[^"\\]|\\.)*"|{HOLE}{BY_OBJECT}?', re.DOTALL)


class Alternatives(Unknown):
    """One of a few values; only Terraform knows which, or whether any.

    Code that does not read its options treats it as unknown. Without options, it is checked elsewhere.
    """

    __slots__ = ("options",)

    def __init__(self, *options: Node) -> None:
        super().__init__("EITHER")
        self.options = options


class Fields(NamedTuple):
    """An object: its keys in source order, with duplicates."""

    pairs: tuple[tuple[Node, Node], ...]
    more: bool = False
    """There may be unknown keys."""
    partly: tuple[tuple[Node, Node], ...] = ()
    """The keys of which only a part is known: `${local.host}:sub`."""

    def get(self, name: str) -> Node | None:
        """Of a duplicate key the last value, as JSON parsers do."""
        return next((value for key, value in reversed(self.pairs) if key.content == name), None)

    def has(self, name: str) -> bool:
        return any(key.content == name for key, _ in self.pairs)


class Node(NamedTuple):
    """A value and its place. `line` 0: unknown."""

    content: Content
    line: int = 0
    column: int = 0

    @property
    def known(self) -> bool:
        """Whether it is known; the items of a list or an object may not be."""
        return not isinstance(self.content, Unknown) and not (
            isinstance(self.content, str) and HOLE in self.content
        )

    @property
    def exists(self) -> bool:
        """Whether there is a value: an unknown one may be null."""
        return not isinstance(self.content, Unknown)

    @property
    def text(self) -> str | None:
        """A string without unknown parts."""
        return self.content if isinstance(self.content, str) and HOLE not in self.content else None

    @property
    def fields(self) -> Fields:
        return self.content if isinstance(self.content, Fields) else _NO_FIELDS

    @property
    def items(self) -> tuple[Node, ...]:
        """The items of a list, or the single value that policies allow instead of a list of one."""
        listed = isinstance(self.content, tuple) and not isinstance(self.content, Fields)
        return self.content if listed else (self,)  # type: ignore[return-value] # just asked


Content = str | int | float | bool | None | Unknown | Fields | tuple[Node, ...]
_NO_FIELDS = Fields(pairs=())


class Malformed(NamedTuple):
    """Text that is not JSON."""

    message: str
    line: int
    column: int


class Issue(Struct, frozen=True):
    """A problem at a place in a document. Rules turn it into a finding."""

    message: str
    at: Node
    hint: str | None = None
    severe: bool = True
    """False: the finding is one step milder than the severity of the rule."""
    is_note: bool = False
    group: str | None = None
    """Of the finding."""


def is_heredoc(lines: Sequence[str], line: int, column: int) -> bool:
    """Whether a heredoc starts here, whose text starts on the next line."""
    return line <= len(lines) and lines[line - 1][column - 1 :].startswith("<<")


def is_list(node: Node) -> bool:
    return isinstance(node.content, tuple) and not isinstance(node.content, Fields)


def flatten(node: Node) -> Iterator[Node]:
    """The items of a list or a single value, with the options of every alternative."""
    for item in node.items:
        if isinstance(item.content, Alternatives):
            for way in item.content.options:
                yield from flatten(way)
        else:
            yield item


def fields_of(pairs: tuple[tuple[Node, Node], ...]) -> Fields:
    """An object of which some keys may be unknown."""
    sure = tuple((key, value) for key, value in pairs if key.text is not None)
    if len(sure) == len(pairs):
        return Fields(sure)
    unsure = tuple((key, value) for key, value in pairs if key.text is None)
    partly = all(isinstance(key.content, str) for key, _ in unsure)
    return Fields(sure, more=True, partly=unsure if partly else ())


def same_word(text: str, words: Sequence[str]) -> str | None:
    """The word that differs at most in case."""
    return next((word for word in words if word.lower() == text.lower()), None)


def display_text(text: object) -> str:
    """Text for messages, with `…` for unknown parts."""
    return _HOLES.sub("…", str(text))


def read_document(text: str, *, line: int = 1, columns: bool = True) -> Node | Malformed:
    """Parses JSON that starts on this line of its file. Without `columns`, only lines are recorded."""
    try:
        return _from_json(parse_json(_quote_unknown_parts(text)), line - 1, columns=columns)
    except JSONDecodeError as error:
        message = error.msg[:1].lower() + error.msg[1:]
        return Malformed(message, error.lineno + line - 1, error.colno if columns else 0)
    except RecursionError:
        return Malformed("nested too deeply", line, 0)


def _quote_unknown_parts(text: str) -> str:
    """Puts an unknown part outside of strings in quotes, so that it can be parsed as a value."""
    if HOLE not in text:
        return text
    return _TEXT_OR_HOLE.sub(lambda token: f'"{token[0]}"' if token[0][0] == HOLE else token[0], text)


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


def node_from_value(value: object, line: int = 0, column: int = 0) -> Node:
    """A value that Terraform evaluates to, with one place for all of it."""
    if isinstance(value, Mapping):
        pairs = tuple(
            (Node(str(key), line, column), node_from_value(item, line, column)) for key, item in value.items()
        )
        return Node(Fields(pairs=pairs), line, column)
    if isinstance(value, tuple | list):
        return Node(tuple(node_from_value(item, line, column) for item in value), line, column)
    if value is None or isinstance(value, str | int | float | bool | Unknown):
        return Node(value, line, column)
    return Node(UNKNOWN, line, column)


def encode_json(node: Node) -> str:
    """The document as `jsonencode` writes it, with unknown parts empty."""
    content = node.content
    if isinstance(content, str):
        return _HOLES.sub("", _QUOTED(content))
    if isinstance(content, Fields):
        return (
            "{" + ",".join(f"{encode_json(key)}:{encode_json(value)}" for key, value in content.pairs) + "}"
        )
    if isinstance(content, tuple):
        return "[" + ",".join(encode_json(item) for item in content) + "]"
    if isinstance(content, Unknown):
        return ""
    return _QUOTED(content)


def policy_size(text: str) -> int:
    """In characters without white space, as AWS counts."""
    return len(_HOLES.sub("", _SPACE.sub("", text)))


def duplicate_keys(node: Node) -> Iterator[tuple[Node, Node]]:
    """Every duplicate key of an object, at any depth: the first and the other."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        first: dict[object, Node] = {}
        for key, value in current.fields.pairs:
            if key.content in first:
                yield first[key.content], key
            first.setdefault(key.content, key)
            waiting.append(value)
        if is_list(current):
            waiting.extend(current.items)
        elif isinstance(current.content, Alternatives):
            waiting.extend(current.content.options)


def possible_parts(document: Node) -> frozenset[int]:
    """The ids of the nodes that depend on a condition that only Terraform can decide.

    With the conditions of a statement, all of it does.
    """
    possible: set[int] = set()
    waiting = [(document, False)]
    while waiting:
        node, inside = waiting.pop()
        options = node.content.options if isinstance(node.content, Alternatives) else ()
        condition = node.fields.get("Condition")
        inside = inside or bool(options) or (condition is not None and not condition.exists)
        if inside:
            possible.add(id(node))
        children = (*options, *(part for pair in node.fields.pairs for part in pair))
        waiting.extend((child, inside) for child in (*children, *(node.items if is_list(node) else ())))
    return frozenset(possible)


def with_place(node: Node, line: int, column: int) -> Node:
    """The same node with one place for all of it."""
    content = node.content
    if isinstance(content, Fields):
        pairs, partly = (
            tuple((with_place(key, line, column), with_place(value, line, column)) for key, value in part)
            for part in (content.pairs, content.partly)
        )
        return Node(Fields(pairs, content.more, partly), line, column)
    if isinstance(content, tuple):
        return Node(tuple(with_place(item, line, column) for item in content), line, column)
    if isinstance(content, Alternatives):
        return Node(Alternatives(*(with_place(way, line, column) for way in content.options)), line, column)
    return Node(content, line, column)


def is_fully_known(node: Node) -> bool:
    if isinstance(node.content, Fields):
        whole = all(is_fully_known(value) for _, value in node.content.pairs)
        return whole and not node.content.more
    if is_list(node):
        return all(is_fully_known(item) for item in node.items)
    return node.known
