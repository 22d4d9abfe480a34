"""Cleaning never takes what must not be lost, and takes as much as it should."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from holdfast.config.settings import Work
from holdfast.terraform.workdirs.gc_policy import WorkdirUsage, decide

NOW = 10_000.0
LIMITS = st.builds(
    Work, max_age=st.floats(min_value=0, max_value=NOW), max_size=st.integers(min_value=0, max_value=500)
)


def _entries() -> st.SearchStrategy[list[WorkdirUsage]]:
    one = st.builds(
        WorkdirUsage,
        path=st.integers(0, 10_000).map(lambda number: Path(str(number))),
        used=st.floats(min_value=0, max_value=NOW + 100),
        size=st.integers(0, 200),
        in_use=st.booleans(),
        unsaved=st.booleans(),
        unfinished=st.booleans(),
    )
    return st.lists(one, max_size=15, unique_by=lambda entry: entry.path)


@given(_entries(), LIMITS, st.booleans())
def test_nothing_that_must_stay_goes(entries: list[WorkdirUsage], limits: Work, everything: bool) -> None:  # noqa: FBT001 - Hypothesis gives it
    """In use, unsaved, or killed a short while ago: it stays. And every entry has one verdict."""
    decision = decide(entries, limits, now=NOW, everything=everything)
    for entry, _ in decision.remove:
        assert not entry.in_use
        assert not entry.unsaved
        assert not (entry.unfinished and NOW - entry.used <= limits.max_age)
    paths = [entry.path for entry, _ in (*decision.remove, *decision.keep)]
    assert sorted(paths) == sorted(entry.path for entry in entries)


@given(_entries(), LIMITS)
def test_what_stays_fits(entries: list[WorkdirUsage], limits: Work) -> None:
    """Together no more than allowed, unless only what is protected is left; and nothing too old."""
    keep = decide(entries, limits, now=NOW).keep
    free = [entry for entry, why in keep if why.startswith("used ")]
    assert all(NOW - entry.used <= limits.max_age for entry in free)
    total = sum(entry.size for entry, _ in keep)
    assert total <= limits.max_size or not any(entry.size for entry in free)


@given(_entries(), LIMITS)
def test_no_more_goes_than_must(entries: list[WorkdirUsage], limits: Work) -> None:
    """The last one that went for its size had to go: with it, it would be too much."""
    decision = decide(entries, limits, now=NOW)
    for_size = [entry for entry, why in decision.remove if why.startswith("work directories exceed")]
    if for_size:
        total = sum(entry.size for entry, _ in decision.keep)
        assert total + for_size[-1].size > limits.max_size
