"""Terraform values, as far as they are known without running it, and operators on them. Pure.

Strings, numbers, bools, None, tuples (lists), `SetOf`, dicts (maps and objects); any part may be unknown.
Types are not followed: where Terraform converts `1` to `"1"` to give two values one type, it may still be `1`
here. No operator or function distinguishes the two.
"""

from __future__ import annotations

import operator as operators
from collections.abc import Callable, Iterable, Iterator, Mapping

from holdfast.hcl.nodes import Call, Expression, Literal, Object, Traversal
from holdfast.hcl.reader import COMPUTED, UNKNOWN, Unknown, constant, read

_LARGEST_NUMBER = 10**30
_MOST_DIGITS = 30
_DEEPEST = 100
_ON_NUMBERS: Mapping[str, Callable[[int, int], object]] = {
    "+": operators.add,
    "-": operators.sub,
    "*": operators.mul,
    "<": operators.lt,
    ">": operators.gt,
    "<=": operators.le,
    ">=": operators.ge,
}


class SetOf(tuple[object, ...]):
    """A set, in the order in which Terraform iterates over it. Created by `set_of`."""

    __slots__ = ()


def set_of(items: Iterable[object]) -> SetOf | Unknown:
    """Strings are sorted and deduplicated; a set of anything else is unknown."""
    elements = tuple(items)
    if not known(elements):
        return unknown_of(*elements)
    texts = [item for item in elements if isinstance(item, str)]
    return SetOf(sorted(set(texts))) if len(texts) == len(elements) else UNKNOWN


def known(value: object) -> bool:
    """Whether the value and all its parts are known."""
    if not isinstance(value, tuple | Mapping):
        return not isinstance(value, Unknown)
    return not any(isinstance(part, Unknown) for part in _parts(value))


def _parts(value: object) -> Iterator[object]:
    """The value and every part of it, without recursion: a value may be nested deeply."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, tuple):
            waiting.extend(part)
        elif isinstance(part, Mapping):
            waiting.extend(part.values())


def parts_of(value: object, most: int) -> int:
    """How many parts it has; more than `most` if there are more, or if they are nested too deeply.

    A shared part counts each time.
    """
    if not isinstance(value, tuple | Mapping):
        return 1
    counted, level = 0, [value]  # type: int, list[object]
    for _ in range(_DEEPEST):
        counted += len(level)
        below: list[object] = []
        for part in level:
            if isinstance(part, tuple | Mapping):
                below.extend(part if isinstance(part, tuple) else part.values())
                if counted + len(below) > most:
                    return most + 1
        if not below:
            return counted
        level = below
    return most + 1


def unknown_of(*values: object) -> Unknown:
    """The unknown that results from these: `COMPUTED` only if all of their unknown parts are."""
    return UNKNOWN if any(part is UNKNOWN for part in _parts(values)) else COMPUTED


def unknown_from(value: object) -> Unknown:
    """The result of something that needs more than this value."""
    return unknown_of(value) if isinstance(value, Unknown) else UNKNOWN


def text_of(value: object) -> str | None:
    """How Terraform renders a primitive value in a string; None if that is not certain."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        shown = repr(value)
        return None if "e" in shown or "n" in shown or shown.endswith(".0") else shown
    return None


def same(left: object, right: object) -> bool | None:
    """`==` of known values; None where the result depends on types that are not known here."""
    if left is None or right is None:
        return left is right
    if not isinstance(left, str | int | float) or not isinstance(right, str | int | float):
        return None
    if isinstance(left, str) is not isinstance(right, str):
        # Terraform may have converted the other one to a string, too.
        return None if text_of(left) == text_of(right) else False
    if isinstance(left, bool) is not isinstance(right, bool):
        return False
    return left == right


def strings(value: object) -> Iterator[str]:
    """Every string inside a value, including map keys: any of them may be a file name."""
    for part in _parts(value):
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping):
            yield from map(str, part)


