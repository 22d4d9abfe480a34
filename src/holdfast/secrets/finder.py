"""Finds any of many needles in one pass, at a cost that does not depend on their number.

Every needle has at least `gram + step - 1` characters, so one of its first `step` grams starts at a multiple
of `step`. Only those positions are looked up in a set, and candidates are compared in full. Adding is cheap.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator

Span = tuple[int, int]
_SHORT, _LONG = 5, 8
_HASHED = 256


class Finder:
    """Needles are only added, never removed. Thread-safe."""

    __slots__ = ("_all", "_indexes", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._all: set[str] = set()
        self._indexes = (_Index(head=_LONG, gram=4, step=5), _Index(head=_SHORT, gram=3, step=3))

    def __len__(self) -> int:
        return len(self._all)

    def add(self, texts: Iterable[str]) -> None:
        long, short = self._indexes
        with self._lock:
            for text in texts:
                if text in self._all:
                    continue
                if len(text) < _SHORT:
                    raise ValueError(f"a needle has at least {_SHORT} characters")
                self._all.add(text)
                (long if len(text) >= _LONG else short).add(text)

    def spans(self, text: str) -> list[Span]:
        """The longest match at each position, in no order; matches may overlap."""
        with self._lock:
            return [span for index in self._indexes for span in index.spans(text)]


class _Index:
    """Needles of a minimum length, by their first characters."""

    __slots__ = ("_gram", "_grams", "_head", "_heads", "_step")

    def __init__(self, *, head: int, gram: int, step: int) -> None:
        self._head, self._gram, self._step = head, gram, step
        self._grams: set[str] = set()
        self._heads: dict[str, dict[int, set[str]]] = {}
        """From the first characters to the needles, by length."""

    def add(self, text: str) -> None:
        self._heads.setdefault(text[: self._head], {}).setdefault(len(text), set()).add(text)
        self._grams.update(text[at : at + self._gram] for at in range(self._step))

    def spans(self, text: str) -> Iterator[Span]:
        if not self._grams:
            return
        gram, grams, step = self._gram, self._grams, self._step
        # The one loop over the whole text: it decides the speed.
        for hit in [at for at in range(0, len(text), step) if text[at : at + gram] in grams]:
            for start in range(max(0, hit - step + 1), hit + 1):
                needles = self._heads.get(text[start : start + self._head])
                if needles is not None and (size := _longest(needles, text, start)):
                    yield start, start + size


def _longest(by_size: dict[int, set[str]], text: str, start: int) -> int:
    """Few needles are long, and comparing ends at the first difference; hashing the text does not."""
    for size in sorted(by_size, reverse=True):
        if start + size > len(text):
            continue
        if size > _HASHED:
            if any(text.startswith(needle, start) for needle in by_size[size]):
                return size
        elif text[start : start + size] in by_size[size]:
            return size
    return 0


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Sorted; overlapping ones become one."""
    result: list[Span] = []
    for start, end in sorted(spans):
        if result and start < result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


def any_of(words: Iterable[str]) -> re.Pattern[str]:
    """Matches any of the words, the longest at each position; without words, nothing.

    It shares their prefixes: several times faster than a list of alternatives.
    """
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
