"""The rules of one state on the server: who may lock, write, unlock and delete it. Pure.

A lock belongs to plain Terraform, which holds it until it is released, or to a Holdfast run, whose heartbeat
shows that it is alive. Its fencing number grows with every holder and is never used twice. A lock changes
hands when it is released; the lease of a run also when its heartbeat has stopped and its holder is proved or
declared dead. Ids of locks and runs are no secret: `locks.is_holder` compares who was verified.

Plain Terraform with the token of a run takes its lock within the lease of that run, and loses it with the
lease.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import NoReturn, TypedDict

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.values import MaskedStruct
from holdfast.store.server_states.locks import (
    LEASE,
    LONGEST_ID,
    Caller,
    HolderKind,
    Lease,
    LockRequest,
    StateLock,
    StateRefusal,
    is_holder,
)
from holdfast.terraform.backend.http import Refusal
from holdfast.terraform.backend.rules import (
    StateHeader,
    locked_by,
    md5_of,
    read_header,
    require_successor,
)


class CurrentVersion(Struct, frozen=True, kw_only=True):
    """The newest version of a state, as far as the rules need it."""

    number: int
    serial: int
    lineage: str
    empty: bool
    encrypted: bool
    """By OpenTofu."""
    digest: str
    fence: int | None = None
    """Of the lock under which it was written."""


class DeletedVersion(Struct, frozen=True, kw_only=True):
    """The newest version of the state that had the name before."""

    serial: int
    lineage: str
    empty: bool


class StateRow(Struct, frozen=True, kw_only=True):
    """One state, read under its row lock."""

    id: str
    name: str
    now: datetime
    unlocked_writes: bool
    fence: int
    """The newest fencing number that was given."""
    released: str | None
    """The lock id that was released last."""
    lock: StateLock | None
    current: CurrentVersion | None
    deleted: DeletedVersion | None = None
    """What the first version must follow; None: nothing, also after an admin deleted the state."""


class NewState(MaskedStruct, frozen=True, kw_only=True):
    """A state that was checked as far as that is possible without the stored one."""

    content: bytes
    header: StateHeader
    digest: str
    """SHA-256."""
    md5: bytes
    """Terraform's protocol has it."""


class _Resource(TypedDict, total=False):
    mode: object
    type: object
    name: object
    instances: list[dict[str, msgspec.Raw]] | None


class _Document(TypedDict, total=False):
    version: object
    serial: object
    lineage: object
    encrypted_data: object
    resources: list[_Resource] | None
    outputs: dict[str, msgspec.Raw] | None


_DOCUMENT = msgspec.json.Decoder(_Document)


def read_new_state(content: bytes, *, md5: bytes | None = None) -> NewState:
    """Attributes stay undecoded: a state may have a hundred megabytes. `md5`: where it is known."""
    try:
        content.decode()
        document = _DOCUMENT.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # The original message may quote the text.
        raise _not_a_state("it is not JSON, or its parts have other types than in a state") from None
    try:
        header = read_header(dict(document))
    except ValueError as error:
        raise _not_a_state(str(error)) from None
    if len(header.lineage) > LONGEST_ID or not header.lineage.isprintable():
        raise _not_a_state("its lineage is not valid")
    digest = hashlib.sha256(content).hexdigest()
    return NewState(content=content, header=header, digest=digest, md5=md5 or md5_of(content))


def granted_lock(
    row: StateRow, request: LockRequest, *, lease: Lease | None = None, taken_from: str | None = None
) -> StateLock:
    """The lock that the request gets: its own one again, or a new one. Otherwise it is held by another."""
    lock = row.lock
    if lease is not None:
        lock = _require_lease(row, lease)
        if lock.nested not in (None, request.id):
            refuse_locked(lock, nested=True)
        return replace(lock, nested=request.id, nested_info=request.info)
    if lock is not None and taken_from is None:
        asking = Caller(who=request.who, subject=request.holder)
        same = (lock.id, lock.kind, lock.run) == (request.id, request.kind, request.run)
        if same and is_holder(lock, asking):
            return lock
        refuse_locked(lock)
    return StateLock(
        **{name: getattr(request, name) for name in request.__struct_fields__},
        number=row.fence + 1,
        taken=row.now,
        beat=row.now,
        expires=row.now + LEASE if request.kind is HolderKind.RUN else None,
        taken_from=taken_from,
    )


