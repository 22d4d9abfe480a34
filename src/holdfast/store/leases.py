"""A lease: a lock with a living holder. It has a heartbeat, and a number that fences off who held it before.

The number grows by one with each new holder and is never given twice: what carries an old number comes too
late. A lease changes hands when it was released, when its holder's death is proved, or when a person declares
that death; a holder that is seen to live keeps it whatever anybody declares.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Literal

import msgspec

from holdfast.kernel.errors import Busy, UnknownOutcome
from holdfast.kernel.values import dataclass
from holdfast.store.encrypted_blobs import EncryptedBlobs, Opened, packed
from holdfast.system import clock, process_table
from holdfast.system.process_table import Liveness, ProcessId

_ROUNDS = 30
"""So often somebody else can come between before that is called a fault of the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    change: str
    who: str
    what: str
    process: ProcessId
    since: str

    def same(self, other: Holder) -> bool:
        """The same change of the same process: what it does not remember taking may still be its own."""
        return (self.change, self.process) == (other.change, other.process)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenFrom:
    """Why it changed hands without having been released. Recorded as long as the new holder has it."""

    holder: Holder
    life: str
    declared: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Held by us, as far as we know. `Leases.require` asks."""

    name: str
    holder: Holder
    number: int
    tag: str
    taken_from: TakenFrom | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Not ours: who has it, when that one was last heard of, and whether it lives."""

    holder: Holder
    number: int
    beat: str
    life: Liveness


class LeaseLost(Busy):
    """Somebody took it over: whatever was about to be written under it must not be."""


class Leases:
    def __init__(
        self, encrypted: EncryptedBlobs, *, life: Callable[[ProcessId], Liveness] = process_table.life
    ) -> None:
        self._encrypted = encrypted
        self._life = life

    def take(
        self, name: str, holder: Holder, *, spare: Callable[[Held], bool] = lambda _: False
    ) -> Lease | Held:
        """Ours if it is free or its holder is proved dead. Taking twice gives the same lease.

        `spare` is asked about a dead holder: what it began may go on without it.
        """
        return self._taken(
            name, holder, may=lambda held: held.life is Liveness.DEAD and not spare(held), declared=None
        )

    def take_over(self, name: str, holder: Holder, *, number: int, declared: str | None) -> Lease | Held:
        """From the holder with this number, if its death is proved or declared.

        `declared` says by whom and why, and is recorded. It counts for the holder it was said of only.
        """

        def may(held: Held) -> bool:
            believed = declared is not None and held.life is not Liveness.ALIVE
            return held.life is Liveness.DEAD or (held.number == number and believed)

        return self._taken(name, holder, may=may, declared=declared)

    def renew(self, lease: Lease) -> Lease:
        """The heartbeat."""
        tag = lease.tag
        for _ in range(_ROUNDS):
            record = _Record(
                number=lease.number, holder=lease.holder, beat=_now(), taken_from=lease.taken_from
            )
            renewed = self._encrypted.replace(_place(lease.name), record.data(), tag=tag)
            if renewed is not None:
                return replace(lease, tag=renewed)
            # Another heartbeat of ours may have come between.
            tag = self._ours(lease).tag
        raise _unsettled(lease.name)

    def require(self, lease: Lease) -> None:
        """Raises unless it is still ours at this moment."""
        self._ours(lease)

    def release(self, lease: Lease) -> None:
        """May be repeated. The number stays, so that the next one is greater."""
        for _ in range(_ROUNDS):
            found = self._read(lease.name)
            if found is None or not found.record.held_as(lease):
                return
            free = _Record(number=lease.number, holder=None, beat=_now())
            if self._encrypted.replace(_place(lease.name), free.data(), tag=found.tag) is not None:
                return
        raise _unsettled(lease.name)

    def look(self, name: str) -> Held | None:
        """Who holds it now, if anybody does."""
        found = self._read(name)
        return self._held(found.record) if found is not None else None

    def _taken(
        self, name: str, holder: Holder, *, may: Callable[[Held], bool], declared: str | None
    ) -> Lease | Held:
        for _ in range(_ROUNDS):
            found = self._read(name)
            if found is None:
                self._encrypted.create(_place(name), _Record(number=0, holder=None, beat=_now()).data())
                continue
            held = self._held(found.record)
            if held is not None and held.holder.same(holder):
                return _lease(name, held.holder, found.record, found.tag)
            if held is not None and not may(held):
                return held
            record = _Record(
                number=found.record.number + 1,
                holder=holder,
                beat=_now(),
                taken_from=_taken_from(held, declared) if held is not None else None,
            )
            tag = self._encrypted.replace(_place(name), record.data(), tag=found.tag)
            if tag is not None:
                return _lease(name, holder, record, tag)
        raise _unsettled(name)

    def _held(self, record: _Record) -> Held | None:
        if record.holder is None:
            return None
        life = self._life(record.holder.process)
        return Held(holder=record.holder, number=record.number, beat=record.beat, life=life)

    def _ours(self, lease: Lease) -> _Found:
        found = self._read(lease.name)
        if found is not None and found.record.held_as(lease):
            return found
        now = found.record.holder if found is not None else None
        by = f"is held by {now.who} ({now.what}, since {now.since})" if now is not None else "was released"
        raise LeaseLost(
            "HF-STORE-9",
            f"{lease.name} is not ours any more: it {by}",
            hint="Look at what that one did, then plan again. Nothing more was written under the old lease.",
        )

    def _read(self, name: str) -> _Found | None:
        opened = self._encrypted.read(_place(name))
        return _Found(record=_record(name, opened), tag=opened.tag) if opened is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    version: Literal[1] = 1
    number: int
    holder: Holder | None
    beat: str
    taken_from: TakenFrom | None = None

    def held_as(self, lease: Lease) -> bool:
        return self.number == lease.number and self.holder is not None and self.holder.same(lease.holder)

    def data(self) -> bytes:
        return packed(asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    record: _Record
    tag: str


def _taken_from(held: Held, declared: str | None) -> TakenFrom:
    return TakenFrom(holder=held.holder, life=held.life.value, declared=declared)


def _lease(name: str, holder: Holder, record: _Record, tag: str) -> Lease:
    return Lease(name=name, holder=holder, number=record.number, tag=tag, taken_from=record.taken_from)


def _record(name: str, opened: Opened) -> _Record:
    try:
        return msgspec.json.decode(opened.data, type=_Record)
    except msgspec.DecodeError as error:
        raise UnknownOutcome(
            "HF-STORE-2",
            f"the lease {name} in the run store cannot be read: {error}",
            hint="A newer Holdfast may have written it. Nothing is taken while nobody can say who holds it.",
        ) from None


def _place(name: str) -> str:
    return f"leases/{name}"


def _now() -> str:
    return clock.now().isoformat()


def _unsettled(name: str) -> UnknownOutcome:
    return UnknownOutcome(
        "HF-STORE-2",
        f"the lease {name} changes in the run store faster than it can be read",
        hint="Look whether something between here and the store changes its answers (ETag).",
    )
