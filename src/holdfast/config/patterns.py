"""The grammar of path patterns: `Accounts/{account}/**/{name}.tfvars`.

`{x}` and `*` match a part of one segment, `**` any number of whole segments. `stacks/pattern.py` does the
matching; the grammar is here, so that a mistake in a pattern is reported with its line.
"""

from __future__ import annotations

import itertools
import re
from typing import Final

from msgspec import Struct

from holdfast.config.placeholders import VAR, Literal, MalformedError, Placeholder, parse

MAX_WILD: Final = 4
"""In one segment: more would be ambiguous to readers and slow to match."""
MAX_DEEP: Final = 3

_GLOB: Final = re.compile(r"(\*+)")


class Star(Struct, frozen=True, kw_only=True):
    """Any text within one segment, not captured."""


Piece = Literal | Placeholder | Star


class Named(Struct, frozen=True, kw_only=True):
    """One segment of the path."""

    pieces: tuple[Piece, ...]

    @property
    def literal(self) -> str | None:
        """The segment itself if it has no placeholder and no `*`."""
        match self.pieces:
            case (Literal(text=text),):
                return text
            case _:
                return None


class Deep(Struct, frozen=True, kw_only=True):
    """`**`: any number of segments, none included."""


Segment = Named | Deep


def parse_pattern(text: str) -> tuple[Segment, ...]:
    """Raises MalformedError, whose text says what is wrong."""
    segments = tuple(_segment(pieces) for pieces in _split(text))
    if sum(isinstance(segment, Deep) for segment in segments) > MAX_DEEP:
        raise MalformedError(f"`**` more than {MAX_DEEP} times")
    return segments


def names_in(segments: tuple[Segment, ...]) -> tuple[str, ...]:
    """The placeholders that the pattern gives values to, each once."""
    pieces = [piece for segment in segments if isinstance(segment, Named) for piece in segment.pieces]
    return tuple(dict.fromkeys(piece.name for piece in pieces if isinstance(piece, Placeholder)))


def _split(text: str) -> list[list[Literal | Placeholder]]:
    segments: list[list[Literal | Placeholder]] = [[]]
    for part in parse(text).parts:
        if isinstance(part, Placeholder):
            segments[-1].append(part)
            continue
        first, *rest = part.text.split("/")
        for index, piece in enumerate((first, *rest)):
            if index:
                segments.append([])
            if piece:
                segments[-1].append(Literal(text=piece))
    return segments


def _segment(parts: list[Literal | Placeholder]) -> Segment:
    match parts:
        case []:
            raise MalformedError("an empty part between two `/`")
        case [Literal(text="**")]:
            return Deep()
        case _:
            pieces = tuple(piece for part in parts for piece in _pieces(part))
    wild = [index for index, piece in enumerate(pieces) if not isinstance(piece, Literal)]
    if len(wild) > MAX_WILD:
        raise MalformedError(f"more than {MAX_WILD} placeholders between two `/`")
    if any(after - before == 1 for before, after in itertools.pairwise(wild)):
        raise MalformedError("two placeholders with nothing between them, so the end of the first is unclear")
    return Named(pieces=pieces)


def _pieces(part: Literal | Placeholder) -> list[Piece]:
    if isinstance(part, Placeholder):
        if part.name.startswith(VAR):
            raise MalformedError(f"{{{part.name}}} is read from the file that the pattern should find")
        return [part]
    pieces: list[Piece] = []
    for text in filter(None, _GLOB.split(part.text)):
        if text == "*":
            pieces.append(Star())
        elif text.startswith("*"):
            raise MalformedError("`**` with other text between two `/`")
        elif glob := re.search(r"[?\[\]]", text):
            raise MalformedError(f"`{glob.group()}`: only `*` and `**` are globs here")
        else:
            pieces.append(Literal(text=text))
    return pieces
