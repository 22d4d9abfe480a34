"""What a state holds under each address, with the ids that tell one object from another. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from holdfast.kernel.values import dataclass, field
from holdfast.terraform.addresses import resource_text
from holdfast.terraform.statefile.reader import Empty, Readable, StateFile, Unreadable, read_state

LABELS = ("id", "name")
"""The attributes by which the engine names an object in its stream, where they are texts."""


class _Attributes(msgspec.Struct, frozen=True, gc=False):
    id: Any = None
    name: Any = None


class _Instance(msgspec.Struct, frozen=True, gc=False):
    index_key: int | str | None = None
    deposed: str | None = None
    status: str | None = None
    attributes: msgspec.Raw = msgspec.Raw(b"null")
    attributes_flat: msgspec.Raw = msgspec.Raw(b"null")


class _Resource(msgspec.Struct, frozen=True, gc=False):
    mode: str
    type: str
    name: str
    module: str | None = None
    instances: list[_Instance] | None = None


class _State(msgspec.Struct, frozen=True, gc=False):
    resources: list[_Resource] | None = None


_STATE = msgspec.json.Decoder(_State)
_ATTRIBUTES = msgspec.json.Decoder(_Attributes | None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The record of one object."""

    labels: Mapping[str, str]
    """Those of `LABELS` that it has."""
    tainted: bool
    attributes: bytes = field(repr=False)
    """As JSON, in clear."""

    @property
    def id(self) -> str | None:
        return self.labels.get("id")

    def like(self, other: Held) -> bool:
        """Whether both say the same of an object. An attribute that is null may be missing."""
        if self.tainted != other.tainted:
            return False
        return self.attributes == other.attributes or _spoken(self.attributes) == _spoken(other.attributes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """`current` and `deposed` are empty where `unseen` says why nobody could look."""

    lineage: str | None
    serial: int | None
    """Both are None where there is no state, and where it cannot be read."""
    unseen: str | None = None
    current: Mapping[str, Held] = field(default_factory=dict)
    deposed: Mapping[str, Mapping[str, Held]] = field(default_factory=dict)

    @property
    def absent(self) -> bool:
        """There is no state at all, and somebody looked."""
        return self.serial is None and self.unseen is None


NOTHING = Contents(lineage=None, serial=None)


def read_contents(data: bytes | None) -> Contents:
    """Never raises. None: there is no state, and that was answered by whoever keeps it."""
    if data is None:
        return NOTHING
    file: StateFile = read_state(data)
    match file:
        case Empty():
            return Contents(lineage=None, serial=None, unseen="the state is empty: not one byte")
        case Unreadable():
            return Contents(lineage=None, serial=None, unseen=f"the state cannot be read: {file.reason}")
        case Readable() if file.encrypted:
            return Contents(lineage=file.lineage, serial=file.serial, unseen="the state is encrypted")
        case Readable():
            return _contents(file, data)


def _contents(file: Readable, data: bytes) -> Contents:
    try:
        resources = _STATE.decode(data).resources or ()
        current: dict[str, Held] = {}
        deposed: dict[str, dict[str, Held]] = {}
        for resource in resources:
            for instance in resource.instances or ():
                address = resource_text(
                    module=resource.module,
                    mode=resource.mode,
                    type_=resource.type,
                    name=resource.name,
                    key=instance.index_key,
                )
                if instance.deposed:
                    deposed.setdefault(address, {})[instance.deposed] = _held(instance)
                else:
                    current[address] = _held(instance)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Contents(lineage=file.lineage, serial=file.serial, unseen=f"the state cannot be read: {error}")
    return Contents(
        lineage=file.lineage,
        serial=file.serial,
        current=MappingProxyType(current),
        deposed=MappingProxyType(deposed),
    )


def _held(instance: _Instance) -> Held:
    raw = bytes(instance.attributes)
    if raw == b"null":
        raw = bytes(instance.attributes_flat)
    found = _ATTRIBUTES.decode(raw) or _Attributes()
    labels = {name: value for name in LABELS if isinstance(value := getattr(found, name), str) and value}
    return Held(labels=MappingProxyType(labels), tainted=instance.status == "tainted", attributes=raw)


def _spoken(attributes: bytes) -> object:
    found = msgspec.json.decode(attributes)
    if isinstance(found, dict):
        return {name: value for name, value in found.items() if value is not None}
    return found
