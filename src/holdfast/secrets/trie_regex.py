"""One pattern for many words that shares their prefixes: several times faster than a list of alternatives."""

from __future__ import annotations

import re
from collections.abc import Iterable


def any_of(words: Iterable[str]) -> re.Pattern[str]:
    """Matches any of the words, the longest at each position. Without words it matches nothing."""
    unique = sorted(set(words))
    return re.compile(_alternatives(unique) if unique else r"(?!)")


def _alternatives(words: list[str]) -> str:
    groups: dict[str, list[str]] = {}
    for word in filter(None, words):
        groups.setdefault(word[0], []).append(word)
    if not groups:
        return ""
    return f"(?:{'|'.join(map(_branch, groups.values()))}){'?' if '' in words else ''}"


def _branch(words: list[str]) -> str:
    """For sorted words with the same first letter: the first and the last share the common prefix."""
    first, last = words[0], words[-1]
    differences = (at for at, (left, right) in enumerate(zip(first, last, strict=False)) if left != right)
    shared = next(differences, min(len(first), len(last)))
    return re.escape(first[:shared]) + _alternatives([word[shared:] for word in words])
