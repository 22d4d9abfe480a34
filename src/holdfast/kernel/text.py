"""Small rules of English for messages, and JSON that others wrote."""

from __future__ import annotations

import json
from typing import Any


def plural(number: int, noun: str, many: str | None = None) -> str:
    """`1 stack`, `2 stacks`, `2 copies`: a number with its noun in the right form."""
    return f"{number} {noun if number == 1 else many or f'{noun}s'}"


def json_object(data: bytes | str) -> dict[str, Any]:
    """Empty unless the data is a JSON object."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
