"""Moments of a schedule: always in the future, in local time, and right around changes of the clocks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.drift.schedule import due_after_failure, next_due, next_moment, offset

START = datetime(2026, 1, 1, tzinfo=UTC)
TIMES = st.integers(0, 2 * 366 * 1440).map(lambda minutes: START + timedelta(minutes=minutes))
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"])
SCHEDULES = st.sampled_from(["0 3 * * *", "30 2 * * *", "15 1 * * 1-5", "*/20 * * * *", "0 0 1 * *"])


@given(SCHEDULES, ZONES, st.floats(0, 7200), TIMES)
def test_the_next_moment_is_always_later(schedule: str, zone: str, spread: float, now: datetime) -> None:
    """However the clocks change: a stack is never due at once again, and never forgotten."""
    due = next_due(schedule, zone, spread, "default/a", now)
    assert due is not None
    assert now < due <= now + timedelta(days=32)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        # 02:30 does not exist on 29 March 2026 in Berlin: it counts as 03:00.
        ("2026-03-28T12:00", "2026-03-29T01:00"),
        ("2026-03-29T01:00", "2026-03-30T00:30"),
        # It exists twice on 25 October: the first one counts.
        ("2026-10-24T12:00", "2026-10-25T00:30"),
        ("2026-10-25T00:30", "2026-10-26T01:30"),
        ("2026-10-25T01:00", "2026-10-26T01:30"),
        ("2026-10-25T01:30", "2026-10-26T01:30"),
    ],
)
def test_a_local_time_counts_once(after: str, expected: str) -> None:
    """Around both changes of the clocks, whenever it is asked for."""
    moments = [datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (after, expected)]
    assert next_moment("30 2 * * *", "Europe/Berlin", moments[0]) == moments[1]


def test_stacks_are_spread_and_failures_tried_sooner() -> None:
    """Each stack has its own place; a failed one never waits longer than until its next moment."""
    places = {offset(f"default/s{number}", 1800.0) for number in range(200)}
    assert len(places) == 200
    assert timedelta(0) <= min(places) < timedelta(minutes=2)
    assert timedelta(minutes=28) < max(places) <= timedelta(minutes=30)
    now = datetime(2026, 3, 2, tzinfo=UTC)
    waits = [due_after_failure(None, attempt, now) - now for attempt in (1, 2, 3, 50)]
    assert waits == [timedelta(minutes=10), timedelta(minutes=20), timedelta(minutes=40), timedelta(hours=6)]
    regular = now + timedelta(minutes=5)
    assert due_after_failure(regular, 3, now) == regular
