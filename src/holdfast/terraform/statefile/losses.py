"""Which resources one state holds and another does not. Pure.

A resource is known by its type and id, wherever its address moved; without an id, by its address.
"""

from __future__ import annotations

from collections import Counter

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


def _managed(state: StateFile | None) -> tuple[StateResource, ...]:
    resources = (state.resources or ()) if isinstance(state, State) else ()
    return tuple(resource for resource in resources if resource.mode == "managed")


def _key(resource: StateResource) -> _Key:
    try:
        id_ = resource.id
    except DECODE_ERRORS:
        id_ = None
    return (resource.type, "id", id_) if id_ is not None else (resource.type, "address", resource.address)
