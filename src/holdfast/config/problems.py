"""Collects mistakes instead of raising the first one, so that users can fix all of them at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from holdfast.kernel.errors import ConfigError, Place, Problem

MAX_PER_PLACE = 5
"""One line can be wrong for thousands of stacks: further mistakes of the same kind are only counted."""

_Hint = str | Callable[[], str | None] | None


class Problems:
    """The mistakes so far. A hint that is slow to compute is a function, called only if it is shown."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []
        self._counts: Counter[tuple[str, Place]] = Counter()

    def __len__(self) -> int:
        return self._counts.total()

    def add(self, code: str, message: str, *, place: Place, hint: _Hint = None) -> None:
        self._counts[code, place] += 1
        if self._counts[code, place] <= MAX_PER_PLACE:
            text = hint() if callable(hint) else hint
            self._problems.append(Problem(code=code, message=message, hint=text, place=place))

    def extend(self, problems: Iterable[Problem], *, place: Place) -> None:
        """Add the problems of another reader; `place` is for those without one."""
        for problem in problems:
            self.add(problem.code, problem.message, place=problem.place or place, hint=problem.hint)

    def add_all(self, other: Problems) -> None:
        for problem in other._problems:
            self.add(problem.code, problem.message, place=problem.place or Place(file=""), hint=problem.hint)

    def sorted(self) -> tuple[Problem, ...]:
        """In the order of the file."""
        more = [
            Problem(code=code, message=f"… and {count - MAX_PER_PLACE} more of this kind", place=place)
            for (code, place), count in self._counts.items()
            if count > MAX_PER_PLACE
        ]
        nowhere = Place(file="")
        placed = [(problem.place or nowhere, problem) for problem in (*self._problems, *more)]
        placed.sort(key=lambda pair: (pair[0].file, pair[0].line or 0, pair[0].column or 0))
        return tuple(problem for _, problem in placed)

    def raise_any(self) -> None:
        if self._problems:
            raise ConfigError(self.sorted())


def closest(word: str, words: Iterable[str]) -> str | None:
    """The most similar word, if one is similar enough."""
    import difflib  # noqa: PLC0415 - only needed for a mistake

    by_lower = {candidate.lower(): candidate for candidate in words}
    near = difflib.get_close_matches(word.lower(), list(by_lower), n=1, cutoff=0.6)
    return by_lower[near[0]] if near else None


def did_you_mean(word: str, words: Iterable[str]) -> str | None:
    near = closest(word, words)
    return f"Did you mean `{near}`?" if near is not None else None


def listed(words: Iterable[str]) -> str:
    """`a`, `b` or `c`."""
    marked = [f"`{word}`" for word in words]
    return marked[0] if len(marked) == 1 else f"{', '.join(marked[:-1])} or {marked[-1]}"
