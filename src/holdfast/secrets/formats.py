"""Secrets with a known format, from the table `formats.toml`.

A pattern is tried only at one of its anchors, and anchors are plain text: a hundred megabytes without any
take seconds.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast.secrets.finder import Span, any_of


class Format(Struct, frozen=True, kw_only=True):
    """One row of the table; the comment there explains the fields."""

    id: str
    what: str
    anchors: tuple[str, ...]
    pattern: str
    example: tuple[str, ...]
    case: str = "exact"
    back: int = 0


@functools.cache
def shipped_formats() -> tuple[Format, ...]:
    """Each value has one line, so the table needs no TOML parser, which would slow down every command."""
    rows: list[dict[str, object]] = []
    for line in Path(__file__).with_name("formats.toml").read_text("utf-8").splitlines():
        name, assigned, value = line.partition(" = ")
        if line == "[[format]]":
            rows.append({})
        elif assigned and not line.startswith("#"):
            rows[-1][name] = value.strip("'") if value.startswith("'") else json.loads(value)
    return msgspec.convert(rows, tuple[Format, ...])


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled when first needed: most texts need no pattern."""
    return re.compile(pattern)


class FormatTable:
    __slots__ = ("_any", "_by_anchor", "_exact")

    def __init__(self, formats: Iterable[Format]) -> None:
        self._by_anchor = {anchor: row for row in formats for anchor in row.anchors}
        self._exact = any_of(anchor for anchor, row in self._by_anchor.items() if row.case != "any")
        self._any = any_of(anchor for anchor, row in self._by_anchor.items() if row.case == "any")

    def spans(self, text: str, lowered: str) -> Iterator[Span]:
        """The group `secret` of each match, or all of it. `lowered`: in lower case, equally long."""
        for pattern, searched in ((self._exact, text), (self._any, lowered)):
            at = 0
            while (anchor := pattern.search(searched, at)) is not None:
                at = anchor.start() + 1
                row = self._by_anchor[anchor[0]]
                match = _compiled(row.pattern).match(text, max(0, anchor.start() - row.back))
                if match is not None:
                    named = "secret" in match.re.groupindex and match["secret"] is not None
                    yield match.span("secret" if named else 0)
