"""Which work directories go, and in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.settings import Work
from holdfast.terraform.workdirs.gc_policy import GcPlan, WorkdirUsage, decide, format_size

NOW = 1_000_000.0
HOUR = 3600.0
LIMITS = Work(max_age=24 * HOUR, max_size=100)


def entry(
    name: str,
    hours: float,
    size: int = 10,
    *,
    in_use: bool = False,
    unsaved: bool = False,
    unfinished: bool = False,
) -> WorkdirUsage:
    return WorkdirUsage(
        path=Path(name),
        used=NOW - hours * HOUR,
        size=size,
        in_use=in_use,
        unsaved=unsaved,
        unfinished=unfinished,
    )


def names(decision: GcPlan) -> list[str]:
    return [str(entry.path) for entry, _ in decision.remove]


@pytest.mark.parametrize(
    ("one", "everything", "goes", "why"),
    [
        (entry("a", 1), False, False, "used 60 min ago"),
        (entry("a", 24), False, False, "used 24 h ago"),
        (entry("a", 25), False, True, "not used for 25 h"),
        (entry("a", 80), False, True, "not used for 3 days"),
        (entry("a", 0.01, size=101), False, True, "work directories exceed 100 B"),
        (entry("a", 1), True, True, "--all"),
        (entry("a", 900, in_use=True), True, False, "in use"),
        (entry("a", 900, unsaved=True), True, False, "holds a state that could not be saved"),
        (entry("a", 3, unfinished=True), True, False, "its run was killed 3 h ago"),
        (entry("a", 3, size=101, unfinished=True), False, False, "its run was killed 3 h ago"),
        (entry("a", 30, unfinished=True), False, True, "not used for 30 h"),
        (entry("a", -5), False, False, "used 0 s ago"),
    ],
)
def test_one_directory(one: WorkdirUsage, everything: bool, goes: bool, why: str) -> None:  # noqa: FBT001 - a row of the table
    """Age and size decide, and what must not be lost stays whatever is asked."""
    decision = decide([one], LIMITS, now=NOW, everything=everything)
    assert (decision.remove if goes else decision.keep) == [(one, why)]
    assert len(decision.remove) + len(decision.keep) == 1


def test_what_resists_stays_with_the_reason() -> None:
    """What the system did not let us remove is kept and says why."""
    one = WorkdirUsage(path=Path("a"), used=0, size=1, error="Operation not permitted")
    ((_, why),) = decide([one], LIMITS, now=NOW, everything=True).keep
    assert why == "cannot be removed: Operation not permitted"


def test_the_oldest_go_first() -> None:
    """Only as many as it takes to fit, beginning with what was used longest ago."""
    entries = [entry("new", 1, 60), entry("middle", 2, 60), entry("old", 3, 60)]
    assert names(decide(entries, LIMITS, now=NOW)) == ["old", "middle"]


def test_what_is_protected_counts_too() -> None:
    """A large one that must stay drives out younger ones: the disk does not care whose bytes they are."""
    entries = [entry("busy", 3, 90, in_use=True), entry("a", 2, 20), entry("b", 1, 5)]
    assert names(decide(entries, LIMITS, now=NOW)) == ["a"]


def test_an_empty_work_directory_stays() -> None:
    """An entry that was not measured, or holds nothing, is no help against too much."""
    entries = [entry("unknown", 3, 0), entry("large", 2, 101)]
    assert names(decide(entries, LIMITS, now=NOW)) == ["large"]


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1 kB"), (12_345_678, "12.3 MB"), (5_000_000_000, "5 GB")],
)
def test_sizes_read_well(size: int, words: str) -> None:
    """Three digits and a unit."""
    assert format_size(size) == words
