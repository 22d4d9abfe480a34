"""Secrets that are known by how they look, by a table: `formats.toml` beside this file.

A pattern is only tried where one of its anchors stands, and anchors are looked for as plain text: a hundred
megabytes without any are passed in seconds.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from holdfast.kernel.values import dataclass
from holdfast.secrets.finder import Span
from holdfast.secrets.trie_regex import either

_OPEN = r"[^\s\"']*\Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One row of the table, which says what its fields mean."""

    id: str
    what: str
    anchors: tuple[str, ...]
    pattern: str
    example: tuple[str, ...]
    case: str = "exact"
    back: int = 0
    open: str = _OPEN
    longest: int = 4096


@functools.cache
def shipped_formats() -> tuple[Format, ...]:
    """Read as a file: `importlib.resources` would cost every command ten milliseconds."""
    return read_formats(Path(__file__).with_name("formats.toml").read_text("utf-8"))


def read_formats(text: str) -> tuple[Format, ...]:
    return tuple(
        Format(**{**row, "anchors": tuple(row["anchors"]), "example": tuple(row["example"])})
        for row in tomllib.loads(text)["format"]
    )


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """When it is first needed: most texts need none of them."""
    return re.compile(pattern)


class Table:
    """Some of the formats, ready to be searched for."""

    __slots__ = ("_any", "_by_anchor", "_exact", "anchors")

    def __init__(self, formats: Iterable[Format]) -> None:
        self._by_anchor = {anchor: one for one in formats for anchor in one.anchors}
        self.anchors = tuple(self._by_anchor)
        self._exact = either(key for key, one in self._by_anchor.items() if one.case != "any")
        self._any = either(key for key, one in self._by_anchor.items() if one.case == "any")

    def spans(self, text: str, lowered: str) -> Iterator[Span]:
        """What is secret by its format. `lowered` is the text in lower case, place for place."""
        for at, one in self._found(text, lowered, 0):
            found = _compiled(one.pattern).match(text, max(0, at - one.back))
            if found is not None:
                yield _secret(found)

    def open_at(self, text: str, lowered: str, start: int) -> int:
        """The first place from `start` where a match may have begun that goes on after the text."""
        for at, one in sorted(self._found(text, lowered, start), key=lambda found: found[0]):
            if len(text) - at <= one.longest and _compiled(one.open).match(text, at):
                return at
        return len(text)

    def _found(self, text: str, lowered: str, start: int) -> Iterator[tuple[int, Format]]:
        """Every anchor, with what it may be the beginning of."""
        for pattern, searched in ((self._exact, text), (self._any, lowered)):
            at = start
            while (anchor := pattern.search(searched, at)) is not None:
                at = anchor.start() + 1
                yield anchor.start(), self._by_anchor[anchor[0]]


def _secret(found: re.Match[str]) -> Span:
    """The part that is called so, if the pattern has one and it took part."""
    named = "secret" in found.re.groupindex and found["secret"] is not None
    return found.span("secret") if named else found.span()
