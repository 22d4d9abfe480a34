"""Values of a resource's argument: in blocks, `dynamic` blocks and objects (JSON syntax).

Also the texts in an expression or a value, with the names that lead to them.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from holdfast.checks.model.interface import place_of
from holdfast.checks.model.subjects import nested
from holdfast.hcl.nodes import Body, Call, Conditional, Expression, Literal, Object, Traversal, Tuple
from holdfast.kernel.errors import Place

LOGIN = frozenset(("user", "username", "user_name", "login"))
"""Beside one of these, `pass` is a password; alone, it may be an action or where something is passed to."""
_PASSES = frozenset(
    (
        "base64encode", "coalesce", "concat", "jsonencode", "merge", "nonsensitive", "sensitive", "tolist",
        "tomap", "toset", "tostring", "trimspace", "try", "yamlencode",
    )
)  # fmt: skip
"""Functions that return their arguments' texts."""

_STORES = ("PARAMETER_STORE", "SECRETS_MANAGER")


class WrittenValue(Struct, frozen=True):
    steps: tuple[str, ...]
    """The path without indexes; `*` is replaced by the actual name."""
    expression: Expression | None
    """None if the path leads to a whole block."""
    place: Place


def values_at(body: Body, steps: tuple[str, ...], above: tuple[str, ...] = ()) -> Iterator[WrittenValue]:
    """Every value at a path. `null` does not count."""
    first, *rest = steps
    for attribute in body.attributes:
        if first in ("*", attribute.name):
            here = (*above, attribute.name)
            yield from _inside(attribute.expression, tuple(rest), here, attribute.place)
    types = {
        block.labels[0] if block.type == "dynamic" and block.labels else block.type for block in body.blocks
    }
    for type_ in sorted(types if first == "*" else types & {first}):
        for block in nested(body, type_):
            if rest:
                yield from values_at(block.body, tuple(rest), (*above, type_))
            else:
                yield WrittenValue((*above, type_), None, block.place)


def _inside(
    expression: Expression, steps: tuple[str, ...], above: tuple[str, ...], place: Place
) -> Iterator[WrittenValue]:
    match expression:
        case Literal(value=None):
            return
        case Tuple() if steps:
            for item in expression.items:
                yield from _inside(item, steps, above, place_of(item, place.file))
        case Object() if steps:
            for key, value in expression.items:
                if isinstance(key, Literal) and steps[0] in ("*", key.value):
                    here = (*above, str(key.value))
                    yield from _inside(value, steps[1:], here, place_of(value, place.file))
        case _ if not steps:
            yield WrittenValue(above, expression, place)
        case _:
            return


def literal_text(expression: Expression | None) -> str | None:
    """The text of a literal; None for anything else."""
    return expression.value if isinstance(expression, Literal) and isinstance(expression.value, str) else None


def texts_in(
    expression: Expression, above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Literal, str]]:
    """The texts in an expression, each with its path and its literal.

    An environment entry (`{ name = "TOKEN", value = "…" }`) counts under its name.
    """
    waiting: list[tuple[tuple[str, ...], Expression]] = [(above, expression)]
    while waiting:
        steps, part = waiting.pop()
        if isinstance(part, Literal) and isinstance(part.value, str):
            yield steps, part, part.value
        else:
            waiting.extend(reversed([*_within(part, steps)]))


def _within(expression: Expression, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Expression]]:
    match expression:
        case Tuple():
            yield from ((above, item) for item in expression.items)
        case Conditional():
            yield from ((above, side) for side in (expression.yes, expression.no))
        case Call() if expression.name in _PASSES:
            yield from ((above, argument) for argument in expression.arguments)
        case Object():
            keys = {name: value for key, value in expression.items if (name := _key(key))}
            if LOGIN.isdisjoint(keys):
                keys.pop("pass", None)
            entry = literal_text(keys.get("name")) or literal_text(keys.get("key"))
            if entry is not None and "value" in keys and not names_a_store(keys.get("type")):
                yield (*above, entry), keys["value"]
            yield from (((*above, key), value) for key, value in keys.items())
        case _:
            return


def named_texts(value: object) -> Iterator[tuple[tuple[str, ...], str]]:
    """The texts in a JSON value, each with the names that lead to it."""
    waiting: list[tuple[tuple[str, ...], object]] = [((), value)]
    while waiting:
        above, part = waiting.pop()
        if isinstance(part, str):
            yield above, part
        elif isinstance(part, dict):
            waiting.extend(((*above, str(name)), item) for name, item in reversed(part.items()))
        elif isinstance(part, list):
            waiting.extend((above, item) for item in reversed(part))


def names_a_store(type_: Expression | None) -> bool:
    """Whether the `type` of an environment entry says that its value is only the name of a secret."""
    return literal_text(type_) in _STORES


def _key(expression: Expression) -> str | None:
    if isinstance(expression, Traversal):
        return expression.root if not expression.steps else None
    return literal_text(expression)
