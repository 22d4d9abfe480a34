"""The rules of one state on the server: who may lock, write, unlock and delete it. Pure.

A lock belongs to plain Terraform, which holds it until it is released, or to a Holdfast run, whose heartbeat
shows that it is alive. Its fencing number grows with every holder and is never used twice. A lock changes
hands when it is released; the lease of a run also when its heartbeat has stopped and its holder is proved or
declared dead.

Plain Terraform with the token of a run takes its lock within the lease of that run, and loses it with the
lease.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, NoReturn, TypedDict

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.identity.principal import RUN, Principal
from holdfast.identity.roles import Permission
from holdfast.kernel.values import MaskedStruct
from holdfast.terraform.backend.http import Refusal
from holdfast.terraform.backend.rules import (
    StateHeader,
    complete_info,
    lock_id,
    locked_by,
    md5_of,
    read_header,
    require_successor,
)

LEASE = timedelta(seconds=60)
"""A lease without a heartbeat for so long has expired. That alone does not end it."""
LONGEST_ID = 200
LONGEST_INFO = 16 << 10


class StateRefusal(Refusal):
    """A refusal with the code and the hint of its problem document."""

    def __init__(
        self, status: int, code: str, message: str, *, hint: str | None = None, body: bytes | None = None
    ) -> None:
        super().__init__(status, message, body=body)
        self.code = code
        self.hint = hint


class HolderKind(StrEnum):
    TERRAFORM = "terraform"
    RUN = "run"


class LockRequest(Struct, frozen=True, kw_only=True):
    id: str
    info: bytes
    """LockInfo, as the holder sent it."""
    kind: HolderKind = HolderKind.TERRAFORM
    who: str
    """The verified name of the caller."""
    run: str | None = None


class StateLock(LockRequest, frozen=True, kw_only=True):
    number: int
    """The fencing number."""
    taken: datetime
    beat: datetime
    expires: datetime | None
    """None: an ordinary lock, held until it is released."""
    taken_from: str | None = None
    """Whose lease it was, and why it was taken over."""
    nested: str | None = None
    """The id of the lock that Terraform holds within the lease."""
    nested_info: bytes | None = None

    @property
    def writer(self) -> str:
        """The id that a write must name."""
        return self.nested or self.id

    def expired(self, now: datetime) -> bool:
        return self.expires is not None and now >= self.expires


class Lease(NamedTuple):
    """What the token of a run was created for."""

    run: str
    number: int


class Caller(Struct, frozen=True, kw_only=True):
    who: str
    admin: bool = False
    lease: Lease | None = None


def caller_of(principal: Principal) -> Caller:
    claims = principal.claims if principal.kind == RUN else {}
    return Caller(
        who=principal.name,
        admin=principal.may(Permission.ADMINISTER),
        lease=Lease(claims["run"], int(claims["fence"])) if "fence" in claims else None,
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


def lock_request(info: bytes, caller: Caller) -> LockRequest:
    id_ = lock_id(info)
    if id_ is None or len(id_) > LONGEST_ID or not id_.isprintable():
        raise StateRefusal(
            400,
            "HF-STATE-42",
            "the lock request has no valid lock ID",
            hint='Send the LockInfo of Terraform: {"ID": "...", "Operation": "...", "Who": "...", ...}.',
        )
    return LockRequest(id=id_, info=complete_info(info), who=caller.who)


def run_lease(run: str, id_: str, *, who: str, created: str, version: str) -> LockRequest:
    """What a Holdfast run asks for; Terraform shows it to those who wait."""
    info = {
        "ID": id_,
        "Operation": "OperationTypeApply",
        "Info": f"Holdfast run {run}",
        "Who": who,
        "Version": version,
        "Created": created,
        "Path": "",
    }
    return LockRequest(id=id_, info=json.dumps(info).encode(), kind=HolderKind.RUN, who=who, run=run)


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
        if (lock.id, lock.kind, lock.run) == (request.id, request.kind, request.run):
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
    if lock.kind is HolderKind.RUN and lock.who != caller.who and not caller.admin:
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
    row: StateRow,
    new: NewState,
    *,
    lock: str | None,
    number: int | None = None,
    lease: Lease | None = None,
) -> bool:
    """Whether to store it; False where it is the stored one, sent again. Otherwise it is refused.

    `number` is the fencing number, where the writer knows it.
    """
    if lease is not None:
        _require_lease(row, lease)
    _require_lock(row, lock, number)
    return _follows(row, new)


def accepts_run_write(row: StateRow, new: NewState, *, run: str | None, lease: Lease | None = None) -> bool:
    """For a run: its claim on the stack is enough, unless plain Terraform or another run holds the lock."""
    if lease is not None:
        _require_lease(row, lease)
    if row.lock is not None and (row.lock.run is None or row.lock.run != run or row.lock.nested):
        refuse_locked(row.lock, nested=row.lock.run == run)
    return _follows(row, new)


def _follows(row: StateRow, new: NewState) -> bool:
    current = row.current
    if current is None:
        return True
    if (current.serial, current.digest) == (new.header.serial, new.digest):
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


def _require_lock(row: StateRow, lock: str | None, number: int | None) -> None:
    held = row.lock
    if held is not None:
        if held.writer != lock:
            refuse_locked(held)
        if number is not None and number != held.number:
            renewed_lease(row, held.id, number)
    elif lock is not None or not row.unlocked_writes:
        raise StateRefusal(
            409,
            "HF-STATE-43",
            f"{row.name} is not locked{' by this client any more' if lock is not None else ''}: "
            "a state is written only under its lock",
            hint="Set lock_address and unlock_address of the http backend to the state's address, and do not "
            f"use -lock=false. Or allow such writes: holdfast state set {row.name} --unlocked-writes",
        )


def _require_lease(row: StateRow, lease: Lease) -> StateLock:
    """Also where the lease ended after the token was checked."""
    if row.lock is None or (row.lock.run, row.lock.number) != lease:
        raise _lost_lease(403, row.name)
    return row.lock


def require_deletable(row: StateRow, *, lock: str | None, lease: Lease | None = None) -> None:
    if lease is not None:
        _require_lease(row, lease)
    if row.lock is not None and row.lock.writer != lock:
        refuse_locked(row.lock)


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
