"""Whether a moment is inside a freeze, by the clock on the wall of its time zone.

Where clocks are changed, a moment can come twice or not at all: a freeze then begins at the earlier reading
of its beginning and ends at the later reading of its end.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

from holdfast.config.guard import Freeze

_FIRST_MONDAY = datetime(1970, 1, 5)  # noqa: DTZ001  a clock on the wall has no zone
_MINUTE = timedelta(minutes=1)


class UnknownZoneError(Exception):
    """A time zone that this machine does not know."""


def frozen_until(freeze: Freeze, now: datetime) -> datetime | None:
    """When the freeze that holds now ends, by its own clock; None if none holds. Raises UnknownZoneError."""
    zone = _zone(freeze.zone)
    for start, end in _near(freeze, now.astimezone(zone)):
        last = max(_readings(end, zone))
        if min(_readings(start, zone)) <= now < last:
            return last.astimezone(zone)
    return None


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # noqa: PLC0415  most policies have no freeze

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        if name == "UTC":
            return UTC
        raise UnknownZoneError(name) from None


def _near(freeze: Freeze, local: datetime) -> list[tuple[int, int]]:
    """The turns of it that can hold now."""
    if freeze.every is None:
        return [(freeze.start, freeze.end)]
    wall = (local.replace(tzinfo=None) - _FIRST_MONDAY) // _MINUTE
    turn = (wall - freeze.start) // freeze.every
    shifts = [number * freeze.every for number in (turn - 1, turn, turn + 1)]
    return [(freeze.start + shift, freeze.end + shift) for shift in shifts]


def _readings(minutes: int, zone: tzinfo) -> list[datetime]:
    wall = (_FIRST_MONDAY + minutes * _MINUTE).replace(tzinfo=zone)
    return [wall.replace(fold=fold).astimezone(UTC) for fold in (0, 1)]
