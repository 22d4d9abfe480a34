"""Finds any of very many texts in one pass, however many they are and however long the text is.

Every text that is searched for has at least `gram + step - 1` characters. So some `gram` of its first ones
stand at a place that is a multiple of `step`: only those places are looked at, in a set, and what is found
there is compared in full. It does not matter how many texts there are, and adding one is cheap.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

Span = tuple[int, int]
_SHORT, _LONG = 5, 8
_HASHED = 256


class Finder:
    """Texts are only ever added. Safe to use from several threads."""

    __slots__ = ("_all", "_begun", "_indexes", "_lock", "longest")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._all: set[str] = set()
        self._begun: set[str] = set()
        """How the texts begin: one to seven characters of each, never all of it."""
        self._indexes = (_Index(head=_LONG, gram=4, step=5), _Index(head=_SHORT, gram=3, step=3))
        self.longest = 0

    def __len__(self) -> int:
        return len(self._all)

    def add(self, texts: Iterable[str]) -> None:
        long, short = self._indexes
        with self._lock:
            for text in texts:
                if text in self._all:
                    continue
                if len(text) < _SHORT:
                    raise ValueError(f"a text to be found has at least {_SHORT} characters")
                self._all.add(text)
                self._begun.update(text[:size] for size in range(1, min(len(text), _LONG)))
                (long if len(text) >= _LONG else short).add(text)
                self.longest = max(self.longest, len(text))

    def spans(self, text: str) -> list[Span]:
        """Where they stand, the longest at each place, in no order; they may overlap."""
        with self._lock:
            return [span for index in self._indexes for span in index.spans(text)]

    def begun(self, text: str) -> bool:
        """Whether one of them begins with all of this text, and goes on."""
        with self._lock:
            return text in self._begun if len(text) < _LONG else self._indexes[0].begun(text, 0)

    def begun_at(self, text: str, start: int = 0) -> int:
        """The first place from `start` where one of them has begun and the text ends before it does."""
        with self._lock:
            if not self._all:
                return len(text)
            first = max(start, len(text) - self.longest + 1)
            long = self._indexes[0]
            for at in long.heads_in(text, first):
                if long.begun(text, at):
                    return at
            for at in range(max(first, len(text) - _LONG + 1), len(text)):
                if text[at:] in self._begun:
                    return at
            return len(text)


class _Index:
    """Texts of a least length, by how they begin."""

    __slots__ = ("_gram", "_grams", "_head", "_heads", "_step")

    def __init__(self, *, head: int, gram: int, step: int) -> None:
        self._head, self._gram, self._step = head, gram, step
        self._grams: set[str] = set()
        self._heads: dict[str, dict[int, set[str]]] = {}
        """From the first characters to the texts, by length."""

    def add(self, text: str) -> None:
        self._heads.setdefault(text[: self._head], {}).setdefault(len(text), set()).add(text)
        self._grams.update(text[at : at + self._gram] for at in range(self._step))

    def spans(self, text: str) -> Iterator[Span]:
        if not self._grams:
            return
        gram, grams, step = self._gram, self._grams, self._step
        # The one loop that sees all of a text: it decides how fast everything here is.
        for hit in [at for at in range(0, len(text), step) if text[at : at + gram] in grams]:
            for start in range(max(0, hit - step + 1), hit + 1):
                found = self._heads.get(text[start : start + self._head])
                if found is not None and (size := _longest(found, text, start)):
                    yield start, start + size

    def heads_in(self, text: str, first: int) -> list[int]:
        """The places where one of them may stand, by its first characters alone."""
        head, heads = self._head, self._heads
        return [at for at in range(first, len(text) - head + 1) if text[at : at + head] in heads]

    def begun(self, text: str, at: int) -> bool:
        found = self._heads.get(text[at : at + self._head])
        if found is None:
            return False
        left = len(text) - at
        rest = text[at:]
        return any(one.startswith(rest) for size, several in found.items() if size > left for one in several)


def _longest(found: dict[int, set[str]], text: str, start: int) -> int:
    """Few are long; comparing one with the text ends at the first difference, hashing the text does not."""
    for size in sorted(found, reverse=True):
        if start + size > len(text):
            continue
        if size > _HASHED:
            if any(text.startswith(one, start) for one in found[size]):
                return size
        elif text[start : start + size] in found[size]:
            return size
    return 0


def merged(spans: Iterable[Span]) -> list[Span]:
    """In order, those that overlap as one."""
    result: list[Span] = []
    for start, end in sorted(spans):
        if result and start < result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result