def pairs(collection: object) -> list[tuple[object, object]] | None:
    """Keys and values in Terraform's order: maps by key, a set element is its own key. None if unknown."""
    if isinstance(collection, SetOf):
        return [(item, item) for item in collection]
    if isinstance(collection, tuple):
        return list(enumerate(collection))
    if isinstance(collection, Mapping):
        return [(key, collection[key]) for key in sorted(collection)]
    return None


def keyed(items: list[tuple[object, object]], *, grouped: bool) -> object:
    """The object that a `for` with keys makes."""
    groups: dict[str, list[object]] = {}
    for key, value in items:
        name = text_of(key)
        if name is None:
            return unknown_from(key)
        groups.setdefault(name, []).append(value)
    if grouped:
        return {name: tuple(values) for name, values in groups.items()}
    # Terraform reports two values for one key as an error.
    return {name: values[0] for name, values in groups.items()} if len(groups) == len(items) else UNKNOWN


def convert(constraint: Expression | None, value: object) -> object:
    """The value converted to a variable's type: optional attributes get their defaults, sets become sets."""
    if constraint is None or value is None or isinstance(value, Unknown):
        return value
    if isinstance(constraint, Literal):
        parsed = read(f"type = {constraint.value}\n", "").body.attribute("type")
        constraint = parsed.expression if parsed else constraint
    if isinstance(constraint, Traversal) and not constraint.steps:
        return _simple(constraint.root, value)
    if isinstance(constraint, Call) and len(constraint.arguments) == 1:
        return _collection(constraint.name, constraint.arguments[0], value)
    return UNKNOWN


def _simple(kind: str, value: object) -> object:
    if kind in ("any", "list", "map"):
        return value
    if kind == "string":
        text = text_of(value)
        return UNKNOWN if text is None else text
    if kind == "number":
        return number_of(value)
    if kind == "bool":
        return bool_of(value)
    return UNKNOWN


def number_of(value: object) -> int | float | Unknown:
    if isinstance(value, bool):
        return UNKNOWN
    if isinstance(value, int | float):
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS:
        return int(value)
    return UNKNOWN


def bool_of(value: object) -> bool | Unknown:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value, UNKNOWN) if isinstance(value, str) else UNKNOWN


def _collection(kind: str, inner: Expression, value: object) -> object:
    if kind == "object" and isinstance(inner, Object) and isinstance(value, Mapping):
        return _object(inner, value)
    if kind == "map" and isinstance(value, Mapping):
        return {key: convert(inner, item) for key, item in value.items()}
    if kind in ("list", "set") and isinstance(value, tuple):
        items = tuple(convert(inner, item) for item in value)
        return set_of(items) if kind == "set" else items
    return UNKNOWN


def _object(inner: Object, value: Mapping[object, object]) -> object:
    converted: dict[str, object] = {}
    for key, constraint in inner.items:
        name = constant(key)
        if not isinstance(name, str):
            return UNKNOWN
        needed, default = constraint, UNKNOWN  # type: tuple[Expression, object]
        if isinstance(constraint, Call) and constraint.name == "optional" and constraint.arguments:
            needed = constraint.arguments[0]
            default = constant(constraint.arguments[1]) if len(constraint.arguments) > 1 else None
        item = value.get(name, default)
        converted[name] = convert(needed, default if item is None else item)
    return converted


def logic(operator: str, left: object, right: object) -> object:
    """`&&` and `||`: one known side can decide the result."""
    deciding = operator == "||"
    if left is deciding or right is deciding:
        return deciding if isinstance(left, bool | Unknown) and isinstance(right, bool | Unknown) else UNKNOWN
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return unknown_of(left, right)
    return not deciding if left is right is (not deciding) else UNKNOWN


def arithmetic(operator: str, left: object, right: object) -> object:
    """Whole numbers only: Terraform's numbers are more precise than floating point."""
    if type(left) is not int or type(right) is not int or max(abs(left), abs(right)) > _LARGEST_NUMBER:
        return UNKNOWN
    if operator == "/":
        return left // right if right and left % right == 0 else UNKNOWN
    if operator == "%":
        return left % right if right > 0 and left >= 0 else UNKNOWN
    return _ON_NUMBERS[operator](left, right) if operator in _ON_NUMBERS else UNKNOWN
