"""When a stack is looked at: by its schedule, spread over time, and sooner after a failure. Pure."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Final

from cronsim import CronSim

_FIRST_RETRY: Final = timedelta(minutes=10)
_LONGEST_RETRY: Final = timedelta(hours=6)


def next_moment(schedule: str, zone: str, after: datetime) -> datetime | None:
    """The next moment of a cron expression after a time, in UTC; None: there is none.

    A local time that a change of the clocks leaves out counts as the one after it; one that it repeats counts
    once, except in expressions that recur within the hour.
    """
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - few configurations have a schedule

    place = UTC if zone == "UTC" else ZoneInfo(zone)
    # In an hour that occurs twice, the library may begin with a moment of the first one.
    moments = (moment.astimezone(UTC) for moment in CronSim(schedule, after.astimezone(place)))
    return next((moment for moment in moments if moment > after), None)


def offset(key: str, spread: float) -> timedelta:
    """The same for one stack each time, evenly spread over all."""
    number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8])
    return timedelta(seconds=round(spread * number / 2**64, 3))


def next_due(schedule: str | None, zone: str, spread: float, key: str, now: datetime) -> datetime | None:
    """However many moments were missed, the next one is after now."""
    if schedule is None:
        return None
    shift = offset(key, spread)
    moment = next_moment(schedule, zone, now - shift)
    return None if moment is None else moment + shift


def due_after_failure(regular: datetime | None, attempts: int, now: datetime) -> datetime:
    """A stack that could not be looked at is looked at again, later each time, and at its next moment."""
    doubled: timedelta = _FIRST_RETRY * 2 ** min(attempts - 1, 10)
    retry = now + min(_LONGEST_RETRY, doubled)
    return retry if regular is None else min(retry, regular)
