"""Durations and sizes as people write them: `90d`, `1h30m`, `90s`, `5GB`, `1GiB`."""

from __future__ import annotations

import re
from typing import Final

DURATION: Final = r"(?=[0-9])(?:[0-9]{1,6}d)?(?:[0-9]{1,9}h)?(?:[0-9]{1,9}m)?(?:[0-9]{1,9}s)?|[0-9]{1,9}"
SIZE: Final = r"[0-9]{1,12}(?:\.[0-9]{1,6})?(?:[KMGT]i?)?B|[0-9]{1,18}"

_DURATION: Final = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_SIZE: Final = re.compile(r"([\d.]+)([A-Za-z]*)")
_UNITS: Final = {
    "": 1,
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("KMGT", start=1)},
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", start=1)},
}


def seconds(text: str) -> float | None:
    """None where the text is no duration."""
    if not re.fullmatch(DURATION, text, re.ASCII):
        return None
    if text.isdigit():
        return float(text)
    found = _DURATION.fullmatch(text)
    parts = found.groups() if found else ()
    return float(sum(int(part or 0) * unit for part, unit in zip(parts, (86400, 3600, 60, 1), strict=True)))


def size_in_bytes(text: str) -> int | None:
    """None where the text is no size."""
    found = _SIZE.fullmatch(text)
    if found is None or not re.fullmatch(SIZE, text, re.ASCII):
        return None
    number, unit = found.groups()
    return int(number) * _UNITS[unit] if "." not in number else int(float(number) * _UNITS[unit])


def in_words(amount: float) -> str:
    """Seconds as they would be written in the file."""
    whole = int(amount)
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    parts = ((days, "d"), (hours, "h"), (minutes, "m"), (left, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"
