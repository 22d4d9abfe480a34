"""Names of stacks as words of blob names."""

from __future__ import annotations

from urllib.parse import quote, unquote


def word(stack: str) -> str:
    """Never one that begins with a dot: on a blob store, that is something half-written."""
    quoted = quote(stack, safe="")
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted


def stack_of(word_: str) -> str:
    return unquote(word_)
