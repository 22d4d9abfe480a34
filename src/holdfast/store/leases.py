"""A lease: a lock with a live holder, a heartbeat and a fencing number.

The number grows by one with each holder and is never reused: a write with an older number is too late. A
lease changes hands when it is released, when its holder is proved dead, or when a person declares the holder
dead; a holder that is known to be alive keeps it in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.errors import Busy, UnknownOutcome
from holdfast.store.blobs import EncryptedBlobs, StoredBlob, to_json, unreadable
from holdfast.system import clock, process_table
from holdfast.system.process_table import Liveness, ProcessId

_ATTEMPTS = 30
"""So many conflicting writes in a row are a fault of the store."""


class Holder(Struct, frozen=True, kw_only=True):
    change: str
    who: str
    what: str
    process: ProcessId
    since: str

    def same(self, other: Holder) -> bool:
        """The same change of the same process: it may have taken a lease whose answer was lost."""
        return (self.change, self.process) == (other.change, other.process)


class TakenFrom(Struct, frozen=True, kw_only=True):
    """Why the lease changed hands without a release. Recorded while the new holder has it."""

    holder: Holder
    life: str
    declared: str | None


class Lease(Struct, frozen=True, kw_only=True):
    """Held by this process as far as it knows; `Leases.require` checks."""

    name: str
    holder: Holder
    number: int
    tag: str
    taken_from: TakenFrom | None = None


class HeldByOther(Struct, frozen=True, kw_only=True):
    """Another holder: who, the last heartbeat, and whether it is alive."""

    holder: Holder
    number: int
    beat: str
    life: Liveness


class LeaseLost(Busy):
    """Another holder took over: nothing more may be written under the old lease."""


class Leases:
    def __init__(
        self, encrypted: EncryptedBlobs, *, life: Callable[[ProcessId], Liveness] = process_table.liveness
    ) -> None:
        self._encrypted = encrypted
        self._life = life

    def take(
        self,
        name: str,
        holder: Holder,
        *,
        spare: Callable[[HeldByOther], bool] = lambda _: False,
        from_same_change: bool = False,
    ) -> Lease | HeldByOther:
        """Succeeds if the lease is free or its holder is proved dead. Taking twice gives the same lease.

        `spare` decides about a dead holder: what it started may still be running. `from_same_change`:
        another process of the change counts as dead, such as a worker that lost the change to this one.
        """

        def may(held: HeldByOther) -> bool:
            lost = from_same_change and held.holder.change == holder.change
            return (lost or held.life is Liveness.DEAD) and not spare(held)

        return self._take(name, holder, may=may, declared=None)

    def take_over(
        self, name: str, holder: Holder, *, number: int, declared: str | None
    ) -> Lease | HeldByOther:
        """From the holder with this number, if it is proved or declared dead.

        `declared` says by whom and why, and is recorded. It applies only to that holder.
        """

        def may(held: HeldByOther) -> bool:
            declared_dead = declared is not None and held.life is not Liveness.ALIVE
            return held.life is Liveness.DEAD or (held.number == number and declared_dead)

        return self._take(name, holder, may=may, declared=declared)

    def renew(self, lease: Lease) -> Lease:
        """The heartbeat."""
        tag = lease.tag
        for _ in range(_ATTEMPTS):
            record = _Record(
                number=lease.number, holder=lease.holder, beat=_now(), taken_from=lease.taken_from
            )
            renewed = self._encrypted.replace(_blob_name(lease.name), record.data(), tag=tag)
            if renewed is not None:
                return replace(lease, tag=renewed)
            # Another heartbeat of this process may have been first.
            tag = self._ours(lease)
        raise _conflicts(lease.name)

    def require(self, lease: Lease) -> None:
        """Raises if this process no longer holds it."""
        self._ours(lease)

    def release(self, lease: Lease) -> None:
        """May be repeated. The number stays, so that the next one is greater.

        The conditional write is the fence: the lease is read only if it changed since the last heartbeat.
        """
        tag = lease.tag
        for _ in range(_ATTEMPTS):
            free = _Record(number=lease.number, holder=None, beat=_now())
            if self._encrypted.replace(_blob_name(lease.name), free.data(), tag=tag) is not None:
                return
            record, tag = self._read(lease.name)
            if record is None or not record.held_as(lease):
                return
        raise _conflicts(lease.name)

    def look(self, name: str) -> HeldByOther | None:
        """The current holder, if any."""
        record, _ = self._read(name)
        return self._other_holder(record) if record is not None else None

    def _take(
        self, name: str, holder: Holder, *, may: Callable[[HeldByOther], bool], declared: str | None
    ) -> Lease | HeldByOther:
        for _ in range(_ATTEMPTS):
            current, tag = self._read(name)
            if current is None:
                first = _Record(number=1, holder=holder, beat=_now())
                self._encrypted.create(_blob_name(name), first.data())
                continue
            other = self._other_holder(current)
            if other is not None and other.holder.same(holder):
                return _lease(name, other.holder, current, tag)
            if other is not None and not may(other):
                return other
            record = _Record(
                number=current.number + 1,
                holder=holder,
                beat=_now(),
                taken_from=TakenFrom(holder=other.holder, life=other.life.value, declared=declared)
                if other is not None
                else None,
            )
            new_tag = self._encrypted.replace(_blob_name(name), record.data(), tag=tag)
            if new_tag is not None:
                return _lease(name, holder, record, new_tag)
        raise _conflicts(name)

    def _other_holder(self, record: _Record) -> HeldByOther | None:
        if record.holder is None:
            return None
        life = self._life(record.holder.process)
        return HeldByOther(holder=record.holder, number=record.number, beat=record.beat, life=life)

    def _ours(self, lease: Lease) -> str:
        """The tag of the lease in the store."""
        record, tag = self._read(lease.name)
        if record is not None and record.held_as(lease):
            return tag
        now = record.holder if record is not None else None
        by = f"{now.who} holds it ({now.what}, since {now.since})" if now is not None else "it was released"
        raise LeaseLost(
            "HF-STORE-9",
            f"this command lost the lease {lease.name}: {by}",
            hint="Check what the other command did, then plan again. Nothing more was written under the "
            "lease.",
        )

    def _read(self, name: str) -> tuple[_Record | None, str]:
        """The record and its tag."""
        blob = self._encrypted.read(_blob_name(name))
        return (_record(name, blob), blob.tag) if blob is not None else (None, "")


class _Record(Struct, frozen=True, kw_only=True):
    version: Literal[1] = 1
    number: int
    holder: Holder | None
    beat: str
    taken_from: TakenFrom | None = None

    def held_as(self, lease: Lease) -> bool:
        return self.number == lease.number and self.holder is not None and self.holder.same(lease.holder)

    def data(self) -> bytes:
        document = msgspec.to_builtins(self)
        for holder in _holders_in(document):
            holder["process"] = ProcessId(*holder["process"]).document()
        return to_json(document)


def _lease(name: str, holder: Holder, record: _Record, tag: str) -> Lease:
    return Lease(name=name, holder=holder, number=record.number, tag=tag, taken_from=record.taken_from)


def _record(name: str, blob: StoredBlob) -> _Record:
    try:
        document = msgspec.json.decode(blob.data)
        for holder in _holders_in(document):
            holder["process"] = ProcessId.of(holder["process"])
        return msgspec.convert(document, _Record)
    except (msgspec.DecodeError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise unreadable(
            f"cannot read the lease {name} in the run store: {error}",
            "A newer version of Holdfast may have written it. Upgrade Holdfast, then try again.",
        ) from None


def _holders_in(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Their process is an object in the store, but a tuple for msgspec."""
    for part in (document, document.get("taken_from")):
        if part is not None and part.get("holder") is not None:
            yield part["holder"]


def _blob_name(name: str) -> str:
    return f"leases/{name}"


def _now() -> str:
    return clock.now().isoformat()


def _conflicts(name: str) -> UnknownOutcome:
    return unreadable(
        f"the lease {name} in the run store changes faster than it can be read",
        "Check whether a proxy between this machine and the store changes its responses (ETag).",
    )
