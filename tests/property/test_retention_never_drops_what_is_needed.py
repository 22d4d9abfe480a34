"""However many versions there are and however old: the newest, the current and the young ones stay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from holdfast.config.settings import BackupSettings
from holdfast.store.retention import expired

NOW = datetime(2026, 5, 1, tzinfo=UTC)
AGES = st.lists(st.none() | st.integers(min_value=-100, max_value=1000), max_size=40)


def removed(ages: list[int | None], keep: int, max_age: int, current: int) -> set[int]:
    """The places of the versions that are removed; `ages` are newest first."""

    def written(name: str) -> str | None:
        age = ages[int(name)]
        return (NOW - timedelta(seconds=age)).isoformat() if age is not None else None

    settings = BackupSettings(keep=keep, max_age=max_age)
    names = tuple(str(place) for place in range(len(ages)))
    return {int(name) for name in expired(names, written, settings, now=NOW, current=(str(current),))}


@given(ages=AGES, keep=st.integers(0, 50), max_age=st.integers(0, 1000), current=st.integers(0, 39))
def test_only_what_is_old_and_not_needed_is_removed(
    ages: list[int | None], keep: int, max_age: int, current: int
) -> None:
    """Even where the times contradict the order of the versions."""
    for place in removed(ages, keep, max_age, current):
        age = ages[place]
        assert place >= keep
        assert place != current
        assert age is not None
        assert age > max_age


@given(ages=st.lists(st.integers(-100, 1000)), keep=st.integers(0, 50), max_age=st.integers(0, 1000))
def test_everything_that_is_old_and_not_needed_is_removed(ages: list[int], keep: int, max_age: int) -> None:
    """Where every time is known and fits the order of the versions; the newest is the current one."""
    ages.sort()
    expected = {place for place, age in enumerate(ages) if place >= max(keep, 1) and age > max_age}
    assert removed([*ages], keep, max_age, 0) == expected
