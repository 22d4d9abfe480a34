"""Which old versions of a state may go: by count and by age. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct


class Aged(Struct, frozen=True, kw_only=True):
    """A version or a copy, as far as its age decides about it."""

    name: str
    at: str | None
    """When it was written; None: nobody looked."""
    current: bool = False


def expired(entries: Sequence[Aged], *, keep: int, max_age: float, now: datetime) -> tuple[str, ...]:
    """The names of those that may go, of entries that are given newest first.

    Never one of the newest `keep`, never the current one, and never one whose age is not known: of the rest,
    those that are older than `max_age` seconds.
    """
    return tuple(
        entry.name
        for entry in entries[max(keep, 0) :]
        if not entry.current and entry.at is not None and too_old(entry.at, max_age=max_age, now=now)
    )


def too_old(at: str, *, max_age: float, now: datetime) -> bool:
    """What is not a time is no reason to drop anything."""
    try:
        return now - datetime.fromisoformat(at) > timedelta(seconds=max_age)
    except (ValueError, TypeError):
        return False
