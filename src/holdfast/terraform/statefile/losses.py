"""Which resources one state holds and another does not, and which moved from one to another. Pure.

A resource is known by its type and id, wherever its address moved; without an id, by its address.
"""

from __future__ import annotations

from collections import Counter

from holdfast.terraform.addresses import address_order
from holdfast.terraform.statefile.model import DECODE_ERRORS, State, StateFile, StateResource

_Key = tuple[str, str, str]


def lost_resources(before: StateFile | None, after: StateFile | None) -> tuple[StateResource, ...] | None:
    """Managed resources of `before` that `after` does not hold. None: OpenTofu encrypted one of them."""
    if any(isinstance(state, State) and state.encrypted for state in (before, after)):
        return None
    kept = Counter(_key(resource) for resource in _managed(after))
    addresses = {resource.address for resource in _managed(after)}
    lost = []
    # Those with the same address first: ids need not be unique.
    for resource in sorted(_managed(before), key=lambda resource: resource.address not in addresses):
        key = _key(resource)
        if kept[key]:
            kept[key] -= 1
        else:
            lost.append(resource)
    return tuple(sorted(lost, key=lambda resource: (resource.address, resource.deposed or "")))


Moved = tuple[StateResource, StateResource]
"""A resource where it was, and where it is."""


def moved_resources(
    left: StateFile, kept: StateFile, before: StateFile, after: StateFile
) -> tuple[Moved, ...] | None:
    """What is in `left` and not in `kept`, with its new place in `after`; None if something has none.

    `before` is the state that became `after`. Inside one state, these two are `left` and `kept`.
    """
    gone, old = _by_place(left), _by_place(before)
    for place in _by_place(kept):
        gone.pop(place, None)
    new = [resource for place, resource in _by_place(after).items() if place not in old]
    moved: list[Moved] = []
    for resource in gone.values():
        arrived = next((other for other in new if _is_same(resource, other)), None)
        if arrived is None:
            return None
        new.remove(arrived)
        moved.append((resource, arrived))
    return tuple(moved) if not new else None


def _by_place(state: StateFile) -> dict[tuple[str, str | None], StateResource]:
    resources = (state.resources or ()) if isinstance(state, State) else ()
    in_order = sorted(resources, key=lambda resource: address_order(resource.address))
    return {(resource.address, resource.deposed): resource for resource in in_order}


def _is_same(old: StateResource, new: StateResource) -> bool:
    return (old.mode, old.type, old.deposed) == (new.mode, new.type, new.deposed) and old.same_as(new)


def _managed(state: StateFile | None) -> tuple[StateResource, ...]:
    resources = (state.resources or ()) if isinstance(state, State) else ()
    return tuple(resource for resource in resources if resource.mode == "managed")


def _key(resource: StateResource) -> _Key:
    try:
        id_ = resource.id
    except DECODE_ERRORS:
        id_ = None
    return (resource.type, "id", id_) if id_ is not None else (resource.type, "address", resource.address)
