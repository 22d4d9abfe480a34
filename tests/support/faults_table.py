"""How many kills of each kind came out how: lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_HEAD = ("", "tried", "missed", "settled by itself", "reconciled", "violations")
_KINDS = ("engine", "state", "victim", "operation", "moment")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    scenario: str
    killed: bool
    reconciled: bool
    violation: str | None
    """What was broken."""


def table(rows: Sequence[Row]) -> Iterator[str]:
    """One block for each way to sort them; every block counts all of them."""
    yield _line(_HEAD)
    for place, title in enumerate(_KINDS):
        yield f"by {title}"
        words = sorted({_word(row, place) for row in rows})
        for word in words:
            yield _counted(f"  {word}", [row for row in rows if _word(row, place) == word])
    yield _counted("all", rows)


def _word(row: Row, place: int) -> str:
    """A moment by its kind: which call or how many milliseconds is too fine for a table."""
    word = row.scenario.split(":")[place]
    if word.startswith("call-"):
        return f"call {word.rpartition('-')[2]}"
    return word.partition("+")[0].replace("-", " ") if _KINDS[place] == "moment" else word


def _counted(title: str, rows: Sequence[Row]) -> str:
    good = [row for row in rows if row.violation is None]
    numbers = (
        len(rows),
        sum(not row.killed for row in good),
        sum(row.killed and not row.reconciled for row in good),
        sum(row.reconciled for row in good),
        sum(row.violation is not None for row in rows),
    )
    return _line((title, *map(str, numbers)))


def _line(cells: Sequence[str]) -> str:
    first, *rest = cells
    return f"{first:<16}" + "".join(
        f"{cell:>{max(len(head), 8) + 2}}" for cell, head in zip(rest, _HEAD[1:], strict=True)
    )
