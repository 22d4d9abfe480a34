"""States in the database: every change is one transaction under the lock of the state's row.

A version and the pointer to it are written together, so a reader sees both or neither. What a method returns
is committed. The rules are in `rules.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.errors import UnknownOutcome
from holdfast.kernel.values import MaskedStruct
from holdfast.secrets.encryption import Damaged, WrongKey
from holdfast.store.server_states.cipher import StateCipher, VersionPlace
from holdfast.store.server_states.rules import (
    Caller,
    CurrentVersion,
    HolderKind,
    Lease,
    LockRequest,
    NewState,
    StateLock,
    StateRefusal,
    StateRow,
    accepts_write,
    forced_unlock,
    granted_lock,
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
_STATE = """
    select id, name, version, fence, released, unlocked_writes, clock_timestamp() as now from states
    where tenant = %(tenant)s and name = %(name)s and deleted is null for update"""
_NEW_STATE = """
    insert into states (id, tenant, name) values (%(id)s, %(tenant)s, %(name)s) on conflict do nothing"""
_LOCK = """
    select id, info, kind, who, run, number, taken, beat, expires, taken_from, nested, nested_info
    from state_locks
    where state = %(state)s"""
_CURRENT = """
    select number, serial, lineage, empty, resources is null as encrypted, digest from state_versions
    where state = %(state)s and number = %(number)s"""
_HELD = """
    insert into state_locks
      (state, tenant, id, info, kind, who, run, number, taken, beat, expires, taken_from, nested,
      nested_info)
    values (%(state)s, %(tenant)s, %(id)s, %(info)s, %(kind)s, %(who)s, %(run)s, %(number)s, %(taken)s,
      %(beat)s, %(expires)s, %(taken_from)s, %(nested)s, %(nested_info)s)
    on conflict (state) do update set id = excluded.id, info = excluded.info, kind = excluded.kind,
      who = excluded.who, run = excluded.run, number = excluded.number, taken = excluded.taken,
      beat = excluded.beat, expires = excluded.expires, taken_from = excluded.taken_from,
      nested = excluded.nested, nested_info = excluded.nested_info"""
_WAITING = """
    insert into state_lock_queue (state, tenant, id, who, run)
    values (%(state)s, %(tenant)s, %(id)s, %(who)s, %(run)s)
    on conflict (state, id) do update set last_asked = clock_timestamp()"""
_NOT_WAITING = """
    delete from state_lock_queue where state = %(state)s
      and (id = %(id)s or last_asked < clock_timestamp() - interval '1 hour')"""
_QUEUE = """
    select q.id, q.who, q.run, q.first_asked, q.last_asked from state_lock_queue q
    join states s on s.id = q.state
    where s.tenant = %(tenant)s and s.name = %(name)s and s.deleted is null
      and q.last_asked > clock_timestamp() - interval '30 seconds' order by q.first_asked, q.id"""
_LEASED = """
    select s.name from state_locks l join states s on s.id = l.state
    where l.tenant = %(tenant)s and l.run = %(run)s and s.deleted is null"""
_READ = """
    select s.id as state, s.version, v.number, v.serial, v.md5, v.data from states s
    left join state_versions v on v.state = s.id and v.number = s.version
    where s.tenant = %(tenant)s and s.name = %(name)s and s.deleted is null"""
_VERSION = """
    insert into state_versions
      (tenant, state, number, serial, lineage, empty, resources, size, digest, md5, data, who, why, run,
      fence)
    values (%(tenant)s, %(state)s, %(number)s, %(serial)s, %(lineage)s, %(empty)s, %(resources)s, %(size)s,
      %(digest)s, %(md5)s, %(data)s, %(who)s, %(why)s, %(run)s, %(fence)s)"""
_DELETED = """
    with old as (update states set deleted = clock_timestamp() where id = %(state)s returning *)
    insert into states (id, tenant, name, fence, released, unlocked_writes)
    select %(id)s, tenant, name, fence, released, unlocked_writes from old"""
_EVENT = """
    insert into state_events (tenant, state, who, what, reason)
    values (%(tenant)s, %(state)s, %(who)s, %(what)s, %(reason)s)"""


class StateKey(NamedTuple):
    tenant: str
    name: str


class Author(Struct, frozen=True, kw_only=True):
    """Who writes a version, by which operation, in which run."""

    who: str
    why: str
    run: str | None = None


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


class Statements:
    """About one state, in one transaction."""

    def __init__(self, connection: Connection[Any], tenant: str, state: str) -> None:
        self.connection = connection
        self.tenant = tenant
        self._state = state

    def run(self, sql: str, **values: object) -> list[dict[str, Any]]:
        return run(self.connection, sql, tenant=self.tenant, state=self._state, **values)

    def record(self, who: str, what: str, reason: str | None) -> None:
        self.run(_EVENT, who=who, what=what, reason=reason)


class StateChange(Statements):
    """A state with its row locked."""

    def __init__(self, connection: Connection[Any], tenant: str, row: StateRow) -> None:
        super().__init__(connection, tenant, row.id)
        self.row = row

    def hold(self, lock: StateLock) -> StateLock:
        if lock != self.row.lock:
            self.run(_HELD, **{name: getattr(lock, name) for name in lock.__struct_fields__})
            self.run("update states set fence = %(number)s where id = %(state)s", number=lock.number)
        self.run(_NOT_WAITING, id=lock.writer)
        return lock

    def release(self, lock: StateLock, id_: str | None = None) -> None:
        """With the id of the nested lock, only that one: the run keeps its lease."""
        if id_ is not None and id_ == lock.nested:
            self.hold(replace(lock, nested=None, nested_info=None))
        else:
            self.run("delete from state_locks where state = %(state)s")
        self.run("update states set released = %(id)s where id = %(state)s", id=id_ or lock.id)

    def add(self, new: NewState, data: bytes, author: Author) -> None:
        """`data` is encrypted for the next number."""
        number = self.next_number
        header, lock = new.header, self.row.lock
        self.run(
            _VERSION,
            number=number,
            serial=header.serial,
            lineage=header.lineage,
            empty=header.empty,
            resources=header.managed,
            size=len(new.content),
            digest=new.digest,
            md5=new.md5,
            data=data,
            who=author.who,
            why=author.why,
            run=author.run,
            fence=lock.number if lock is not None else None,
        )
        self.run("update states set version = %(number)s where id = %(state)s", number=number)

    def newest_serial(self) -> int:
        """The greatest serial that any version has had."""
        rows = self.run("select max(serial) as serial from state_versions where state = %(state)s")
        return int(rows[0]["serial"] or 0)

    @property
    def next_number(self) -> int:
        return (self.row.current.number if self.row.current is not None else 0) + 1


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
        *,
        lock: str | None,
        number: int | None = None,
        lease: Lease | None = None,
    ) -> VersionPlace | None:
        """The new version; None where it is the current one, sent again."""
        compressed = self.cipher.compress(new.content)
        with self.change(key) as change:
            if not accepts_write(change.row, new, lock=lock, number=number, lease=lease):
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
                change.run(_WAITING, id=request.id, who=request.who, run=request.run)
        raise refused

    def unlock(self, key: StateKey, id_: str, caller: Caller) -> StateLock | None:
        """The lock, if it was that of another."""
        with self.change(key) as change:
            lock = released_lock(change.row, id_, caller)
            others = lock is not None and lock.who != caller.who
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
        """Its versions are kept. The lock stays, and a new state takes its name."""
        with self.change_existing(key) as change:
            if change is None:
                return False
            require_deletable(change.row, lock=lock, lease=caller.lease)
            if change.row.current is None:
                return False
            id_ = clock.new_id()
            change.run(_DELETED, id=id_)
            change.run("update state_locks set state = %(id)s where state = %(state)s", id=id_)
            change.run("update state_lock_queue set state = %(id)s where state = %(state)s", id=id_)
            change.record(caller.who, "delete", None)
            return True

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

    def look(self, key: StateKey) -> tuple[StateRow | None, tuple[Waiting, ...]]:
        """The state with its lock, and who waits for it, longest first."""
        with self.change_existing(key) as change:
            if change is None:
                return None, ()
            rows = run(change.connection, _QUEUE, tenant=key.tenant, name=key.name)
            return change.row, tuple(Waiting(**row) for row in rows)

    def leased_by(self, tenant: str, run_id: str) -> str | None:
        """The state whose lease the run holds."""
        with self.database.transaction() as connection:
            rows = run(connection, _LEASED, tenant=tenant, run=run_id)
        return rows[0]["name"] if rows else None

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
                run(connection, _NEW_STATE, id=clock.new_id(), tenant=key.tenant, name=key.name)
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


def run(connection: Connection[Any], sql: str, **values: object) -> list[dict[str, Any]]:
    """One statement; its rows by column, if it has any."""
    from psycopg.rows import dict_row  # noqa: PLC0415 - an extra

    with connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute(sql, values, binary=True)
        return cursor.fetchall() if cursor.description is not None else []


def _locked_row(connection: Connection[Any], key: StateKey) -> StateRow | None:
    """The row lock comes first, in a statement of its own: only later statements see what its previous holder
    committed.
    """
    rows = run(connection, _STATE, tenant=key.tenant, name=key.name)
    if not rows:
        return None
    state = rows[0]
    locks = run(connection, _LOCK, state=state["id"])
    versions = run(connection, _CURRENT, state=state["id"], number=state["version"])
    if state["version"] and not versions:
        raise UnknownOutcome("HF-STORE-2", f"the current version of the state {state['name']} is missing")
    return StateRow(
        id=state["id"],
        name=state["name"],
        now=state["now"],
        unlocked_writes=state["unlocked_writes"],
        fence=state["fence"],
        released=state["released"],
        lock=_lock(locks[0]) if locks else None,
        current=CurrentVersion(**{**versions[0], "serial": int(versions[0]["serial"])}) if versions else None,
    )


def _lock(row: Mapping[str, Any]) -> StateLock:
    nested_info = bytes(row["nested_info"]) if row["nested_info"] is not None else None
    known = {"kind": HolderKind(row["kind"]), "info": bytes(row["info"]), "nested_info": nested_info}
    return StateLock(**{**row, **known})
