"""Edits of a state's record: an object taken out, an old one put back as deposed, the serial raised. Pure.

Bytes in, bytes out. What is not asked for stays as it was, byte for byte: other objects, fields that this
version does not know, numbers of any size. No real object is touched, only the record; whoever writes the
answer back keeps the old bytes first.

    StateSurgery            3  refused: the state is as it was
    ├── HF-REC-3               the state is encrypted
    ├── HF-REC-4               the state cannot be read, or is of another format
    ├── HF-REC-5               there is nothing to hang a deposed object on, or its place is taken
    └── HF-REC-6               a serial that would not grow
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator

import msgspec

from holdfast.kernel.errors import Refused
from holdfast.kernel.values import dataclass, field
from holdfast.terraform.addresses import resource_text
from holdfast.terraform.statefile.reader import Empty, Readable, Unreadable, read_state

_Fields = dict[str, msgspec.Raw]
_FIELDS = msgspec.json.Decoder(_Fields)
_RESOURCES = msgspec.json.Decoder(list[_Fields] | None)
_INSTANCES = msgspec.json.Decoder(list[_Fields] | None)
_KEY_LENGTH = 8


class StateSurgery(Refused):
    """The state is left as it was."""


class _Head(msgspec.Struct, frozen=True):
    mode: str
    type: str
    name: str
    module: str | None = None


class _Body(msgspec.Struct, frozen=True):
    index_key: int | str | None = None
    deposed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One object's record as it stands in a state, with the head of its resource; in clear."""

    address: str
    deposed: str | None
    head: _Fields = field(repr=False)
    body: _Fields = field(repr=False)


def instance(state: bytes, address: str, *, deposed: str | None = None) -> Instance | None:
    """The record of the current object under an address, or of the deposed one with this key."""
    return next(
        (found for found in _instances(_open(state)) if (found.address, found.deposed) == (address, deposed)),
        None,
    )


def without(state: bytes, addresses: Collection[str], *, deposed: bool = False) -> bytes:
    """Take the current objects under these addresses out of the record; with `deposed`, the old ones too.

    An address that holds nothing is no mistake: what was taken out once can be taken out again.
    """
    wanted = frozenset(addresses)

    def stays(found: Instance) -> bool:
        return found.address not in wanted or (found.deposed is not None and not deposed)

    return _kept(state, stays)


def without_deposed(state: bytes, address: str, key: str) -> bytes:
    """Take one deposed object out of the record."""
    return _kept(state, lambda found: (found.address, found.deposed) != (address, key))


def with_deposed(state: bytes, address: str, old: Instance, key: str) -> bytes:
    """Put an old object back as a deposed one of `address`: the next plan looks at it and deletes it.

    `old` comes from another state, and may have stood under another address there. Putting the same object
    back again under the same key changes nothing.
    """
    document = _open(state)
    here = next((found for found in _instances(document) if found.address == address), None)
    if here is None and old.address != address:
        raise StateSurgery(
            "HF-REC-5",
            f"{address} is not in the state, so nothing can be put beside it",
            hint="Import the new object first.",
        )
    place = here if here is not None else old
    body = _deposed_body(old.body, place.body.get("index_key"), key)
    there = instance(state, address, deposed=key)
    if there is not None:
        if _same(there.body, body):
            return state
        raise StateSurgery(
            "HF-REC-5", f"{address} has another deposed object with the key {key}", hint="Use another key."
        )
    resources = _resources(document)
    for resource in resources:
        if _name(resource) == _name(place.head):
            resource["instances"] = _raw([*_bodies(resource), body])
            break
    else:
        resources.append({**place.head, "instances": _raw([body])})
    return _written({**document, "resources": _raw(resources)})


def raised(state: bytes, serial: int) -> bytes:
    """The same content under a greater serial."""
    document = _open(state)
    known = read_state(state)
    if isinstance(known, Readable) and serial <= known.serial:
        raise StateSurgery(
            "HF-REC-6",
            f"the state has the serial {known.serial}, and {serial} is not greater",
            hint="A serial only grows; look at who wrote the state in between.",
        )
    return _written({**document, "serial": _raw(serial)})


def deposed_key(*, run: str, address: str) -> str:
    """A key as Terraform makes them, and always the same for one run and address: doing it twice is one."""
    return hashlib.sha256(f"{run}\0{address}".encode()).hexdigest()[:_KEY_LENGTH]


def _kept(state: bytes, stays: Callable[[Instance], bool]) -> bytes:
    document = _open(state)
    kept: list[_Fields] = []
    touched = False
    for resource in _resources(document):
        found = list(_of_resource(resource))
        bodies = [each.body for each in found if stays(each)]
        if len(bodies) == len(found):
            kept.append(resource)
            continue
        touched = True
        if bodies:
            kept.append({**resource, "instances": _raw(bodies)})
    return _written({**document, "resources": _raw(kept)}) if touched else state


def _open(state: bytes) -> _Fields:
    file = read_state(state)
    match file:
        case Empty():
            raise StateSurgery("HF-REC-4", "the state is empty: not one byte", hint="Restore a backup first.")
        case Unreadable():
            raise StateSurgery(
                "HF-REC-4", f"the state cannot be read: {file.reason}", hint="Restore a backup first."
            )
        case Readable() if file.encrypted:
            raise StateSurgery(
                "HF-REC-3",
                "the state is encrypted, so its record cannot be changed from outside",
                hint="Take the state as `state pull` of its engine gives it: in clear.",
            )
        case Readable():
            return _FIELDS.decode(state)


def _resources(document: _Fields) -> list[_Fields]:
    return _RESOURCES.decode(document.get("resources", msgspec.Raw(b"null"))) or []


def _bodies(resource: _Fields) -> list[_Fields]:
    return _INSTANCES.decode(resource.get("instances", msgspec.Raw(b"null"))) or []


def _instances(document: _Fields) -> Iterator[Instance]:
    for resource in _resources(document):
        yield from _of_resource(resource)


def _of_resource(resource: _Fields) -> Iterator[Instance]:
    head = {name: value for name, value in resource.items() if name != "instances"}
    said = _name(resource)
    for body in _bodies(resource):
        own = msgspec.convert(_plain(body, ("index_key", "deposed")), _Body)
        yield Instance(
            address=resource_text(
                module=said.module, mode=said.mode, type_=said.type, name=said.name, key=own.index_key
            ),
            deposed=own.deposed or None,
            head=head,
            body=body,
        )


def _name(head: _Fields) -> _Head:
    found = msgspec.convert(_plain(head, ("mode", "type", "name", "module")), _Head)
    return _Head(mode=found.mode, type=found.type, name=found.name, module=found.module or None)


def _plain(fields: _Fields, names: tuple[str, ...]) -> dict[str, object]:
    return {name: msgspec.json.decode(fields[name]) for name in names if name in fields}


def _deposed_body(body: _Fields, index: msgspec.Raw | None, key: str) -> _Fields:
    rest = {name: value for name, value in body.items() if name not in {"index_key", "deposed"}}
    first = {"index_key": index} if index is not None else {}
    return {**first, "deposed": _raw(key), **rest}


def _same(one: _Fields, other: _Fields) -> bool:
    return {name: bytes(value) for name, value in one.items()} == {
        name: bytes(value) for name, value in other.items()
    }


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _written(document: _Fields) -> bytes:
    return msgspec.json.encode(document)
