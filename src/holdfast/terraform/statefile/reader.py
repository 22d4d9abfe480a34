"""Reads a raw state file: format 4 of Terraform and OpenTofu, or OpenTofu's encrypted envelope.

The answer is a closed set. A file that was there and is empty or cannot be read is never "no state": the
local backend leaves one behind when it is killed while writing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.kernel.values import dataclass, field
from holdfast.terraform.addresses import resource_text

_VERSION = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class StateResource:
    """One object of the state."""

    address: str
    module: str | None
    mode: str
    type: str
    name: str
    index: int | str | None
    provider: str
    deposed: str | None
    tainted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StateOutput:
    name: str
    sensitive: bool
    value: msgspec.Raw = field(repr=False, compare=False)

    def read(self) -> Any:
        """The value in clear, sensitive or not."""
        return msgspec.json.decode(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readable:
    lineage: str
    serial: int
    terraform_version: str | None
    """None where the state is encrypted, like the two below."""
    resources: tuple[StateResource, ...] | None
    outputs: tuple[StateOutput, ...] | None

    @property
    def encrypted(self) -> bool:
        return self.resources is None

    @property
    def managed(self) -> int | None:
        """How many objects it holds that Terraform made, deposed ones included. None: it cannot be told."""
        if self.resources is None:
            return None
        return sum(resource.mode == "managed" for resource in self.resources)


@dataclass(frozen=True, slots=True, kw_only=True)
class Empty:
    """Not one byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    reason: str
    """Names what is wrong, never what the file holds."""


StateFile = Readable | Empty | Unreadable


class _Instance(msgspec.Struct, frozen=True, gc=False):
    index_key: int | str | None = None
    deposed: str | None = None
    status: str | None = None


class _Resource(msgspec.Struct, frozen=True, gc=False):
    mode: str
    type: str
    name: str
    module: str | None = None
    provider: str = ""
    instances: list[_Instance] | None = None


class _Output(msgspec.Struct, frozen=True, gc=False):
    value: msgspec.Raw
    sensitive: bool = False

    def __repr__(self) -> str:
        return f"_Output(sensitive={self.sensitive!r}, …)"


class _State(msgspec.Struct, frozen=True, gc=False):
    version: int | None = None
    terraform_version: str | None = None
    serial: int | None = None
    lineage: str | None = None
    outputs: dict[str, _Output] | None = None
    resources: list[_Resource] | None = None
    encrypted_data: str | None = None


_STATE = msgspec.json.Decoder(_State)


def is_nothing(data: bytes) -> bool:
    """What `state pull` answers for a remote backend without a state: a frame that nothing was ever in."""
    try:
        found = _STATE.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return (
        found.version == _VERSION
        and not (found.serial or found.lineage or found.resources or found.outputs)
        and found.encrypted_data is None
    )


def read_state(data: bytes) -> StateFile:
    """Never raises: what cannot be read is an answer with a reason."""
    if not data:
        return Empty()
    if not data.strip(b" \t\r\n\0"):
        return Unreadable(reason="it holds nothing but blanks")
    try:
        state = _STATE.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Unreadable(reason=str(error))
    return _state(state)


def _state(found: _State) -> Readable | Unreadable:
    encrypted = found.encrypted_data is not None and found.version is None
    if not encrypted and found.version != _VERSION:
        return Unreadable(reason=f"its format version is {found.version}, not {_VERSION}")
    if found.serial is None or found.serial < 0 or not found.lineage:
        return Unreadable(reason="it has no serial or no lineage")
    if encrypted:
        return Readable(
            lineage=found.lineage, serial=found.serial, terraform_version=None, resources=None, outputs=None
        )
    return Readable(
        lineage=found.lineage,
        serial=found.serial,
        terraform_version=found.terraform_version,
        resources=tuple(instance for each in found.resources or () for instance in _instances(each)),
        outputs=tuple(
            StateOutput(name=name, sensitive=output.sensitive, value=output.value)
            for name, output in (found.outputs or {}).items()
        ),
    )


def _instances(found: _Resource) -> Iterator[StateResource]:
    for instance in found.instances or ():
        key = instance.index_key
        yield StateResource(
            address=resource_text(
                module=found.module, mode=found.mode, type_=found.type, name=found.name, key=key
            ),
            module=found.module or None,
            mode=found.mode,
            type=found.type,
            name=found.name,
            index=key,
            provider=found.provider,
            deposed=instance.deposed or None,
            tainted=instance.status == "tainted",
        )
