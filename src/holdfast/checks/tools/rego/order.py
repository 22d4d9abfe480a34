"""Rewrites order comparisons in a policy as function calls, for regopy. Pure.

In Rego a string is greater than any number, so `port > 1024` holds where the port is `"${var.port}"`. regopy
never orders values of two types, and such a rule would silently not fire.
"""

from __future__ import annotations

from typing import Final

from holdfast.checks.tools.rego.tokens import closes, is_name, matching, opens, skip_blanks, tokenize

FUNCTIONS: Final = {"<": "less_", "<=": "at_most_", ">": "greater_", ">=": "at_least_"}
_ARITHMETIC: Final = frozenset("+-*/%&")
_CONSTANTS: Final = frozenset(("true", "false", "null"))


def rewrite_comparisons(text: str, package: str) -> str:
    """The policy with `a < b` as a call of a function of `package`.

    A comparison with arithmetic (`a + 1 > 2`) stays: both sides are numbers.
    """
    tokens = tokenize(text)
    index = 0
    while index < len(tokens):
        if tokens[index] in FUNCTIONS:
            index = _rewrite(tokens, index, package)
        index += 1
    return "".join(tokens)


def _rewrite(tokens: list[str], operator: int, package: str) -> int:
    """Replaces the comparison in the tokens; returns the index at which to continue."""
    end = skip_blanks(tokens, operator - 1, -1)
    start = _value_start(tokens, end)
    first = skip_blanks(tokens, operator + 1)
    last = _value_end(tokens, first)
    if start is None or last is None:
        return operator
    before, after = skip_blanks(tokens, start - 1, -1), skip_blanks(tokens, last + 1)
    if any(tokens[index] in _ARITHMETIC for index in (before, after) if 0 <= index < len(tokens)):
        return operator
    left, right = "".join(tokens[start : end + 1]), "".join(tokens[first : last + 1])
    if left.startswith(f"data.{package}.count_(") and right.isdigit():
        return operator
    name = f"data.{package}.{FUNCTIONS[tokens[operator]]}"
    # The right side may contain comparisons of its own.
    tokens[start : last + 1] = [f"{name}({left}, {rewrite_comparisons(right, package)})"]
    return start


def _value_start(tokens: list[str], index: int) -> int | None:
    """The start of the value that ends here."""
    while index >= 0:
        if closes(tokens[index]):
            opened = matching(tokens, index, -1)
            if opened is None:
                return None
            if not opened or not (is_name(tokens[opened - 1]) or closes(tokens[opened - 1])):
                return opened
            index = opened - 1
        elif not _is_value(tokens[index]):
            return None
        elif index > 1 and tokens[index - 1] == ".":
            index -= 2
        else:
            return index
    return None


def _value_end(tokens: list[str], index: int) -> int | None:
    """The end of the value that starts here."""
    if index < len(tokens) and tokens[index] == "-":
        index += 1
    if index >= len(tokens) or not (opens(tokens[index]) or _is_value(tokens[index])):
        return None
    last = matching(tokens, index) if opens(tokens[index]) else index
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
