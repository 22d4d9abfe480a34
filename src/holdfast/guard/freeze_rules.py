"""The rule about freezes, and whether one is active now in the local time of its zone.

Around a change of the clocks, a local time can occur twice or not at all: a freeze then starts at the earlier
and ends at the later moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo

from holdfast.config.guard import FIRST_MONDAY, Freeze
from holdfast.guard.decision import Reason
from holdfast.guard.plan_context import RuleInput

_MINUTE = timedelta(minutes=1)


class UnknownZoneError(Exception):
    """A time zone that is not installed on this machine."""


def freezes(given: RuleInput) -> Iterator[Reason]:
    if not given.has_changes:
        return
    for freeze in given.policy.freeze:
        rule = f"freeze {freeze.text}"
        try:
            until = frozen_until(freeze, given.context.now)
        except UnknownZoneError:
            message = (
                f"cannot check whether a freeze is active ({freeze.text}): the time zone {freeze.zone} "
                "is not installed on this machine"
            )
            yield Reason(code="HF-GUARD-12", message=message, rule=rule)
            continue
        if until is not None:
            why = f", {freeze.why}" if freeze.why else ""
            message = f"a freeze is active until {until:%Y-%m-%d %H:%M} {freeze.zone} ({freeze.text}{why})"
            yield Reason(code="HF-GUARD-12", message=message, rule=rule, effect=freeze.effect)


def frozen_until(freeze: Freeze, now: datetime) -> datetime | None:
    """When an active freeze ends, in its time zone; None if it is not active. Raises UnknownZoneError."""
    zone = _zone(freeze.zone)
    for start, end in _occurrences(freeze, now.astimezone(zone)):
        last = max(_moments(end, zone))
        if min(_moments(start, zone)) <= now < last:
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


def _occurrences(freeze: Freeze, local: datetime) -> list[tuple[int, int]]:
    """Those that may be active now."""
    if freeze.every is None:
        return [(freeze.start, freeze.end)]
    wall = (local.replace(tzinfo=None) - FIRST_MONDAY) // _MINUTE
    current = (wall - freeze.start) // freeze.every
    shifts = [number * freeze.every for number in (current - 1, current, current + 1)]
    return [(freeze.start + shift, freeze.end + shift) for shift in shifts]


def _moments(minutes: int, zone: tzinfo) -> list[datetime]:
    wall = (FIRST_MONDAY + minutes * _MINUTE).replace(tzinfo=zone)
    return [wall.replace(fold=fold).astimezone(UTC) for fold in (0, 1)]
