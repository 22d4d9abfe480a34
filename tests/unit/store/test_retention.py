"""Only what is too many and too old is removed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.config.settings import BackupSettings
from holdfast.store.retention import expired

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
DAY = 86400.0


def removed(
    written: Mapping[str, str | None], *, keep: int, max_age: float, current: tuple[str, ...] = ()
) -> tuple[str, ...]:
    settings = BackupSettings(keep=keep, max_age=max_age)
    return expired(tuple(written), written.__getitem__, settings, now=NOW, current=current)


def days_ago(days: float) -> str:
    return (NOW - timedelta(days=days)).isoformat()


WRITTEN = {"4": days_ago(1), "3": days_ago(80), "2": days_ago(100), "1": days_ago(200)}


@pytest.mark.parametrize(
    ("keep", "max_age", "names"),
    [(1, 90, ("2", "1")), (3, 90, ("1",)), (30, 90, ()), (1, 300, ()), (2, 0, ("2", "1"))],
)
def test_count_keeps_and_age_removes(keep: int, max_age: float, names: tuple[str, ...]) -> None:
    """The newest are kept whatever their age; of the others those that are too old are removed."""
    assert removed(WRITTEN, keep=keep, max_age=max_age * DAY) == names


@pytest.mark.parametrize("keep", [0, 1])
def test_the_current_version_stays_however_old(keep: int) -> None:
    """The version that Terraform would read is never removed."""
    written = {"2": days_ago(400), "1": days_ago(500)}
    assert removed(written, keep=keep, max_age=DAY, current=("2",)) == ("1",)


@pytest.mark.parametrize("at", [None, "", "yesterday", "2020-01-01T00:00:00"])
def test_an_unknown_age_is_no_reason(at: str | None) -> None:
    """A missing or invalid time removes nothing."""
    assert removed({"2": days_ago(1), "1": at}, keep=1, max_age=0) == ()
