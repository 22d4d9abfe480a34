"""One pattern for many words, sharing what they begin with: several times faster than a list of them."""

from __future__ import annotations

import re
from collections.abc import Iterable


def either(words: Iterable[str]) -> re.Pattern[str]:
    """Finds any of them, at each place the longest. Of none, nothing."""
    given = sorted(set(words))
    return re.compile(_either(given) if given else r"(?!)")


def _either(words: list[str]) -> str:
    groups: dict[str, list[str]] = {}
    for word in filter(None, words):
        groups.setdefault(word[0], []).append(word)
    if not groups:
        return ""
    return f"(?:{'|'.join(map(_branch, groups.values()))}){'?' if '' in words else ''}"


def _branch(words: list[str]) -> str:
    """Words that begin alike, in order: what the first and the last share, all of them share."""
    first, last = words[0], words[-1]
    differ = (at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    shared = next(differ, min(len(first), len(last)))
    return re.escape(first[:shared]) + _either([word[shared:] for word in words])


def beginnings(words: Iterable[str]) -> frozenset[str]:
    """How they begin: one character or more of each, never all of it."""
    return frozenset(word[:size] for word in words for size in range(1, len(word)))
