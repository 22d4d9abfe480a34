"""However many versions there are and however old: the newest, the current and the young ones stay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from holdfast.terraform.statefile.retention import Aged, expired

NOW = datetime(2026, 5, 1, tzinfo=UTC)


@given(
    ages=st.lists(st.none() | st.integers(min_value=-100, max_value=1000), max_size=40),
    keep=st.integers(min_value=0, max_value=50),
    max_age=st.integers(min_value=0, max_value=1000),
    current=st.integers(min_value=0, max_value=39),
)
def test_what_goes_is_old_and_not_needed(
    ages: list[int | None], keep: int, max_age: int, current: int
) -> None:
    """Everything that goes may go, and everything that may go does."""
    row = [
        Aged(
            name=str(place),
            at=(NOW - timedelta(seconds=age)).isoformat() if age is not None else None,
            current=place == current,
        )
        for place, age in enumerate(ages)
    ]
    may_go = {
        str(place)
        for place, age in enumerate(ages)
        if place >= keep and place != current and age is not None and age > max_age
    }
    assert set(expired(row, keep=keep, max_age=max_age, now=NOW)) == may_go