def taken_over_lock(
    row: StateRow, request: LockRequest, *, number: int, dead: bool, declared: str | None
) -> StateLock:
    """The lease with this number passes to the request if its holder is proved (`dead`) or declared dead.

    A holder with a heartbeat is alive, whatever anyone declares. Plain Terraform has none: only a person
    can tell, with a force-unlock.
    """
    lock = row.lock
    if lock is None or lock.number != number:
        raise StateRefusal(
            409,
            "HF-STATE-50",
            f"the lease {number} of {row.name} is no longer the current one",
            hint=f"Look again: holdfast state locks --state {row.name}",
        )
    if lock.kind is not HolderKind.RUN or not lock.expired(row.now) or not (dead or declared):
        refuse_locked(lock)
    why = f"declared dead: {declared}" if declared is not None else "proved dead"
    return granted_lock(row, request, taken_from=f"{lock.who}, run {lock.run}, {why}")


def renewed_lease(row: StateRow, id_: str, number: int) -> StateLock:
    """The heartbeat of the lease that a run believes to hold."""
    lock = row.lock
    if lock is None or (lock.id, lock.number) != (id_, number):
        raise _lost_lease(409, row.name)
    return replace(lock, beat=row.now, expires=row.now + LEASE if lock.expires is not None else None)


def released_lock(row: StateRow, id_: str, caller: Caller) -> StateLock | None:
    """The lock to release; None where it was released before, and the response to that was lost."""
    lock = row.lock if caller.lease is None else _require_lease(row, caller.lease)
    own = () if lock is None else (lock.nested,) if caller.lease is not None else (lock.nested, lock.id)
    if lock is None or id_ not in own:
        if id_ == row.released:
            return None
        raise StateRefusal(
            409,
            "HF-STATE-47",
            "the unlock request names a lock that is not held",
            hint=f"Show who holds it: holdfast state locks --state {row.name}",
        )
    if not is_holder(lock, caller) and not caller.admin:
        raise _admin_needed(row.name)
    return lock


def forced_unlock(row: StateRow, caller: Caller) -> StateLock | None:
    """`terraform force-unlock` sends no id at all: only an admin may do this."""
    if not caller.admin:
        raise _admin_needed(row.name)
    return row.lock


def require_silent(row: StateRow) -> None:
    """A run with a heartbeat is alive: it would go on changing resources, and could not save its state."""
    lock = row.lock
    if lock is not None and lock.kind is HolderKind.RUN and not lock.expired(row.now):
        raise StateRefusal(
            409,
            "HF-STATE-65",
            f"{row.name} is locked by the run {lock.run} of {lock.who}, which is alive: its last heartbeat "
            f"was {max(0, round((row.now - lock.beat).total_seconds()))} s ago",
            hint="Wait for it, or cancel it where it runs (Ctrl-C). Without a heartbeat for "
            f"{LEASE.seconds} s: holdfast state unlock --state {row.name} --reason TEXT",
        )


def accepts_write(
    row: StateRow, new: NewState, caller: Caller, *, lock: str | None, number: int | None = None
) -> bool:
    """Whether to store it; False where it is the stored one, sent again. Otherwise it is refused.

    `number` is the fencing number, where the writer knows it.
    """
    _require_lock(row, caller, lock, number)
    return _follows(row, new)


def accepts_run_write(row: StateRow, new: NewState, caller: Caller, *, run: str | None) -> bool:
    """For a run, which took the lease with its claim. `run`: the one that wants to write, if it says so."""
    lock = _require_held(row, caller)
    if lock.kind is not HolderKind.RUN or run not in (None, lock.run) or lock.nested is not None:
        refuse_locked(lock, nested=lock.run == run)
    return _follows(row, new)


def require_withdrawable(row: StateRow, caller: Caller, number: int) -> None:
    """A run withdraws the only version of a state, if it wrote that itself. History is never removed."""
    lock, current = _require_held(row, caller), row.current
    mine = current is not None and (current.number, current.fence) == (number, lock.number)
    if not mine or number != 1:
        raise StateRefusal(
            403,
            "HF-STATE-64",
            f"version {number} of {row.name} cannot be removed: the server keeps and prunes versions itself",
            hint="To remove what a version contains: "
            f"holdfast state purge --state {row.name} {number} --reason TEXT",
        )


