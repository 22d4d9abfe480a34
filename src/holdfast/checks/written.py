"""Where an argument of a resource is written: in blocks, in `dynamic` ones, in objects (the JSON syntax)."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from holdfast.checks.interface import place_of
from holdfast.checks.subjects import nested
from holdfast.hcl.nodes import Body, Expression, Literal, Object, Tuple
from holdfast.kernel.errors import Place


class Written(Struct, frozen=True):
    steps: tuple[str, ...]
    """The steps it stands at, without indexes; `*` replaced by what is written."""
    expression: Expression | None
    """None where the steps lead to a block as a whole."""
    place: Place


def written(body: Body, steps: tuple[str, ...], above: tuple[str, ...] = ()) -> Iterator[Written]:
    """Every place where a path is written out. `null` is not counted: it is as if nothing were written."""
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
                yield from written(block.body, tuple(rest), (*above, type_))
            else:
                yield Written((*above, type_), None, block.place)


def _inside(
    expression: Expression, steps: tuple[str, ...], above: tuple[str, ...], place: Place
) -> Iterator[Written]:
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
            yield Written(above, expression, place)
        case _:
            return


def plain(expression: Expression | None) -> str | None:
    """The text of a literal; None for anything else."""
    return expression.value if isinstance(expression, Literal) and isinstance(expression.value, str) else None
