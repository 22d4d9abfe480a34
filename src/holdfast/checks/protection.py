"""Whether an object that cannot simply be made again is kept from being deleted, by its code. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

from holdfast.checks.subjects import ABSENT, Module, Resource, nested, value
from holdfast.hcl.nodes import Body
from holdfast.hcl.reader import Unknown
from holdfast.stacks.evaluate import Scope
from holdfast.terraform.stateful_types import Stateful


class Kept(Enum):
    """What the code says. Of several answers the best one counts: one protection is enough."""

    YES = 2
    UNKNOWN = 1
    NO = 0


def kept(resource: Resource, row: Stateful, scope: Scope, providers: Iterator[tuple[Body, Scope]]) -> Kept:
    """`providers`: the bodies of the blocks of its provider, with what names mean there."""
    for lifecycle in resource.body.blocks_of("lifecycle"):
        if value(lifecycle.body, "prevent_destroy", scope) is True:
            return Kept.YES
    best = Kept.NO
    for name, safe in _counting(row):
        best = max(best, _kept_by(row, name, safe, resource.body, scope), key=_rank)
    if row.features:
        blocks = [
            (features.body, known) for body, known in providers for features in body.blocks_of("features")
        ]
        for name, safe in row.features.items():
            for body, known in blocks:
                best = max(best, _kept_by(row, name, safe, body, known), key=_rank)
            if not blocks and name in row.unwritten:
                best = max(best, Kept.YES, key=_rank)
    return best


def _rank(found: Kept) -> int:
    return int(found.value)


def _counting(row: Stateful) -> Iterator[tuple[str, Any]]:
    """What keeps an object from being deleted; where a type has no such thing, what limits the loss.

    A last snapshot or a time in which a deletion can be taken back is little beside a real protection.
    """
    strong = {name: safe for name, safe in row.protect.items() if _refuses(safe)}
    yield from (strong or row.protect).items()


def _refuses(safe: Any) -> bool:
    return safe is True or isinstance(safe, list) or (isinstance(safe, str) and safe != "set")


def _kept_by(row: Stateful, name: str, safe: Any, body: Body, scope: Scope) -> Kept:
    *blocks, last = name.split(".")
    places = [body]
    for block in blocks:
        places = [inner.body for place in places for inner in nested(place, block)]
    found = [value(place, last, scope) for place in places]
    written = [one for one in found if one is not ABSENT and one is not None]
    if any(_is_safe(one, safe) for one in written):
        return Kept.YES
    if any(isinstance(one, Unknown) for one in written):
        return Kept.UNKNOWN
    holds_unwritten = name in row.unwritten and (not blocks or bool(places) or name in row.features)
    return Kept.YES if holds_unwritten and not written else Kept.NO


def _is_safe(found: object, safe: Any) -> bool:  # noqa: PLR0911 - one for each form in the table
    if isinstance(found, Unknown):
        return False
    match safe:
        case "set":
            return bool(found)
        case {"min": int() | float() as least}:
            return isinstance(found, int | float) and not isinstance(found, bool) and found >= least
        case list():
            return found in safe
        case bool():
            return found is safe or found == str(safe).lower()
        case int() | float():
            return isinstance(found, int | float) and not isinstance(found, bool) and found >= safe
        case _:
            return bool(found == safe)


def provider_bodies(module: Module, provider: str, scope: Scope) -> Iterator[tuple[Body, Scope]]:
    """The configurations of a provider in a root module."""
    return ((block.body, scope) for block in module.blocks("provider") if block.labels[:1] == (provider,))
