"""Durations and sizes as people write them: `90d`, `1h30m`, `90s`, `5GB`, `1GiB`."""

from __future__ import annotations

from typing import Final

DURATION: Final = r"(?=[0-9])(?:[0-9]{1,6}d)?(?:[0-9]{1,9}h)?(?:[0-9]{1,9}m)?(?:[0-9]{1,9}s)?|[0-9]{1,9}"
SIZE: Final = r"[0-9]{1,12}(?:\.[0-9]{1,6})?(?:[KMGT]i?)?B|[0-9]{1,18}"
"""The same grammars for JSON Schema."""

_TIME_UNITS: Final = (("d", 86400, 6), ("h", 3600, 9), ("m", 60, 9), ("s", 1, 9))
"""Each unit, its seconds, and how many digits its number may have."""
_SIZE_UNITS: Final = {
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("KMGT", start=1)},
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", start=1)},
}


def seconds(text: str) -> float | None:
    """None if the text is not a duration."""
    if _is_number(text, 9):
        return float(text)
    total, rest = 0, text
    for unit, factor, digits in _TIME_UNITS:
        number, present, after = rest.partition(unit)
        if present:
            if not _is_number(number, digits):
                return None
            total, rest = total + int(number) * factor, after
    return float(total) if text and not rest else None


def size_in_bytes(text: str) -> int | None:
    """None if the text is not a size."""
    if _is_number(text, 18):
        return int(text)
    number = text.rstrip("KMGTiB")
    factor = _SIZE_UNITS.get(text[len(number) :])
    whole, dot, fraction = number.partition(".")
    if factor is None or not _is_number(whole, 12) or (dot and not _is_number(fraction, 6)):
        return None
    return int(float(number) * factor) if dot else int(number) * factor


def _is_number(text: str, digits: int) -> bool:
    return len(text) <= digits and text.isascii() and text.isdigit()


def duration_text(amount: float) -> str:
    """Seconds as they would be written in the file."""
    parts, rest = "", int(amount)
    for unit, factor, _ in _TIME_UNITS:
        number, rest = divmod(rest, factor)
        parts += f"{number}{unit}" if number else ""
    return parts or "0s"
