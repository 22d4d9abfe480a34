"""A freeze holds from its first minute to its last, by the clock on the wall, also where that is changed."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest

from holdfast.config.guard import Freeze, freeze_minutes
from holdfast.guard.freeze_rules import UnknownZoneError, frozen_until

BERLIN = ZoneInfo("Europe/Berlin")


def freeze(first: str, last: str, zone: str = "Europe/Berlin") -> Freeze:
    start, end, every = freeze_minutes(first, last)
    return Freeze(start=start, end=end, every=every, zone=zone, text="")


def berlin(text: str, fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold)


@pytest.mark.parametrize(
    ("first", "last", "inside", "outside"),
    [
        ("fri 16:00", "mon 07:00", "2026-09-04 16:00", "2026-09-04 15:59"),
        ("fri 16:00", "mon 07:00", "2026-09-07 06:59", "2026-09-07 07:00"),
        ("fri 16:00", "mon 07:00", "2026-09-06 12:00", "2026-09-09 12:00"),
        ("sat", "sun", "2026-09-06 23:59", "2026-09-07 00:00"),
        ("sun", "mon", "2026-09-07 23:59", "2026-09-08 00:00"),
        ("wed", "wed", "2026-09-02 00:00", "2026-09-03 00:00"),
        ("22:00", "06:00", "2026-09-02 05:59", "2026-09-02 06:00"),
        ("22:00", "06:00", "2026-09-02 22:00", "2026-09-02 21:59"),
        ("12:00", "13:00", "2026-09-02 12:59", "2026-09-02 13:00"),
        ("2026-12-19 18:00", "2027-01-06", "2027-01-06 23:59", "2027-01-07 00:00"),
        ("2026-12-19 18:00", "2027-01-06", "2026-12-19 18:00", "2026-12-19 17:59"),
        ("2026-12-19", "2026-12-19", "2026-12-19 00:00", "2026-12-18 23:59"),
    ],
)
def test_inside_and_outside(first: str, last: str, inside: str, outside: str) -> None:
    """Weekly, daily and once; a day alone is included to its end."""
    assert frozen_until(freeze(first, last), berlin(inside)) is not None
    assert frozen_until(freeze(first, last), berlin(outside)) is None


def test_the_clock_is_that_of_the_zone() -> None:
    """Whatever zone the moment itself is given in."""
    night = freeze("2026-09-02 00:00", "2026-09-02 01:00")
    assert frozen_until(night, datetime(2026, 9, 1, 22, 30, tzinfo=UTC)) is not None
    assert frozen_until(night, datetime(2026, 9, 2, 0, 30, tzinfo=UTC)) is None


def test_the_end_is_told_by_the_same_clock() -> None:
    """A person reads it there."""
    until = frozen_until(freeze("fri 16:00", "mon 07:00"), berlin("2026-09-05 12:00"))
    assert until is not None
    assert f"{until:%Y-%m-%d %H:%M}" == "2026-09-07 07:00"


def test_an_hour_that_comes_twice_is_frozen_to_its_second_end() -> None:
    """On 2026-10-25 in Berlin 02:30 comes twice: a freeze until then ends with the second."""
    one = freeze("2026-10-24", "2026-10-25 02:30")
    assert frozen_until(one, berlin("2026-10-25 02:45", fold=0)) is not None
    assert frozen_until(one, berlin("2026-10-25 02:29", fold=1)) is not None
    assert frozen_until(one, berlin("2026-10-25 02:30", fold=1)) is None
    late = freeze("sun 02:30", "sun 05:00")
    assert frozen_until(late, berlin("2026-10-25 02:15", fold=1)) is not None
    assert frozen_until(late, berlin("2026-10-25 02:29", fold=0)) is None


def test_an_hour_that_never_comes_still_begins_and_ends_freezes() -> None:
    """On 2026-03-29 in Berlin there is no 02:30: the freeze around it is only longer."""
    assert frozen_until(freeze("sun 02:30", "sun 05:00"), berlin("2026-03-29 03:15")) is not None
    assert frozen_until(freeze("sat 12:00", "sun 02:30"), berlin("2026-03-29 03:15")) is not None
    assert frozen_until(freeze("sat 12:00", "sun 02:30"), berlin("2026-03-29 03:45")) is None


def test_utc_needs_no_tables_and_others_are_not_guessed() -> None:
    """A machine without time zones can still keep a freeze in UTC."""
    assert frozen_until(freeze("wed", "wed", "UTC"), datetime(2026, 9, 2, 23, 59, tzinfo=UTC)) is not None
    with pytest.raises(UnknownZoneError):
        frozen_until(freeze("wed", "wed", "Europe/Nowhere"), datetime(2026, 9, 2, tzinfo=UTC))


def test_utc_needs_no_database_of_zones(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine without one a freeze in UTC still holds; any other cannot be told."""

    def nothing(name: str) -> None:
        raise ZoneInfoNotFoundError(name)

    monkeypatch.setattr(zoneinfo, "ZoneInfo", nothing)
    saturday = datetime(2026, 9, 5, 12, 0, tzinfo=UTC)
    assert frozen_until(freeze("fri 16:00", "mon 07:00", "UTC"), saturday) is not None
    with pytest.raises(UnknownZoneError):
        frozen_until(freeze("fri 16:00", "mon 07:00"), saturday)
