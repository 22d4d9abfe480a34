"""Rego in words, strings, signs and white space: put together again they are the text that was read. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_TOKEN: Final = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|`[^`]*`|\d[\w.]*|[A-Za-z_]\w*|#[^\n]*|[ \t\r]+|[:=!<>]=|.', re.DOTALL
)
_CLOSERS: Final = {")": "(", "]": "[", "}": "{"}
_OPENERS: Final = {opener: closer for closer, opener in _CLOSERS.items()}
_WORDS: Final = frozenset(
    (
        *("if", "not", "some", "every", "in", "contains", "else", "default", "with", "as", "import"),
        *("true", "false", "null"),
    )
)


def tokens_of(text: str) -> list[str]:
    return _TOKEN.findall(text)


def is_name(token: str) -> bool:
    return token.isidentifier() and token not in _WORDS


def opens(token: str) -> bool:
    return token in _OPENERS


def closes(token: str) -> bool:
    return token in _CLOSERS


def is_blank(token: str) -> bool:
    """White space inside a line, or a comment."""
    return token.startswith("#") or not token.strip(" \t\r")


def matching(tokens: Sequence[str], number: int, step: int = 1) -> int | None:
    """Where what opens here closes; backwards, where what closes here opens."""
    depth = 0
    while 0 <= number < len(tokens):
        depth += step * (opens(tokens[number]) - closes(tokens[number]))
        if depth == 0:
            return number
        number += step
    return None


def past_blanks(tokens: Sequence[str], number: int, step: int = 1) -> int:
    while 0 <= number < len(tokens) and is_blank(tokens[number]):
        number += step
    return number
