"""Which derived value of a stack needs which other, so that they are filled in without going in a circle.

`environment`, `account`, `region`, `target` and `name` may be written with placeholders that name each other;
`var` stands for the variables files, whose paths may hold placeholders too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from holdfast.config.placeholders import VAR, MalformedError, parse

DERIVED: Final = ("environment", "account", "region", "target", "name")
FILES: Final = "var"
"""The values in the variables files."""

Needs = Mapping[str, tuple[str, ...]]


def direct_needs(texts: Mapping[str, Iterable[str]], captured: Collection[str]) -> Needs:
    """For each derived value the ones its text names. What the pattern captures needs nothing."""
    return {key: tuple(dict.fromkeys(_names(texts.get(key, ()), captured))) for key in (*DERIVED, FILES)}


def _names(texts: Iterable[str], captured: Collection[str]) -> Iterable[str]:
    for text in texts:
        try:
            names = parse(text).names
        except MalformedError:
            continue
        for name in names:
            key = FILES if name.startswith(VAR) else name
            if key not in captured and (key in DERIVED or key == FILES):
                yield key


def all_needs(needs: Needs, start: str) -> frozenset[str]:
    """Everything that must be known before `start` is."""
    found: set[str] = set()
    waiting = list(needs.get(start, ()))
    while waiting:
        key = waiting.pop()
        if key not in found:
            found.add(key)
            waiting.extend(needs.get(key, ()))
    return frozenset(found)


def circle(needs: Needs) -> tuple[str, ...] | None:
    """The first circle, its beginning repeated at the end: environment, account, environment."""
    for start in needs:
        if start in all_needs(needs, start):
            return _way_back(needs, start)
    return None


def _way_back(needs: Needs, start: str) -> tuple[str, ...]:
    """The shortest one."""
    ways: list[tuple[str, ...]] = [(start,)]
    for way in ways:
        for key in needs.get(way[-1], ()):
            if key == start:
                return (*way, start)
            if key not in way:
                ways.append((*way, key))
    return (start,)
