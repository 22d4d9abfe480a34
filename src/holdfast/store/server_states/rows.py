"""States in the database: every change is one transaction under the lock of the state's row.

A version and the pointer to it are written together, so a reader sees both or neither. What a method returns
is committed. The rules are in `rules.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.errors import UnknownOutcome
from holdfast.kernel.values import MaskedStruct
from holdfast.secrets.encryption import Damaged, WrongKey
from holdfast.store.server_states.changes import Author, StateChange, StateKey, run
from holdfast.store.server_states.cipher import StateCipher, VersionPlace
from holdfast.store.server_states.locks import (
    Caller,
    HolderKind,
    Lease,
    LockRequest,
    StateLock,
    StateRefusal,
    is_holder,
)
from holdfast.store.server_states.rules import (
    CurrentVersion,
    DeletedVersion,
    NewState,
    StateRow,
    accepts_write,
    forced_unlock,
    granted_lock,
    is_renamed,
    released_lock,
    renewed_lease,
    require_deletable,
    require_silent,
    taken_over_lock,
)
from holdfast.system import clock

if TYPE_CHECKING:
    from psycopg import Connection

    from holdfast.database.database import Database

_ATTEMPTS = 5
_COLUMNS = "id, name, version, fence, released, unlocked_writes, follows, clock_timestamp() as now"
_STATE = f"""
    select {_COLUMNS} from states
    where tenant = %(tenant)s and name = %(name)s and deleted is null for update"""  # noqa: S608 - our own
_NEW_STATE = f"""
    insert into states (id, tenant, name) values (%(id)s, %(tenant)s, %(name)s) on conflict do nothing
    returning {_COLUMNS}"""  # noqa: S608 - our own column names
_LOCK_NAMES = (
    *("id", "info", "kind", "who", "holder", "run", "number", "taken", "beat", "expires", "taken_from"),
    *("nested", "nested_info"),
)
_LOCK_COLUMNS = ", ".join(f"l.{name}" for name in _LOCK_NAMES)
_LOCK = f"""
    select {_LOCK_COLUMNS} from states s join state_locks l on l.state = s.id
    where s.tenant = %(tenant)s and s.name = %(name)s and s.deleted is null"""  # noqa: S608 - our own
_LOCK_AND_CURRENT = f"""
    select {_LOCK_COLUMNS}, v.number as version, v.serial, v.lineage, v.empty,
      v.resources is null as encrypted, v.digest, v.fence
    from (select) one left join state_locks l on l.state = %(state)s
    left join state_versions v on v.state = %(state)s and v.number = %(number)s"""  # noqa: S608 - our own
_BEFORE = """
    select v.serial, v.lineage, v.empty from states s
    join state_versions v on v.state = s.id and v.number = s.version where s.id = %(state)s"""
_QUEUE = """
    select q.id, q.who, q.run, q.first_asked, q.last_asked from state_lock_queue q
    join states s on s.id = q.state
    where s.tenant = %(tenant)s and s.name = %(name)s and s.deleted is null
      and q.last_asked > clock_timestamp() - interval '30 seconds' order by q.first_asked, q.id"""
_READ = """
    select s.id as state, s.version, v.number, v.serial, v.md5, v.data from states s
    left join state_versions v on v.state = s.id and v.number = s.version
    where s.tenant = %(tenant)s and s.name = %(name)s and s.deleted is null"""
_SWAP = (
    "delete from state_locks where state in (%(source)s, %(target)s)",
    # Of two states, only one has a name that is in use.
    "update states set deleted = clock_timestamp() where id in (%(source)s, %(target)s)",
    """update states s set name = o.name, fence = o.fence, released = o.released, deleted = null,
      unlocked_writes = o.unlocked_writes
    from states o where (s.id, o.id) in ((%(source)s, %(target)s), (%(target)s, %(source)s))""",
)


class StoredState(MaskedStruct, frozen=True, kw_only=True):
    """The current version."""

    state: str
    number: int
    serial: int
    content: bytes
    md5: bytes


class Waiting(Struct, frozen=True, kw_only=True):
    id: str
    who: str
    run: str | None
    first_asked: datetime
    last_asked: datetime


class StateRows:
    def __init__(self, database: Database, cipher: StateCipher) -> None:
        self.database = database
        self.cipher = cipher

    def read(self, key: StateKey) -> StoredState | None:
        """None only if it was never written, or deleted."""
        with self.database.transaction(single=True) as connection:
            rows = run(connection, _READ, tenant=key.tenant, name=key.name)
        if not rows or not rows[0]["version"]:
            return None
        row = rows[0]
        content = self.decrypt(VersionPlace(key.tenant, row["state"], row["version"]), row["data"])
        return StoredState(
            state=row["state"],
            number=row["number"],
            serial=int(row["serial"]),
            content=content,
            md5=bytes(row["md5"]),
        )

    def write(
        self,
        key: StateKey,
        new: NewState,
        author: Author,
        caller: Caller,
        *,
        lock: str | None,
        number: int | None = None,
    ) -> VersionPlace | None:
        """The new version; None where it is the current one, sent again."""
        compressed = self.cipher.compress(new.content)
        with self.change(key) as change:
            if not accepts_write(change.row, new, caller, lock=lock, number=number):
                return None
            return self.add(change, new, compressed, author)

    def add(self, change: StateChange, new: NewState, compressed: bytes, author: Author) -> VersionPlace:
        place = VersionPlace(change.tenant, change.row.id, change.next_number)
        change.add(new, self.cipher.encrypt(place, compressed), author)
        return place

    def lock(self, key: StateKey, request: LockRequest, *, lease: Lease | None = None) -> StateLock:
        """For Terraform or a run, or (within its lease) for Terraform with the token of a run.

        Who does not get it is put into the queue.
        """
        with self.change(key) as change:
            try:
                return change.hold(granted_lock(change.row, request, lease=lease))
            except StateRefusal as refusal:
                refused = refusal
                change.wait(request)
        raise refused

    def unlock(self, key: StateKey, id_: str, caller: Caller) -> StateLock | None:
        """The lock, if it was that of another."""
        with self.change(key) as change:
            lock = released_lock(change.row, id_, caller)
            others = lock is not None and not is_holder(lock, caller)
            if others:
                require_silent(change.row)
            if lock is not None:
                change.release(lock, id_)
                if others:
                    change.record(caller.who, "unlock", f"lock {lock.id} of {lock.who}")
            return lock if others else None

    def force_unlock(
        self, key: StateKey, caller: Caller, *, id_: str | None = None, reason: str | None = None
    ) -> StateLock | None:
        """Of exactly this lock, if its id is given."""
        with self.change(key) as change:
            lock = forced_unlock(change.row, caller)
            if id_ is not None:
                lock = released_lock(change.row, id_, caller)
            require_silent(change.row)
            if lock is not None:
                change.release(lock)
            holder = f"lock {lock.id} of {lock.who}" if lock is not None else "no lock"
            change.record(caller.who, "force-unlock", f"{holder}: {reason}" if reason else holder)
            return lock

    def delete(self, key: StateKey, caller: Caller, *, lock: str | None) -> bool:
        """Another state may take the name after an admin deleted it, otherwise only a later version of it."""
        with self.change_existing(key) as change:
            if change is None:
                return False
            require_deletable(change.row, caller, lock=lock)
            if change.row.current is None:
                return False
            change.delete(caller, "delete", follows=not caller.admin)
            return True

    def rename(self, old: StateKey, new: StateKey, caller: Caller) -> None:
        """The versions pass to the new name; locks and fencing numbers stay with their names."""
        with self.database.transaction() as connection:
            found = {key: _locked_row(connection, key) for key in sorted((old, new))}
            source, target = found[old], found[new]
            if source is None or target is None or not is_renamed(source, target, caller):
                return
            for statement in _SWAP:
                run(connection, statement, source=source.id, target=target.id)
            for id_, row in ((target.id, source), (source.id, target)):
                change = StateChange(connection, old.tenant, replace(row, id=id_, lock=None))
                change.record(caller.who, "rename", f"{old.name} to {new.name}")
                if row.lock is not None:
                    change.hold(row.lock)

    def heartbeat(self, key: StateKey, id_: str, number: int) -> StateLock:
        with self.change(key) as change:
            return change.hold(renewed_lease(change.row, id_, number))

    def take_over(
        self, key: StateKey, request: LockRequest, *, number: int, dead: bool, declared: str | None
    ) -> StateLock:
        """From a run that is proved or declared dead (by whom and why). Recorded."""
        with self.change(key) as change:
            lock = taken_over_lock(change.row, request, number=number, dead=dead, declared=declared)
            change.record(request.who, "take over", lock.taken_from)
            return change.hold(lock)

    def lock_of(self, key: StateKey) -> StateLock | None:
        """As it is now: what depends on it names its number."""
        with self.database.transaction(single=True) as connection:
            rows = run(connection, _LOCK, tenant=key.tenant, name=key.name)
        return _lock(rows[0]) if rows else None

    def look(self, key: StateKey) -> tuple[StateRow | None, tuple[Waiting, ...]]:
        """The state with its lock, and who waits for it, longest first."""
        with self.change_existing(key) as change:
            if change is None:
                return None, ()
            rows = run(change.connection, _QUEUE, tenant=key.tenant, name=key.name)
            return change.row, tuple(Waiting(**row) for row in rows)

    def allow_unlocked_writes(self, key: StateKey, caller: Caller, *, allowed: bool) -> None:
        with self.change(key) as change:
            change.run(
                "update states set unlocked_writes = %(allowed)s where id = %(state)s", allowed=allowed
            )
            change.record(caller.who, f"{'allow' if allowed else 'forbid'} unlocked writes", None)

    @contextmanager
    def change(self, key: StateKey) -> Iterator[StateChange]:
        """One transaction; a state that does not exist is created."""
        with self.database.transaction() as connection:
            for _ in range(_ATTEMPTS):
                row = _locked_row(connection, key)
                if row is not None:
                    yield StateChange(connection, key.tenant, row)
                    return
                # Another transaction may create it first, or have deleted the one that was just waited for.
                new = run(connection, _NEW_STATE, id=clock.new_id(), tenant=key.tenant, name=key.name)
                if new:
                    yield StateChange(connection, key.tenant, _row(new[0]))
                    return
        raise UnknownOutcome("HF-STORE-2", f"the state {key.name} is created and deleted again and again")

    @contextmanager
    def change_existing(self, key: StateKey) -> Iterator[StateChange | None]:
        with self.database.transaction() as connection:
            row = _locked_row(connection, key)
            yield StateChange(connection, key.tenant, row) if row is not None else None

    def decrypt(self, place: VersionPlace, data: bytes | None) -> bytes:
        if data is None:
            raise UnknownOutcome(
                "HF-STORE-2", f"version {place.number} of the state {place.state} is missing"
            )
        try:
            return self.cipher.decrypt(place, bytes(data))
        except (Damaged, WrongKey) as error:
            problem = error.problem
            raise UnknownOutcome(problem.code, problem.message, hint=problem.hint) from None


def _locked_row(connection: Connection[Any], key: StateKey) -> StateRow | None:
    """The row lock comes first, in a statement of its own: only later statements see what its previous holder
    committed.
    """
    rows = run(connection, _STATE, tenant=key.tenant, name=key.name)
    if not rows:
        return None
    state = rows[0]
    both = run(connection, _LOCK_AND_CURRENT, state=state["id"], number=state["version"])[0]
    lock = {name: both[name] for name in _LOCK_NAMES}
    version = {name: both[name] for name in both.keys() - lock.keys()}
    if state["version"] and version["version"] is None:
        raise UnknownOutcome("HF-STORE-2", f"the current version of the state {state['name']} is missing")
    current = None
    if version.pop("version") is not None:
        current = CurrentVersion(**{**version, "serial": int(version["serial"])}, number=state["version"])
    deleted = None
    if current is None and state["follows"]:
        deleted = _deleted(connection, state["follows"])
    return _row(state, _lock(lock) if lock["id"] is not None else None, deleted, current)


def _row(
    state: Mapping[str, Any],
    lock: StateLock | None = None,
    deleted: DeletedVersion | None = None,
    current: CurrentVersion | None = None,
) -> StateRow:
    return StateRow(
        id=state["id"],
        name=state["name"],
        now=state["now"],
        unlocked_writes=state["unlocked_writes"],
        fence=state["fence"],
        released=state["released"],
        lock=lock,
        deleted=deleted,
        current=current,
    )


def _deleted(connection: Connection[Any], state: str) -> DeletedVersion | None:
    rows = run(connection, _BEFORE, state=state)
    return DeletedVersion(**{**rows[0], "serial": int(rows[0]["serial"])}) if rows else None


def _lock(row: Mapping[str, Any]) -> StateLock:
    nested_info = bytes(row["nested_info"]) if row["nested_info"] is not None else None
    known = {"kind": HolderKind(row["kind"]), "info": bytes(row["info"]), "nested_info": nested_info}
    return StateLock(**{**row, **known, "holder": row["holder"] or ""})
