"""Names of stacks as words of a shelf's names."""

from __future__ import annotations

from urllib.parse import quote, unquote


def word(stack: str) -> str:
    return quote(stack, safe="")


def stack_of(word_: str) -> str:
    return unquote(word_)