def is_renamed(row: StateRow, target: StateRow, caller: Caller) -> bool:
    """Whether the state of `row` gets the name of `target`; False where it has no state any more."""
    for held in (row, target):
        _require_held(held, caller)
    if row.current is not None and target.current is not None:
        raise StateRefusal(
            409,
            "HF-STATE-13",
            f"{target.name} already has a state of its own (serial {target.current.serial})",
            hint="Holdfast does not merge states. Move the resources with `moved` or `import` blocks.",
        )
    return row.current is not None


def _follows(row: StateRow, new: NewState) -> bool:
    current = row.current or row.deleted
    if current is None:
        return True
    if isinstance(current, CurrentVersion) and (current.serial, current.digest) == (
        new.header.serial,
        new.digest,
    ):
        return False
    stored = StateHeader(serial=current.serial, lineage=current.lineage, empty=current.empty, managed=None)
    try:
        require_successor(new.header, stored)
    except Refusal as refusal:
        raise StateRefusal(
            409,
            "HF-STATE-44",
            refusal.message,
            hint="Plan again. To restore an earlier version: "
            f"holdfast state rollback --state {row.name} VERSION --reason TEXT",
        ) from None
    return True


def _require_lock(row: StateRow, caller: Caller, lock: str | None, number: int | None) -> None:
    if row.lock is None and lock is None and row.unlocked_writes and caller.lease is None:
        return
    held = _require_held(row, caller, after=lock)
    if held.writer != lock:
        refuse_locked(held)
    if number is not None and number != held.number:
        renewed_lease(row, held.id, number)


def _require_held(row: StateRow, caller: Caller, *, after: str | None = None) -> StateLock:
    """The lock, which the caller holds. `after`: the id of the one that it had before."""
    if caller.lease is not None:
        return _require_lease(row, caller.lease)
    if row.lock is None:
        raise StateRefusal(
            409,
            "HF-STATE-43",
            f"{row.name} is not locked{' by this client any more' if after is not None else ''}: "
            "a state is written only under its lock",
            hint="Set lock_address and unlock_address of the http backend to the state's address, and do not "
            f"use -lock=false. Or allow such writes: holdfast state set {row.name} --unlocked-writes",
        )
    if not is_holder(row.lock, caller):
        refuse_locked(row.lock)
    return row.lock


def _require_lease(row: StateRow, lease: Lease) -> StateLock:
    """Also where the lease ended after the token was checked."""
    if row.lock is None or (row.lock.run, row.lock.number) != lease:
        raise _lost_lease(403, row.name)
    return row.lock


def require_deletable(row: StateRow, caller: Caller, *, lock: str | None) -> None:
    """As for a write; an admin needs no lock if there is none."""
    if row.lock is not None or not caller.admin:
        _require_lock(row, caller, lock, None)


def refuse_locked(lock: StateLock, *, nested: bool = False) -> NoReturn:
    """`nested`: to the run itself, which asks who holds the lock within its lease."""
    refusal = locked_by(lock.nested_info or lock.info if nested else lock.info)
    raise StateRefusal(423, "HF-STATE-45", refusal.message, body=refusal.body)


def _lost_lease(status: int, name: str) -> StateRefusal:
    return StateRefusal(
        status,
        "HF-STATE-49",
        f"this run has lost its lease on {name}",
        hint=f"Show who holds it: holdfast state locks --state {name}. Then plan again.",
    )


def _admin_needed(name: str) -> StateRefusal:
    return StateRefusal(
        403,
        "HF-STATE-46",
        f"only an admin can release a lock of {name} that another holds",
        hint=f"Ask an admin: holdfast state unlock --state {name} --reason TEXT",
    )


def _not_a_state(reason: str) -> StateRefusal:
    return StateRefusal(
        400,
        "HF-STATE-42",
        f"the request does not contain a state: {reason}",
        hint="Send a state of format 4, or one that OpenTofu encrypted.",
    )
