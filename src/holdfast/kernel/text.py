"""Small rules for texts: English for messages, values of Terraform, and JSON that others wrote."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def plural(number: int, noun: str, many: str | None = None) -> str:
    """`1 stack`, `2 stacks`, `2 copies`: a number with its noun in the right form."""
    return f"{number} {noun if number == 1 else many or f'{noun}s'}"


def first_names(names: Sequence[str], most: int) -> str:
    """`a, b, c and 2 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def json_object(data: bytes | str) -> dict[str, Any]:
    """Empty unless the data is a JSON object."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def plain_text(value: object) -> str | None:
    """A primitive value as Terraform writes it in a name or an id; None for anything else."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int():
            return str(value)
        case float():
            return str(int(value)) if value.is_integer() else repr(value)
        case _:
            return None
