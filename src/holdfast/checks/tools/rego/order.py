"""Comparisons of order in a policy, led through functions. Pure.

In Rego a text is greater than any number, so `port > 1024` holds where the port is `"${var.port}"`. To regopy
values of two kinds are never in order, and such a rule would silently not fire.
"""

from __future__ import annotations

from typing import Final

from holdfast.checks.tools.rego.tokens import closes, is_name, matching, opens, past_blanks, tokens_of

FUNCTIONS: Final = {"<": "less_", "<=": "at_most_", ">": "greater_", ">=": "at_least_"}
_ARITHMETIC: Final = frozenset("+-*/%&")
_CONSTANTS: Final = frozenset(("true", "false", "null"))


def ordered(text: str, package: str) -> str:
    """The policy with `a < b` as a call of a function of `package`.

    Where a side is more than one value (`a + 1`) it is a number to everybody, and stays as it is.
    """
    tokens = tokens_of(text)
    number = 0
    while number < len(tokens):
        if tokens[number] in FUNCTIONS:
            number = _call(tokens, number, package)
        number += 1
    return "".join(tokens)


def _call(tokens: list[str], operator: int, package: str) -> int:
    """Writes the call into the tokens; where it now stands."""
    end = past_blanks(tokens, operator - 1, -1)
    start = _start(tokens, end)
    first = past_blanks(tokens, operator + 1)
    last = _end(tokens, first)
    if start is None or last is None:
        return operator
    before, after = past_blanks(tokens, start - 1, -1), past_blanks(tokens, last + 1)
    if any(tokens[beside] in _ARITHMETIC for beside in (before, after) if 0 <= beside < len(tokens)):
        return operator
    left, right = "".join(tokens[start : end + 1]), "".join(tokens[first : last + 1])
    if left.startswith(f"data.{package}.count_(") and right.isdigit():
        return operator
    name = f"data.{package}.{FUNCTIONS[tokens[operator]]}"
    # The right side was not looked at yet: it may hold comparisons of its own.
    tokens[start : last + 1] = [f"{name}({left}, {ordered(right, package)})"]
    return start


def _start(tokens: list[str], number: int) -> int | None:
    """Where the value that ends here begins."""
    while number >= 0:
        if closes(tokens[number]):
            opened = matching(tokens, number, -1)
            if opened is None:
                return None
            if not opened or not (is_name(tokens[opened - 1]) or closes(tokens[opened - 1])):
                return opened
            number = opened - 1
        elif not _is_value(tokens[number]):
            return None
        elif number > 1 and tokens[number - 1] == ".":
            number -= 2
        else:
            return number
    return None


def _end(tokens: list[str], number: int) -> int | None:
    """Where the value that begins here ends."""
    if number < len(tokens) and tokens[number] == "-":
        number += 1
    if number >= len(tokens) or not (opens(tokens[number]) or _is_value(tokens[number])):
        return None
    last = matching(tokens, number) if opens(tokens[number]) else number
    while last is not None and last + 1 < len(tokens):
        following = tokens[last + 1]
        if following == "." and last + 2 < len(tokens) and is_name(tokens[last + 2]):
            last += 2
        elif following in ("(", "["):
            last = matching(tokens, last + 1)
        else:
            break
    return last


def _is_value(token: str) -> bool:
    return is_name(token) or token in _CONSTANTS or token[0] in '"`' or token[0].isdigit()
