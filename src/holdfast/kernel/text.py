"""Small rules for texts: English for messages, values of Terraform, and JSON that others wrote."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from holdfast.kernel.patterns import pattern

_ESCAPE = pattern(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
"""A colour code or another command for a terminal."""
_CONTROLS = {number: None for number in (*range(32), *range(127, 160)) if chr(number) not in "\n\t"}


def without_controls(text: str) -> str:
    """Text of another program: without colour codes, and unable to move the cursor or hide a line."""
    return _ESCAPE.sub("", text).translate(_CONTROLS)


def plural(number: int, noun: str, many: str | None = None) -> str:
    """`1 stack`, `2 stacks`, `2 copies`: a number with its noun in the right form."""
    return f"{number} {noun if number == 1 else many or f'{noun}s'}"


def cut(text: str, width: int | None) -> str:
    """At most `width` characters."""
    return text if width is None or len(text) <= width else f"{text[: width - 1]}…"


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
