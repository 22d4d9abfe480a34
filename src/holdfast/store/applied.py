"""What a stack was last applied as: an apply that treats it as less than that needs an override."""

from __future__ import annotations

import hashlib

import msgspec
from msgspec import Struct

from holdfast.store.blobs import EncryptedBlobs, encode_name, to_json, unreadable


class AppliedAs(Struct, frozen=True, kw_only=True):
    environment: str | None
    production: bool
    owner: str | None
    """Of its target; None: it had no target."""
    approvals: int = 0
    verified: bool = False
    """Only approvals by verified identities counted."""
    approvers: tuple[str, ...] = ()
    """`2 approvals of the group dba`."""
    addresses: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    except_types: tuple[str, ...] = ()
    tags: tuple[tuple[str, tuple[str, ...]], ...] = ()


class AppliedRecords:
    """By the name of the stack and by the location of its state, so that a new name changes nothing.

    A location can be written in several ways. So a name without a record is also known by the lineage of its
    state. Other names are not: a state that was copied to start another stack has the same lineage.
    """

    def __init__(self, encrypted: EncryptedBlobs) -> None:
        self._encrypted = encrypted

    def of(self, stack: str, location: str | None, lineage: str) -> tuple[AppliedAs, ...]:
        by_name, *others = _names(stack, location, lineage)
        own = self._read(by_name)
        if own is not None and lineage:
            others.remove(_by_lineage(lineage))
        read = (own, *map(self._read, others))
        return tuple(dict.fromkeys(applied for applied in read if applied is not None))

    def record(self, stack: str, location: str | None, lineage: str, applied: AppliedAs) -> None:
        """Not durable: after a power failure, what the stack was applied as before may count."""
        for name in _names(stack, location, lineage):
            if self._read(name) != applied:
                self._encrypted.write(name, to_json(msgspec.to_builtins(applied)), durable=False)

    def forget(self, stack: str, location: str | None, lineage: str) -> None:
        """After a destroy: nothing is left that was applied as anything."""
        for name in _names(stack, location, lineage):
            self._encrypted.remove(name)

    def _read(self, name: str) -> AppliedAs | None:
        document = self._encrypted.document(name)
        try:
            return msgspec.convert(document, AppliedAs) if document is not None else None
        except msgspec.ValidationError:
            raise unreadable(
                f"{name} in the run store is not a valid record of an apply",
                "A newer Holdfast may have written it.",
            ) from None


def applied_name(stack: str) -> str:
    return f"applied/names/{encode_name(stack)}"


def _names(stack: str, location: str | None, lineage: str) -> tuple[str, ...]:
    by_state = (f"applied/states/{_digest(location)}",) if location is not None else ()
    return applied_name(stack), *by_state, *((_by_lineage(lineage),) if lineage else ())


def _by_lineage(lineage: str) -> str:
    return f"applied/lineages/{_digest(lineage)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
