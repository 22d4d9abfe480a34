"""Time and chance: the only place that asks for either."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LETTERS = 26
_TIME_LETTERS = 10


def now() -> datetime:
    return datetime.now(UTC)


def monotonic() -> float:
    return time.monotonic()


def pause(seconds: float) -> None:
    """Before something is tried again. What waits on processes waits with asyncio."""
    time.sleep(seconds)


def new_id() -> str:
    """26 characters that sort by the time they were made (the form known as ULID)."""
    number = (time.time_ns() // 1_000_000 << 80) | int.from_bytes(os.urandom(10), "big")
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5))


def made_at(id_: str) -> float:
    """When an id was made, in seconds since 1970. Of what is no id: now, so that it counts as young."""
    try:
        number = 0
        for letter in id_[:_TIME_LETTERS]:
            number = number << 5 | _ALPHABET.index(letter)
    except ValueError:
        return time.time()
    return number / 1000 if len(id_) == _LETTERS else time.time()


def random_token(size: int = 16) -> str:
    return os.urandom(size).hex()


def chance() -> float:
    """From 0 up to 1, to spread what would otherwise come at the same moment."""
    return (int.from_bytes(os.urandom(7), "big") >> 3) / (1 << 53)


def random_bytes(size: int) -> bytes:
    return os.urandom(size)


def seconds_since(moment: str) -> float:
    """Of a time as `now().isoformat()` writes it. One that cannot be read is long ago."""
    try:
        return (now() - datetime.fromisoformat(moment)).total_seconds()
    except (ValueError, TypeError):
        return float("inf")
