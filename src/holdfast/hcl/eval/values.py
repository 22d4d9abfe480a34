"""Values as Terraform would have them, as far as they can be told without running it.

Text, numbers, bools, None, tuples (lists), `SetOf`, dicts (maps and objects), and unknowns anywhere inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from holdfast.hcl.nodes import Call, Expression, Literal, Object, Traversal
from holdfast.hcl.reader import COMPUTED, UNKNOWN, Unknown, constant, read


class SetOf(tuple[object, ...]):
    """A set, in the order Terraform goes through it. Made by `set_of`."""

    __slots__ = ()


def set_of(items: Iterable[object]) -> SetOf | Unknown:
    """Strings are sorted and told apart; a set of anything else is not followed."""
    found = list(items)
    if not known(tuple(found)):
        return unknown_of(*found)
    texts = [item for item in found if isinstance(item, str)]
    return SetOf(sorted(set(texts))) if len(texts) == len(found) else UNKNOWN


def known(value: object) -> bool:
    """Known through and through."""
    if isinstance(value, Unknown):
        return False
    if isinstance(value, tuple):
        return all(known(item) for item in value)
    if isinstance(value, Mapping):
        return all(known(item) for item in value.values())
    return True


def parts_of(value: object, most: int) -> int:
    """How many parts it has, counted no further than `most`. One that stands in it twice counts twice."""
    if not isinstance(value, tuple | Mapping):
        return 1
    waiting: list[object] = [value]
    counted = 0
    while waiting and counted <= most:
        found = waiting.pop()
        counted += 1
        if isinstance(found, tuple):
            waiting.extend(found)
        elif isinstance(found, Mapping):
            waiting.extend(found.values())
    return counted


def unknown_of(*values: object) -> Unknown:
    """The unknown that a mixture is: only computed if nothing but computed values make it so."""
    return UNKNOWN if any(_holds(value, UNKNOWN) for value in values) else COMPUTED


def _holds(value: object, which: Unknown) -> bool:
    if isinstance(value, tuple):
        return any(_holds(item, which) for item in value)
    if isinstance(value, Mapping):
        return any(_holds(item, which) for item in value.values())
    return value is which


def text_of(value: object) -> str | None:
    """How Terraform writes a simple value inside a string; None when that cannot be told."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        shown = repr(value)
        return None if "e" in shown or "n" in shown else shown
    return None


def same(left: object, right: object) -> bool | None:
    """`==` of known values; None when it depends on types that are not told here."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if left is None or right is None:
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right
    if isinstance(left, str | int | float) and isinstance(right, str | int | float):
        return isinstance(left, str) and isinstance(right, str) and left == right
    return None


def strings(value: object) -> Iterator[str]:
    """Every text inside a value: keys of maps too, for a name of a file may stand there."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from strings(item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from strings(item)


def pairs(collection: object) -> list[tuple[object, object]] | None:
    """Keys and values in Terraform's order: maps by key, a set's element is its own key. None if not told."""
    if isinstance(collection, SetOf):
        return [(item, item) for item in collection]
    if isinstance(collection, tuple):
        return list(enumerate(collection))
    if isinstance(collection, Mapping):
        return [(key, collection[key]) for key in sorted(collection)]
    return None


def convert(constraint: Expression | None, value: object) -> object:
    """The value as a variable of that type holds it: optional attributes filled in, sets made sets."""
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
    if isinstance(value, str) and value.isascii() and value.isdigit():
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
    found: dict[str, object] = {}
    for key, constraint in inner.items:
        name = constant(key)
        if not isinstance(name, str):
            return UNKNOWN
        needed, default = constraint, UNKNOWN  # type: tuple[Expression, object]
        if isinstance(constraint, Call) and constraint.name == "optional" and constraint.arguments:
            needed = constraint.arguments[0]
            default = constant(constraint.arguments[1]) if len(constraint.arguments) > 1 else None
        given = value.get(name, default)
        found[name] = convert(needed, default if given is None else given)
    return found
