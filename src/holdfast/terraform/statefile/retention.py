"""Which old versions of a state to remove: by count and by age. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct


class Aged(Struct, frozen=True, kw_only=True):
    """A version or snapshot with its age."""

    name: str
    at: str | None
    """When it was written; None: unknown."""
    current: bool = False


def expired(entries: Sequence[Aged], *, keep: int, max_age: float, now: datetime) -> tuple[str, ...]:
    """The names of the entries to remove; `entries` are newest first.

    Never one of the newest `keep`, the current one, or one of unknown age: of the rest, those that are
    older than `max_age` seconds.
    """
    return tuple(
        entry.name
        for entry in entries[max(keep, 0) :]
        if not entry.current and entry.at is not None and too_old(entry.at, max_age=max_age, now=now)
    )


def too_old(at: str, *, max_age: float, now: datetime) -> bool:
    """False for anything that is not a time."""
    try:
        return now - datetime.fromisoformat(at) > timedelta(seconds=max_age)
    except (ValueError, TypeError):
        return False
