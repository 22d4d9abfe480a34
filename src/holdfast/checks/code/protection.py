"""Whether a stateful resource is protected from deletion, in its code or in a plan. Pure."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sized
from enum import Enum
from typing import Any

import msgspec

from holdfast.checks.model.subjects import ABSENT, Module, Resource, value
from holdfast.hcl.eval.evaluate import Scope
from holdfast.hcl.nodes import Block, Body
from holdfast.hcl.reader import UNKNOWN, Unknown
from holdfast.terraform.plan.model import ResourceChange
from holdfast.terraform.tables.stateful_types import Stateful


class Protection(Enum):
    """Ordered: the strongest of several protections counts."""

    YES = 2
    UNKNOWN = 1
    NO = 0


def managed_resources(module: Module) -> Iterator[tuple[Resource, Body]]:
    """Its resources, each once, with the body after override files."""
    bodies: dict[str, list[Body]] = {}
    first: dict[str, Resource] = {}
    for resource in module.resources(mode="managed"):
        first.setdefault(resource.address, resource)
        bodies.setdefault(resource.address, []).append(resource.body)
    return ((first[address], functools.reduce(_override, parts)) for address, parts in bodies.items())


def _override(body: Body, by: Body) -> Body:
    """As in Terraform: attributes, and all blocks of a type, are replaced; `lifecycle` is merged."""
    names = {attribute.name for attribute in by.attributes}
    types = {_type(block) for block in by.blocks} - {"lifecycle"}
    return Body(
        attributes=(*by.attributes, *(part for part in body.attributes if part.name not in names)),
        blocks=(*by.blocks, *(part for part in body.blocks if _type(part) not in types)),
    )


def _type(block: Block) -> str:
    return block.labels[0] if block.type == "dynamic" and block.labels else block.type


def is_created(body: Body, scope: Scope) -> bool:
    """False only if the code certainly creates none."""
    each = value(body, "for_each", scope)
    enabled = next(_lifecycle(body, "enabled", scope), ABSENT)
    is_empty = isinstance(each, Sized) and len(each) == 0
    return value(body, "count", scope) != 0 and not is_empty and enabled is not False


def _lifecycle(body: Body, name: str, scope: Scope) -> Iterator[object]:
    settings = (value(block.body, name, scope) for block in body.blocks_of("lifecycle"))
    return (value_ for value_ in settings if value_ is not ABSENT)


def protection_of(
    body: Body | None,
    row: Stateful,
    scope: Scope,
    providers: Iterator[tuple[Body, Scope]],
    planned: Mapping[str, object] | None = None,
) -> Protection:
    """`providers`: the bodies of its provider's blocks, each with its scope.

    `planned`: its values in a plan, which then count instead; a plan does not show `prevent_destroy`. Without
    a `body` its code is in an external module and not known.
    """
    prevented = next(_lifecycle(body, "prevent_destroy", scope), ABSENT) if body is not None else UNKNOWN
    if prevented is True or _is_lock_table(body, scope, planned):
        return Protection.YES
    best = Protection.UNKNOWN if isinstance(prevented, Unknown) else Protection.NO
    for name, safe in row.sufficient.items():
        best = max(
            best, _protection_by(row, name, safe, body if planned is None else planned, scope), key=_rank
        )
    if row.features:
        blocks = [
            (features.body, known) for own, known in providers for features in own.blocks_of("features")
        ]
        for name, safe in row.features.items():
            for inside, known in blocks:
                best = max(best, _protection_by(row, name, safe, inside, known), key=_rank)
            if not blocks and name in row.unwritten:
                best = max(best, Protection.YES, key=_rank)
    return best


def _is_lock_table(body: Body | None, scope: Scope, planned: Mapping[str, object] | None) -> bool:
    """Whether it is a table for locks of states, which holds no data."""
    key = value(body, "hash_key", scope) if body is not None else (planned or {}).get("hash_key")
    return key == "LockID"


def _rank(protection: Protection) -> int:
    return int(protection.value)


def _protection_by(row: Stateful, name: str, safe: Any, body: object, scope: Scope) -> Protection:
    *blocks, last = name.split(".")
    places: list[object] = [body]
    for block in blocks:
        places = [inner for place in places for inner in _inside(place, block, scope)]
    values = [_value_at(place, last, scope) for place in places]
    written = [value_ for value_ in values if value_ is not ABSENT and value_ is not None]
    if any(_is_safe(value_, safe) for value_ in written):
        return Protection.YES
    if any(isinstance(value_, Unknown) for value_ in written):
        return Protection.UNKNOWN
    holds_unwritten = name in row.unwritten and (not blocks or bool(places) or name in row.features)
    return Protection.YES if holds_unwritten and not written else Protection.NO


def _inside(place: object, type_: str, scope: Scope) -> Iterator[object]:
    """The blocks of a type in a body; in JSON syntax they are objects or lists of objects.

    A `dynamic` block with unknown `for_each` is unknown: it may create none.
    """
    if not isinstance(place, Body):
        yield from _members(_value_at(place, type_, scope))
        return
    for block in place.blocks:
        if block.type == type_:
            yield block.body
        elif _type(block) == type_:
            each = value(block.body, "for_each", scope)
            if isinstance(each, Unknown):
                yield each
            elif isinstance(each, Sized) and len(each) > 0:
                yield from (content.body for content in block.body.blocks_of("content"))
    yield from _members(value(place, type_, scope))


def _members(value: object) -> Iterator[object]:
    if isinstance(value, Unknown | Mapping):
        yield value
    elif isinstance(value, list | tuple):
        yield from value


def _value_at(place: object, name: str, scope: Scope) -> object:
    match place:
        case Body():
            return value(place, name, scope)
        case Mapping():
            return place.get(name, ABSENT)
        case Unknown():
            return place
        case _:
            return ABSENT


def _is_safe(value: object, safe: Any) -> bool:  # noqa: PLR0911 - one for each form in the table
    if isinstance(value, Unknown):
        return False
    match safe:
        case "set":
            return bool(value)
        case {"min": int() | float() as least}:
            return isinstance(value, int | float) and not isinstance(value, bool) and value >= least
        case list():
            return value in safe
        case bool():
            return value is safe or value == str(safe).lower()
        case int() | float():
            return isinstance(value, int | float) and not isinstance(value, bool) and value >= safe
        case _:
            return bool(value == safe)


def provider_bodies(module: Module, provider: str, scope: Scope) -> Iterator[tuple[Body, Scope]]:
    """The provider's blocks in a root module."""
    return ((block.body, scope) for block in module.blocks("provider") if block.labels[:1] == (provider,))


def planned_values(change: ResourceChange) -> Mapping[str, object]:
    """The planned values; `UNKNOWN` if they are only known after the apply."""
    after, unknown = (msgspec.json.decode(raw) for raw in (change.change.after, change.change.after_unknown))
    planned = _with_unknown(after, unknown)
    return planned if isinstance(planned, Mapping) else {}


def _with_unknown(known: Any, mask: Any) -> Any:
    """The mask is `true`, or has the shape of the value, in which unknown parts are missing."""
    if mask is True:
        return UNKNOWN
    if isinstance(mask, dict) and isinstance(known, dict):
        return {name: _with_unknown(known.get(name), mask.get(name)) for name in {**known, **mask}}
    if isinstance(mask, list) and isinstance(known, list):
        masks = [*mask, *(False for _ in known[len(mask) :])]
        return [_with_unknown(part, masks[index]) for index, part in enumerate(known)]
    return known
