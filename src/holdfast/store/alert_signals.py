"""What people may have to hear of, in the database, until it is in the outbox of its tenant.

A signal is written in the transaction of what happened, so none is lost in between and none is about
something that was rolled back. A server that works on the outbox of a tenant has a lease of it: no other
server does.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.database.errors import DatabaseUnavailable
from holdfast.store.blobs import EncryptedBlobs
from holdfast.store.database_blobs import read_several, write_several
from holdfast.store.server_runs.contents import FOLDER
from holdfast.store.server_states.changes import run as execute
from holdfast.system import clock

if TYPE_CHECKING:
    from psycopg import Connection

    from holdfast.database.database import Database

LEASE_SECONDS: Final = 120
"""Longer than a server works on one outbox at a time."""
_MARKS_FOLDER: Final = "audit/marks"
_RAISED: Final = f"{FOLDER}/alerts/raised"
OUTBOX: Final = f"{FOLDER}/alerts/outbox"
_BATCH: Final = 500
_RELEASES: Final = 5
_SIGNAL: Final = (
    "insert into alert_signals (tenant, kind, subject) values (%(tenant)s, %(kind)s, %(subject)s)"
)
# Who waited longest is next, so that a tenant with many alerts does not delay the others.
_TAKE: Final = """
with wanted as (
  select tenant from alert_signals union select tenant from alert_outboxes where due <= clock_timestamp()
), next as (
  select tenant from wanted left join alert_outboxes o using (tenant)
  where o.tenant is null or o.busy_until <= clock_timestamp()
  order by o.busy_until nulls first limit 1
)
insert into alert_outboxes (tenant, busy_until, lease)
select tenant, clock_timestamp() + make_interval(secs => %(seconds)s), 1 from next
on conflict (tenant) do update set busy_until = excluded.busy_until, lease = alert_outboxes.lease + 1
  where alert_outboxes.busy_until <= clock_timestamp()
returning tenant, lease
"""
_SIGNALS: Final = """
with taken as (
  delete from alert_signals where number in (
    select number from alert_signals where tenant = %(tenant)s order by number limit %(batch)s)
  returning number, kind, subject
)
select kind, subject from taken order by number
"""
_RELEASE: Final = """
update alert_outboxes set due = %(due)s, busy_until = clock_timestamp(),
  open = coalesce(%(open)s, open), pending = coalesce(%(pending)s, pending), dead = coalesce(%(dead)s, dead)
where tenant = %(tenant)s and lease = %(lease)s
"""
_WAKE: Final = """
insert into alert_outboxes (tenant, due) values (%(tenant)s, clock_timestamp())
on conflict (tenant) do update set due = clock_timestamp()
"""
_MARKS: Final = """
select name, tag from blobs where tenant = %(tenant)s and name >= %(first)s and name < %(end)s order by name
"""
_COUNT: Final = """
select coalesce(sum(open), 0)::integer as open, coalesce(sum(pending), 0)::integer as pending,
  coalesce(sum(dead), 0)::integer as dead
from alert_outboxes where %(tenant)s::text is null or tenant = %(tenant)s
"""
_DISCARD: Final = f"""
with signals as (delete from alert_signals returning *), raised as (
  delete from blobs using signals
  where kind = 'alert' and blobs.tenant = signals.tenant and name = '{_RAISED}/' || subject
)
select 1 from signals
"""  # noqa: S608 - our own names


class Signal(NamedTuple):
    kind: str
    subject: str


class TakenOutbox(NamedTuple):
    tenant: str
    lease: int


def signal(connection: Connection[Any], tenant: str, kind: str, subject: str) -> None:
    """In the transaction of what happened."""
    execute(connection, _SIGNAL, tenant=tenant, kind=kind, subject=subject)


def signal_alert(connection: Connection[Any], encrypted: EncryptedBlobs, tenant: str, content: bytes) -> None:
    """An alert that says everything itself, encrypted."""
    id_ = clock.new_id()
    write_several(encrypted, {f"{_RAISED}/{id_}": content}, connection)
    signal(connection, tenant, "alert", id_)


def read_raised(
    connection: Connection[Any], encrypted: EncryptedBlobs, ids: list[str]
) -> Mapping[str, bytes]:
    """By id, those that are stored."""
    blobs = read_several(encrypted, [f"{_RAISED}/{id_}" for id_ in ids], connection)
    return {name.rpartition("/")[2]: blob.data for name, blob in blobs.items()}


def remove_raised(connection: Connection[Any], tenant: str, ids: list[str]) -> None:
    names = [f"{_RAISED}/{id_}" for id_ in ids]
    execute(
        connection, "delete from blobs where tenant = %(tenant)s and name = any(%(names)s)",
        tenant=tenant, names=names,
    )  # fmt: skip


class AlertCounts(NamedTuple):
    open: int
    pending: int
    dead: int


class AlertSignals:
    def __init__(self, database: Database) -> None:
        self.database = database

    def take(self) -> TakenOutbox | None:
        """The next outbox with something to do, leased."""
        with self.database.transaction() as connection:
            for row in execute(connection, _TAKE, seconds=LEASE_SECONDS):
                return TakenOutbox(**row)
        return None

    def release(self, taken: TakenOutbox, due: datetime | None, counts: AlertCounts | None = None) -> None:
        """None: they were not counted."""
        counted = dict.fromkeys(AlertCounts._fields) if counts is None else counts._asdict()
        for attempt in range(_RELEASES):
            try:
                with self.database.transaction() as connection:
                    execute(connection, _RELEASE, tenant=taken.tenant, lease=taken.lease, due=due, **counted)
            except DatabaseUnavailable:  # Such as one that restarts: the next server need not wait so long.
                if attempt + 1 == _RELEASES:
                    raise
                clock.pause(2.0**attempt / 4)
            else:
                return

    def wake(self, tenant: str) -> None:
        """Something in its outbox is due now."""
        with self.database.transaction() as connection:
            execute(connection, _WAKE, tenant=tenant)

    def signal(self, tenant: str, kind: str, subject: str = "") -> None:
        with self.database.transaction() as connection:
            signal(connection, tenant, kind, subject)

    def marks(self, tenant: str) -> tuple[tuple[str, str], ...]:
        """The break-glass marks of a tenant, by name, with what changes with every write."""
        with self.database.transaction() as connection:
            rows = execute(
                connection, _MARKS, tenant=tenant, first=f"{_MARKS_FOLDER}/", end=f"{_MARKS_FOLDER}0"
            )
        return tuple((row["name"], row["tag"]) for row in rows)

    def count(self, tenant: str | None) -> AlertCounts:
        """Of one tenant, or of all."""
        with self.database.transaction() as connection:
            return AlertCounts(**execute(connection, _COUNT, tenant=tenant)[0])

    def discard(self) -> int:
        """If there is no route."""
        with self.database.transaction() as connection:
            return len(execute(connection, _DISCARD))


def taken_signals(connection: Connection[Any], tenant: str) -> tuple[Signal, ...]:
    """The oldest ones. They are gone with the transaction that puts them into the outbox."""
    return tuple(Signal(**row) for row in execute(connection, _SIGNALS, tenant=tenant, batch=_BATCH))
