"""The only module that reads the clock or generates randomness."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LENGTH = 26
_TIME_LENGTH = 10


def now() -> datetime:
    return datetime.now(UTC)


def monotonic() -> float:
    return time.monotonic()


def thread_seconds() -> float:
    """The processor time of this thread."""
    return time.thread_time()


def pause(seconds: float) -> None:
    """Before a retry. Waiting for processes uses asyncio."""
    time.sleep(seconds)


def new_id() -> str:
    """A ULID: 26 characters that sort by creation time."""
    return _id_from((time.time_ns() // 1_000_000 << 80) | int.from_bytes(os.urandom(10), "big"))


def id_at(seconds: float) -> str:
    """Sorts after all ids that were created before this time, and before all others."""
    return _id_from(max(0, int(seconds * 1000)) << 80)


def _id_from(number: int) -> str:
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5))


def created_at(id_: str) -> float:
    """When an id was created, in seconds since 1970; now if it is not an id, so that it counts as new."""
    try:
        number = 0
        for letter in id_[:_TIME_LENGTH]:
            number = number << 5 | _ALPHABET.index(letter)
    except ValueError:
        return time.time()
    return number / 1000 if len(id_) == _LENGTH else time.time()


def random_token(size: int = 16) -> str:
    return os.urandom(size).hex()


def chance() -> float:
    """From 0 up to 1, for jitter."""
    return (int.from_bytes(os.urandom(7), "big") >> 3) / (1 << 53)


def random_bytes(size: int) -> bytes:
    return os.urandom(size)


def seconds_since(moment: str) -> float:
    """Since a time in the format of `now().isoformat()`. An invalid one is long ago."""
    try:
        return (now() - datetime.fromisoformat(moment)).total_seconds()
    except (ValueError, TypeError):
        return float("inf")
