"""Parts of events that every code host sends, read with care: who may sign them is not trusted. Pure."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any, Final

DELIVERY: Final = re.compile(r"[0-9A-Za-z-]{1,128}\Z")


def read_document(body: bytes) -> Any:
    """ValueError: it is not JSON."""
    try:
        return json.loads(body)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_number(number: int) -> int:
    if isinstance(number, bool) or not 0 < number < 2**31:
        raise ValueError("the number of the pull request is not valid")
    return number


def read_time(text: str) -> datetime:
    """GitLab also writes `2026-11-18 12:00:00 UTC`."""
    at = datetime.fromisoformat(text.replace(" UTC", "+00:00"))
    if at.tzinfo is None:
        raise ValueError("its time has no zone")
    return at
