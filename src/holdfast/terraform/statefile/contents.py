"""What a state holds under each address. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import assert_never

import msgspec

from holdfast.terraform.statefile.model import (
    DECODE_ERRORS,
    EmptyState,
    State,
    StateFile,
    StateResource,
    UnreadableState,
    read_state,
)

_NONE: Mapping[str, StateResource] = MappingProxyType({})


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """`current` and `deposed` are empty where `unseen` says why the state could not be read."""

    lineage: str | None
    serial: int | None
    """Both are None where there is no state, and where it cannot be read."""
    unseen: str | None = None
    current: Mapping[str, StateResource] = _NONE
    deposed: Mapping[str, Mapping[str, StateResource]] = MappingProxyType({})

    @property
    def absent(self) -> bool:
        """The backend answered that there is no state."""
        return self.serial is None and self.unseen is None


NO_STATE = Contents(lineage=None, serial=None)


def read_contents(data: bytes | None) -> Contents:
    """Never raises. None: the backend answered that there is no state."""
    return contents_of(read_state(data) if data is not None else None)


def contents_of(file: StateFile | None) -> Contents:
    match file:
        case None:
            return NO_STATE
        case EmptyState():
            return Contents(lineage=None, serial=None, unseen="the state file is empty (0 bytes)")
        case UnreadableState():
            return Contents(lineage=None, serial=None, unseen=f"the state cannot be read: {file.reason}")
        case State(resources=None):
            return Contents(lineage=file.lineage, serial=file.serial, unseen="the state is encrypted")
        case State(resources=resources):
            return _contents(file, resources or ())
        case _:
            assert_never(file)


def _contents(state: State, resources: tuple[StateResource, ...]) -> Contents:
    current: dict[str, StateResource] = {}
    deposed: dict[str, dict[str, StateResource]] = {}
    try:
        for resource in resources:
            _ = resource.labels  # Attributes that are not an object make the state unreadable here.
            if resource.deposed:
                deposed.setdefault(resource.address, {})[resource.deposed] = resource
            else:
                current[resource.address] = resource
    except DECODE_ERRORS as error:
        return Contents(
            lineage=state.lineage, serial=state.serial, unseen=f"the state cannot be read: {error}"
        )
    return Contents(
        lineage=state.lineage,
        serial=state.serial,
        current=MappingProxyType(current),
        deposed=MappingProxyType(deposed),
    )
