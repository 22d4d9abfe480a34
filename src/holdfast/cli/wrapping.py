"""Wraps a line for a terminal: between words, with a hanging indent, and commands in one piece. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

Styled = tuple[str, str]
"""A text and its style."""

_START = re.compile(r"\s*(?:[^\w\s\"'`([{</]{1,2} +)?")
"""The indent of a line and its mark."""
_HANG = 2
_NARROWEST = 30
"""Below this many columns a terminal wraps better than we could."""
_COMMAND = re.compile(
    r"\bholdfast (?:[a-z]|--)(?:\"[^\"]*\"|'[^']*'|[^\"'\n])*?(?=$|[.;,)]+(?: |$)|`| {2,}|\n)"
)
_CONTINUED = " \\"
_REST = re.compile(r"\S*")
_WORD = re.compile(r"(?:\"[^\"\s][^\"]{0,30}\"|\S)+")


def wrap(pieces: Sequence[Styled], width: int) -> list[list[Styled]]:
    """The lines to print. A text that fits is one line, unchanged."""
    text = "".join(part for part, _ in pieces)
    if width < _NARROWEST or (columns(text) <= width and "\n" not in text):
        return [list(pieces)]
    lines: list[list[Styled]] = []
    offset = 0
    for line in text.split("\n"):
        for number, (start, end, more) in enumerate(_breaks(line, width)):
            indent = " " * _indent(line, width) if number else ""
            shown = _cut(pieces, offset + start, offset + end)
            lines.append([(indent, ""), *shown, (_CONTINUED if more else "", "")])
        offset += len(line) + 1
    return lines


def columns(text: str) -> int:
    """How many columns of a terminal a text needs."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


def _indent(line: str, width: int) -> int:
    """Where wrapped lines start: below the text of the first one, a little to the right."""
    start = _START.match(line)
    return min((start.end() if start is not None else 0) + _HANG, width // 3)


def _breaks(line: str, width: int) -> Iterator[tuple[int, int, bool]]:
    """Start and end of each line, and whether the next one continues a command."""
    first = _START.match(line)
    start, end = 0, first.end() if first is not None else 0
    used, room, limit = end, width - _indent(line, width), width
    for left, right, long_command in _units(line, room):
        needed = columns(line[end:right])
        inside = long_command is not None and long_command < left
        fits = used + needed <= limit - len(_CONTINUED) * inside and long_command != left
        if line[start:end].strip() and not fits:
            yield start, end, inside
            start, limit, used, needed = left, room, 0, columns(line[left:right])
        used, end = used + needed, right
    yield start, end, False


def _units(line: str, room: int) -> Iterator[tuple[int, int, int | None]]:
    """What is not broken: a word, or a command that fits in one line.

    A longer command begins a line and is broken like a shell command, so that it can still be copied: its
    words come with the place where it starts.
    """
    commands = [match.span() for match in _COMMAND.finditer(line)]
    position = 0
    for word in _WORD.finditer(line):
        left, right = word.span()
        if left < position:
            continue
        command = next((span for span in commands if span[0] <= left < span[1]), None)
        if command is not None and columns(line[slice(*command)]) <= room:
            after = _REST.match(line, max(command[1], right))
            right, command = (after.end() if after is not None else right), None
        position = right
        yield left, right, command[0] if command is not None else None


def _cut(pieces: Sequence[Styled], start: int, end: int) -> list[Styled]:
    """The part of the pieces between two positions of their text."""
    cut: list[Styled] = []
    position = 0
    for text, style in pieces:
        part = text[max(start - position, 0) : max(end - position, 0)]
        if part:
            cut.append((part, style))
        position += len(text)
    return cut
