"""What is too many and too old goes, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.terraform.statefile.retention import Aged, expired

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
DAY = 86400.0


def aged(name: str, days: float, *, current: bool = False) -> Aged:
    return Aged(name=name, at=(NOW - timedelta(days=days)).isoformat(), current=current)


ROW = (aged("4", 1), aged("3", 80), aged("2", 100), aged("1", 200))


@pytest.mark.parametrize(
    ("keep", "max_age", "gone"),
    [(1, 90, ("2", "1")), (3, 90, ("1",)), (30, 90, ()), (1, 300, ()), (2, 0, ("2", "1"))],
)
def test_count_keeps_and_age_drops(keep: int, max_age: float, gone: tuple[str, ...]) -> None:
    """The newest are kept whatever their age; of the others those that are too old go."""
    assert expired(ROW, keep=keep, max_age=max_age * DAY, now=NOW) == gone


def test_the_current_one_stays_however_old() -> None:
    """What Terraform would be given is no old version, wherever it stands in the row."""
    row = (aged("2", 400), aged("1", 500, current=True))
    assert expired(row, keep=1, max_age=DAY, now=NOW) == ()


@pytest.mark.parametrize("at", [None, "", "yesterday", "2020-01-01T00:00:00"])
def test_an_age_that_is_not_known_is_no_reason(at: str | None) -> None:
    """A time that is missing, or says nothing, drops nothing."""
    assert expired((aged("2", 1), Aged(name="1", at=at)), keep=1, max_age=0, now=NOW) == ()
