"""One state with its row locked: the statements of a transaction that changes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast.store.server_states.locks import Caller, LockRequest, StateLock
from holdfast.store.server_states.rules import NewState, StateRow
from holdfast.system import clock

if TYPE_CHECKING:
    from psycopg import Connection

_HELD = """
    insert into state_locks
      (state, tenant, id, info, kind, who, holder, run, number, taken, beat, expires, taken_from, nested,
      nested_info)
    values (%(state)s, %(tenant)s, %(id)s, %(info)s, %(kind)s, %(who)s, %(holder)s, %(run)s, %(number)s,
      %(taken)s, %(beat)s, %(expires)s, %(taken_from)s, %(nested)s, %(nested_info)s)
    on conflict (state) do update set id = excluded.id, info = excluded.info, kind = excluded.kind,
      who = excluded.who, holder = excluded.holder, run = excluded.run, number = excluded.number,
      taken = excluded.taken, beat = excluded.beat, expires = excluded.expires,
      taken_from = excluded.taken_from, nested = excluded.nested, nested_info = excluded.nested_info"""
_WAITING = """
    insert into state_lock_queue (state, tenant, id, who, run)
    values (%(state)s, %(tenant)s, %(id)s, %(who)s, %(run)s)
    on conflict (state, id) do update set last_asked = clock_timestamp()"""
_NOT_WAITING = """
    delete from state_lock_queue where state = %(state)s
      and (id = %(writer)s or last_asked < clock_timestamp() - interval '1 hour')"""
_HOLD = f"""
    with held as ({_HELD}), fenced as (update states set fence = %(number)s where id = %(state)s)
    {_NOT_WAITING}"""  # noqa: S608 - our own statements
_RELEASE = """
    with released as (update states set released = %(id)s where id = %(state)s)
    delete from state_locks where state = %(state)s"""
_VERSION = """
    insert into state_versions
      (tenant, state, number, serial, lineage, empty, resources, size, digest, md5, data, who, why, run,
      fence)
    values (%(tenant)s, %(state)s, %(number)s, %(serial)s, %(lineage)s, %(empty)s, %(resources)s, %(size)s,
      %(digest)s, %(md5)s, %(data)s, %(who)s, %(why)s, %(run)s, %(fence)s)"""
_ADD = f"""
    with current as (update states set version = %(number)s where id = %(state)s)
    {_VERSION}"""  # noqa: S608 - our own statements
_DELETED = """
    with old as (update states set deleted = clock_timestamp() where id = %(state)s returning *)
    insert into states (id, tenant, name, fence, released, unlocked_writes, follows)
    select %(id)s, tenant, name, fence, released, unlocked_writes, %(follows)s from old"""
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
            values = {name: getattr(lock, name) for name in lock.__struct_fields__}
            self.run(_HOLD, **values, writer=lock.writer)
        else:
            self.run(_NOT_WAITING, writer=lock.writer)
        return lock

    def release(self, lock: StateLock, id_: str | None = None) -> None:
        """With the id of the nested lock, only that one: the run keeps its lease."""
        if id_ is not None and id_ == lock.nested:
            self.hold(replace(lock, nested=None, nested_info=None))
            self.run("update states set released = %(id)s where id = %(state)s", id=id_)
        else:
            self.run(_RELEASE, id=id_ or lock.id)

    def add(self, new: NewState, data: bytes, author: Author) -> None:
        """`data` is encrypted for the next number."""
        number = self.next_number
        header, lock = new.header, self.row.lock
        self.run(
            _ADD,
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

    def delete(self, caller: Caller, what: str, *, follows: bool) -> None:
        """Its versions are kept. The lock stays, and a new state takes its name.

        `follows`: the first version of the new one must come after the last of this one.
        """
        id_ = clock.new_id()
        self.run(_DELETED, id=id_, follows=self.row.id if follows else None)
        self.run("update state_locks set state = %(id)s where state = %(state)s", id=id_)
        self.run("update state_lock_queue set state = %(id)s where state = %(state)s", id=id_)
        self.record(caller.who, what, None)

    def wait(self, request: LockRequest) -> None:
        """In the queue: it did not get the lock."""
        self.run(_WAITING, id=request.id, who=request.who, run=request.run)

    def newest_serial(self) -> int:
        """The greatest serial that any version has had."""
        rows = self.run("select max(serial) as serial from state_versions where state = %(state)s")
        return int(rows[0]["serial"] or 0)

    @property
    def next_number(self) -> int:
        return (self.row.current.number if self.row.current is not None else 0) + 1


def run(connection: Connection[Any], sql: str, **values: object) -> list[dict[str, Any]]:
    """One statement; its rows by column, if it has any."""
    from psycopg.rows import dict_row  # noqa: PLC0415 - an extra

    with connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute(sql, values, binary=True)
        return cursor.fetchall() if cursor.description is not None else []
