"""Edits of a state file: remove an instance, add an old one as deposed, raise the serial. Pure.

Bytes in, bytes out. What is not edited stays as it was, byte for byte: other resources, fields that this
version does not know, numbers of any size. Only the state changes, never a real resource; callers back up the
old bytes before they write the new ones.

    StateEditError          3  refused: the state is unchanged
    ├── HF-REC-3               the state is encrypted
    ├── HF-REC-4               the state cannot be read, or has another format
    ├── HF-REC-5               no instance to add a deposed one to, or its key is taken
    └── HF-REC-6               the serial would not increase
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

import msgspec

from holdfast.kernel.errors import Refused
from holdfast.kernel.values import MaskedStruct
from holdfast.terraform.statefile.model import State, StateResource, contents_of, read_state

_NULL = msgspec.Raw(b"null")
_Fields = dict[str, msgspec.Raw]
_FIELDS = msgspec.json.Decoder(_Fields)
_LIST = msgspec.json.Decoder(list[_Fields] | None)
_KEY_LENGTH = 8
Place = tuple[str, str | None]
"""An address, and the key of a deposed instance; None for the current one."""


class StateEditError(Refused):
    """The state is left unchanged."""


class InstanceRecord(MaskedStruct, frozen=True, kw_only=True):
    """One resource instance as the state file has it, with the fields of its resource block; unencrypted."""

    resource: StateResource
    block: _Fields
    body: _Fields

    @property
    def place(self) -> Place:
        return self.resource.address, self.resource.deposed


def find_instance(state: bytes, address: str, *, deposed: str | None = None) -> InstanceRecord | None:
    """The current instance of an address, or its deposed one with this key."""
    records = (record for _, block in _open(state)[1] for record in block)
    return next((record for record in records if record.place == (address, deposed)), None)


def remove_instances(state: bytes, places: Collection[Place]) -> bytes:
    """Remove the instances at these places; one that is not there is no error: a removal can be repeated."""
    document, blocks = _open(state)
    kept: list[_Fields] = []
    changed = False
    for fields, block in blocks:
        bodies = [record.body for record in block if record.place not in places]
        changed = changed or len(bodies) < len(block)
        if len(bodies) == len(block):
            kept.append(fields)
        elif bodies:
            kept.append({**fields, "instances": _raw(bodies)})
    return msgspec.json.encode({**document, "resources": _raw(kept)}) if changed else state


def add_deposed(state: bytes, address: str, old: InstanceRecord, key: str) -> bytes:
    """Put an old instance back as a deposed one of `address`: the next plan refreshes it and deletes it.

    `old` comes from another state, and may have had another address there. Adding the same instance again
    under the same key changes nothing.
    """
    document, blocks = _open(state)
    records = (record for _, block in blocks for record in block)
    here = next((record for record in records if record.resource.address == address), None)
    if here is None and old.resource.address != address:
        raise StateEditError(
            "HF-REC-5",
            f"{address} is not in the state, so no deposed instance can be added to it",
            hint="Import the new resource first.",
        )
    place = here if here is not None else old
    body = _deposed_body(old.body, place.body.get("index_key"), key)
    there = find_instance(state, address, deposed=key)
    if there is not None:
        if _bytes(there.body) == _bytes(body):
            return state
        raise StateEditError(
            "HF-REC-5",
            f"{address} has another deposed instance with the key {key}",
            hint="Use another key.",
        )
    resources = [fields for fields, _ in blocks]
    for fields in resources:
        if _block_name(fields) == _block_name(place.block):
            fields["instances"] = _raw([*_bodies(fields), body])
            break
    else:
        resources.append({**place.block, "instances": _raw([body])})
    return msgspec.json.encode({**document, "resources": _raw(resources)})


def raise_serial(state: bytes, serial: int) -> bytes:
    """The same content under a greater serial."""
    known = _require_editable(state)
    if serial <= known.serial:
        raise StateEditError(
            "HF-REC-6",
            f"the state has serial {known.serial}, and {serial} is not greater",
            hint="A serial can only increase. Check who wrote the state in between.",
        )
    return msgspec.json.encode({**_FIELDS.decode(state), "serial": _raw(serial)})


def with_lineage(state: bytes, lineage: str) -> bytes:
    """The same content, as a state of another lineage."""
    _require_editable(state)
    return msgspec.json.encode({**_FIELDS.decode(state), "lineage": _raw(lineage)})


def blank_state(lineage: str = "") -> bytes:
    """A state without any content. Terraform lets any other state follow it."""
    return msgspec.json.encode(
        {"version": 4, "serial": 0, "lineage": lineage, "outputs": {}, "resources": []}
    )


def deposed_key(*, run: str, address: str) -> str:
    """A key as Terraform makes them; the same for one run and address, so that a repeat adds nothing."""
    return hashlib.sha256(f"{run}\0{address}".encode()).hexdigest()[:_KEY_LENGTH]


def _require_editable(data: bytes) -> State:
    file = read_state(data)
    if not isinstance(file, State):
        raise StateEditError("HF-REC-4", contents_of(file).unseen or "", hint="Restore a backup first.")
    if file.encrypted:
        raise StateEditError(
            "HF-REC-3",
            "the state is encrypted and cannot be edited from outside the engine",
            hint="Use the state as the engine's `state pull` prints it, unencrypted.",
        )
    return file


def _open(data: bytes) -> tuple[_Fields, list[tuple[_Fields, list[InstanceRecord]]]]:
    """The document's fields, and each resource block with its instances: decoded, and byte for byte."""
    decoded = iter(_require_editable(data).resources or ())
    document = _FIELDS.decode(data)
    blocks = []
    for fields in _LIST.decode(document.get("resources", _NULL)) or ():
        block = {name: value for name, value in fields.items() if name != "instances"}
        records = [InstanceRecord(resource=next(decoded), block=block, body=body) for body in _bodies(fields)]
        blocks.append((fields, records))
    return document, blocks


def _bodies(block: _Fields) -> list[_Fields]:
    return _LIST.decode(block.get("instances", _NULL)) or []


def _block_name(block: _Fields) -> tuple[str | None, ...]:
    parts = (msgspec.json.decode(block.get(name, _NULL)) for name in ("module", "mode", "type", "name"))
    return tuple(part or None for part in parts)


def _deposed_body(body: _Fields, index: msgspec.Raw | None, key: str) -> _Fields:
    rest = {name: value for name, value in body.items() if name not in {"index_key", "deposed"}}
    first = {"index_key": index} if index is not None else {}
    return {**first, "deposed": _raw(key), **rest}


def _bytes(fields: _Fields) -> dict[str, bytes]:
    return {name: bytes(value) for name, value in fields.items()}


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))
