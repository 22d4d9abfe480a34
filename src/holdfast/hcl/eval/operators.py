"""What operators make of two values, as far as that is certain. Pure."""

from __future__ import annotations

import operator as operators
from collections.abc import Callable, Mapping

from holdfast.hcl.eval.values import unknown_of
from holdfast.hcl.reader import UNKNOWN, Unknown

_LARGEST_NUMBER = 10**30
_ON_NUMBERS: Mapping[str, Callable[[int, int], object]] = {
    "+": operators.add,
    "-": operators.sub,
    "*": operators.mul,
    "<": operators.lt,
    ">": operators.gt,
    "<=": operators.le,
    ">=": operators.ge,
}


def logic(operator: str, left: object, right: object) -> object:
    """`&&` and `||`: one side may decide, whatever the other is."""
    deciding = operator == "||"
    if left is deciding or right is deciding:
        return deciding
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return unknown_of(left, right)
    return not deciding if left is right is (not deciding) else UNKNOWN


def arithmetic(operator: str, left: object, right: object) -> object:
    """Whole numbers only: Terraform counts more exactly than floating point does."""
    if type(left) is not int or type(right) is not int or max(abs(left), abs(right)) > _LARGEST_NUMBER:
        return UNKNOWN
    if operator == "/":
        return left // right if right and left % right == 0 else UNKNOWN
    if operator == "%":
        return left % right if right > 0 and left >= 0 else UNKNOWN
    return _ON_NUMBERS[operator](left, right) if operator in _ON_NUMBERS else UNKNOWN
