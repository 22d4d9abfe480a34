"""A tokenizer for Rego. The tokens of a file, joined, are the text of the file. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

_TOKEN: Final = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|`[^`]*`|\d[\w.]*|[A-Za-z_]\w*|#[^\n]*|[ \t\r]+|[:=!<>]=|.', re.DOTALL
)
_CLOSERS: Final = {")": "(", "]": "[", "}": "{"}
_OPENERS: Final = frozenset(_CLOSERS.values())
_KEYWORDS: Final = frozenset(
    [
        "if",
        "not",
        "some",
        "every",
        "in",
        "contains",
        "else",
        "default",
        "with",
        "as",
        "import",
        "true",
        "false",
        "null",
    ]
)
_TEST: Final = re.compile(r"(?:todo_)?test_\w+")


def tokenize(text: str) -> list[str]:
    return _TOKEN.findall(text)


def is_name(token: str) -> bool:
    return token.isidentifier() and token not in _KEYWORDS


def opens(token: str) -> bool:
    return token in _OPENERS


def closes(token: str) -> bool:
    return token in _CLOSERS


def is_blank(token: str) -> bool:
    """White space inside a line, or a comment."""
    return token.startswith("#") or not token.strip(" \t\r")


def matching(tokens: Sequence[str], index: int, step: int = 1) -> int | None:
    """The index of the bracket that closes the one here; with step -1, of the one that opens it."""
    depth = 0
    while 0 <= index < len(tokens):
        depth += step * (opens(tokens[index]) - closes(tokens[index]))
        if depth == 0:
            return index
        index += step
    return None


def skip_blanks(tokens: Sequence[str], index: int, step: int = 1) -> int:
    while 0 <= index < len(tokens) and is_blank(tokens[index]):
        index += step
    return index


def split_rules(tokens: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Start and end of each rule, import and package clause: each starts a line, outside brackets."""
    start, depth = None, 0
    for index, text in enumerate(tokens):
        at_line_start = depth == 0 and (index == 0 or tokens[index - 1] == "\n")
        if at_line_start and text.isidentifier() and text != "else":
            if start is not None:
                yield start, index
            start = index
        depth += opens(text) - closes(text)
    if start is not None:
        yield start, len(tokens)


def rule_name(rule: Sequence[str]) -> str:
    words = [token for token in rule if not is_blank(token)]
    return words[1] if words[0] == "default" and len(words) > 1 else words[0]


def without_tests(text: str) -> str:
    """The policy without its `test_` rules; every other rule stays on its line."""
    tokens = tokenize(text)
    for start, end in split_rules(tokens):
        if _TEST.fullmatch(rule_name(tokens[start:end])):
            tokens[start:end] = ["\n" * token.count("\n") for token in tokens[start:end]]
    return "".join(tokens)
