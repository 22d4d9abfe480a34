"""Matches path patterns against paths and against the files of a tree.

A placeholder or wildcard never matches a name that starts with a dot, nor `node_modules`: files that tools
create are not stacks. Such a name only matches if the pattern spells it out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct

from holdfast.config.placeholders import Deep, Literal, Named, Placeholder, Segment, names_in, parse_pattern
from holdfast.stacks.listing import ROOT, Tree, join_path

_VISIBLE: Final = r"(?!\.|node_modules(?:/|\Z))"
_MANY: Final = rf"(?:{_VISIBLE}[^/]+/)*"
_MANY_LAST: Final = rf"{_VISIBLE}[^/]+(?:/{_VISIBLE}[^/]+)*"


class Pattern(Struct, frozen=True, kw_only=True):
    text: str
    segments: tuple[Segment, ...]
    whole: re.Pattern[str]
    each: tuple[re.Pattern[str], ...]
    """A necessary condition for the name at each segment; `whole` decides."""

    @property
    def names(self) -> tuple[str, ...]:
        return names_in(self.segments)

    def match(self, path: str) -> dict[str, str] | None:
        """The values of the placeholders, or None; each is as short as possible. The path need not exist."""
        match = self.whole.fullmatch(path)
        return match.groupdict() if match else None


@lru_cache(maxsize=256)
def compile_pattern(text: str) -> Pattern:
    segments = parse_pattern(text)
    return Pattern(
        text=text,
        segments=segments,
        whole=re.compile(_whole(segments)),
        each=tuple(re.compile(_segment(segment, set(), again=False)) for segment in segments),
    )


def _whole(segments: tuple[Segment, ...]) -> str:
    seen: set[str] = set()
    text = ""
    for index, segment in enumerate(segments):
        last = index == len(segments) - 1
        if isinstance(segment, Deep):
            text += _MANY_LAST if last else _MANY
        else:
            text += _segment(segment, seen, again=True) + ("" if last else "/")
    return text


def _segment(segment: Segment, seen: set[str], *, again: bool) -> str:
    """`again`: a placeholder that occurs twice must have the same value both times."""
    if isinstance(segment, Deep):
        return _VISIBLE + "[^/]+"
    text = "" if isinstance(segment.pieces[0], Literal) else _VISIBLE
    for piece in segment.pieces:
        match piece:
            case Literal():
                text += re.escape(piece.text)
            case Placeholder() if not again:
                text += "[^/]+"
            case Placeholder() if piece.name in seen:
                text += f"(?P={piece.name})"
            case Placeholder():
                seen.add(piece.name)
                text += f"(?P<{piece.name}>[^/]+?)"
            case _:
                text += "[^/]*"
    return text


def matching_paths(pattern: Pattern, tree: Tree, *, folders: bool) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Every file (or folder) of the tree that matches, with its values. Skips folders without a match."""
    last = len(pattern.segments) - 1
    seen: set[tuple[str, int]] = set()
    waiting: list[tuple[str, int]] = [(ROOT, 0)]
    while waiting:
        step = waiting.pop()
        listing = tree.listing(step[0]) if step not in seen else None
        seen.add(step)
        if listing is None:
            continue
        waiting += _next_steps(pattern, step, listing.folders)
        folder, index = step
        if index < last:
            continue
        for name in _matching(pattern, index, listing.folders if folders else listing.files):
            path = join_path(folder, name)
            values = pattern.match(path)
            if values is not None:
                yield path, values


def _next_steps(pattern: Pattern, step: tuple[str, int], folders: frozenset[str]) -> list[tuple[str, int]]:
    """The folders to visit next, each with the segment to match in it."""
    folder, index = step
    deep = isinstance(pattern.segments[index], Deep)
    last = index == len(pattern.segments) - 1
    below = [] if last and not deep else _matching(pattern, index, folders)
    steps = [(join_path(folder, name), index if deep else index + 1) for name in below]
    return [*steps, (folder, index + 1)] if deep and not last else steps


def _matching(pattern: Pattern, index: int, names: frozenset[str]) -> list[str]:
    segment = pattern.segments[index]
    literal = segment.literal if isinstance(segment, Named) else None
    if literal is not None:
        return [literal] if literal in names else []
    return [name for name in names if pattern.each[index].fullmatch(name)]
