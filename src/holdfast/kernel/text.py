"""Small rules of English that several messages need."""

from __future__ import annotations


def plural(number: int, noun: str, many: str | None = None) -> str:
    """`1 stack`, `2 stacks`, `2 copies`: a number with its noun in the right form."""
    return f"{number} {noun if number == 1 else many or f'{noun}s'}"
