"""Outgoing webhooks of tenants in the database, and their deliveries. The rows are the queue.

A delivery is written in the transaction of what it is about (`enqueue`), so none is lost in between, and none
is sent about something that was rolled back. A server that sends one has a lease of its webhook: no two
servers send at the same time to one webhook, and what a server that died had taken is sent by another one.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from holdfast.kernel.values import MaskedStruct
from holdfast.store.database_blobs import read_several, write_several
from holdfast.store.server_runs.contents import FOLDER
from holdfast.store.server_states.changes import run as execute
from holdfast.system import clock

if TYPE_CHECKING:
    from collections.abc import Collection

    from psycopg import Connection

    from holdfast.database.database import Database
    from holdfast.store.blobs import EncryptedBlobs

MOST: Final = 50
"""Webhooks of a tenant."""
LEASE_SECONDS: Final = 60
"""Much longer than an attempt takes."""
KEPT: Final = "30 days"
"""How long deliveries are shown that are delivered or dead."""
_FOLDER: Final = f"{FOLDER}/outgoing-webhooks"
_COLUMNS: Final = "id, tenant, events, created, created_by, disabled"
_PENDING: Final = "delivered is null and dead is null"
_DELIVERY: Final = f"""
id, kind, subject, created, attempts, delivered, dead, error,
case when delivered is not null then 'delivered' when dead is not null then 'dead' else 'pending' end
  as state,
case when {_PENDING} then next_try end as next_try
"""
_NEW: Final = """
insert into outgoing_deliveries (id, tenant, webhook, kind, subject)
select 'msg_' || replace(gen_random_uuid()::text, '-', ''), tenant, id, %(kind)s, %(subject)s
from outgoing_webhooks where tenant = %(tenant)s and disabled is null
"""
_ENQUEUE: Final = f"""
{_NEW} and (%(kind)s = any(events) or split_part(%(kind)s, '.', 1) || '.*' = any(events))
on conflict (webhook, kind, subject) do nothing
"""
_ADD_TEST: Final = f"{_NEW} and id = %(webhook)s returning {_DELIVERY}"
# Two servers may count at the same time: the limit is not exact.
_ADD: Final = f"""
insert into outgoing_webhooks (id, tenant, events, created_by)
select %(id)s, %(tenant)s, %(events)s, %(by)s
where (select count(*) from outgoing_webhooks where tenant = %(tenant)s) < %(most)s
returning {_COLUMNS}
"""  # noqa: S608 - our own column names
_REMOVE: Final = f"""
with removed as (
  delete from outgoing_webhooks where tenant = %(tenant)s and id = %(id)s returning *
), target as (
  delete from blobs using removed where blobs.tenant = removed.tenant and name = '{_FOLDER}/' || removed.id
), deliveries as (
  delete from outgoing_deliveries using removed where webhook = removed.id
)
select {_COLUMNS} from removed
"""  # noqa: S608 - our own names
_LIST: Final = f"""
select {_COLUMNS} from outgoing_webhooks
where tenant = %(tenant)s and id > %(after)s order by id limit %(limit)s
"""  # noqa: S608 - our own column names
_DELIVERIES: Final = f"""
select * from (select number, webhook, tenant, {_DELIVERY} from outgoing_deliveries) d
where tenant = %(tenant)s and webhook = %(webhook)s and (%(state)s::text is null or state = %(state)s)
  and (%(before)s = '' or number < (select number from outgoing_deliveries where id = %(before)s))
order by number desc limit %(limit)s
"""  # noqa: S608 - our own column names
_RETRY: Final = f"""
update outgoing_deliveries set next_try = clock_timestamp(), dead = null,
  attempts = case when dead is null then attempts else 0 end
where tenant = %(tenant)s and webhook = %(webhook)s and id = %(id)s and delivered is null
returning {_DELIVERY}
"""  # noqa: S608 - our own column names
# A server of an older version leaves what it cannot describe to the others.
_DUE: Final = f"""
webhook = {{webhook}} and {_PENDING} and next_try <= clock_timestamp()
  and split_part(kind, '.', 1) = any(%(sources)s)
"""
# Who waited longest is next, so that webhooks with many deliveries do not delay the others.
_LEASE: Final = f"""
update outgoing_webhooks set busy_until = clock_timestamp() + make_interval(secs => %(seconds)s),
  lease = lease + 1
where id = (
  select w.id from outgoing_webhooks w
  where disabled is null and busy_until <= clock_timestamp()
    and exists (select from outgoing_deliveries where {_DUE.format(webhook="w.id")})
  order by busy_until limit 1 for update skip locked)
returning id, lease
"""  # noqa: S608 - our own names
_TAKE: Final = f"""
update outgoing_deliveries set attempts = attempts + 1
where id = (
  select id from outgoing_deliveries where {_DUE.format(webhook="%(webhook)s")} order by number limit 1)
returning id, tenant, webhook, kind, subject, created, attempts, %(lease)s::integer as lease
"""  # noqa: S608 - our own names
_RELEASE: Final = """
update outgoing_webhooks set busy_until = clock_timestamp() where id = %(webhook)s and lease = %(lease)s
"""
_DELIVERED: Final = """
update outgoing_deliveries set delivered = clock_timestamp(), dead = null, error = null
where id = %(id)s and delivered is null
"""
# Not if another server tried it since.
_FAILED: Final = f"""
update outgoing_deliveries set error = %(error)s,
  next_try = clock_timestamp() + make_interval(secs => coalesce(%(delay)s::float, 0)),
  dead = case when %(delay)s::float is null then clock_timestamp() end
where id = %(id)s and attempts = %(attempts)s and {_PENDING}
"""  # noqa: S608 - our own column names
_DISABLE: Final = (
    "update outgoing_webhooks set disabled = clock_timestamp() where id = %(webhook)s and disabled is null",
    f"""
    update outgoing_deliveries set dead = clock_timestamp(), error = %(error)s
    where webhook = %(webhook)s and {_PENDING}
    """,  # noqa: S608 - our own column names
)
_COUNT: Final = f"""
select count(*) filter (where {_PENDING}) as pending, count(*) filter (where dead is not null) as dead
from outgoing_deliveries where delivered is null and (%(tenant)s::text is null or tenant = %(tenant)s)
"""  # noqa: S608 - our own column names
_OLD: Final = """
delete from outgoing_deliveries d
where coalesce(delivered, dead) < now() - %(kept)s::interval
  or not exists (select from outgoing_webhooks where id = d.webhook)
returning 1
"""


class DeliveryState(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"


class OutgoingWebhook(Struct, frozen=True, kw_only=True):
    id: str
    tenant: str
    events: tuple[str, ...]
    created: datetime
    created_by: str
    disabled: datetime | None
    """When its receiver answered that it is gone."""


class WebhookTarget(MaskedStruct, frozen=True, kw_only=True):
    """Stored encrypted."""

    url: str
    secret: str


class OutgoingDelivery(Struct, frozen=True, kw_only=True):
    id: str
    """Also its header `webhook-id`, in every attempt."""
    kind: str
    subject: str
    """The id of what it is about."""
    state: DeliveryState
    created: datetime
    attempts: int
    next_try: datetime | None
    """Null unless it is pending."""
    delivered: datetime | None
    dead: datetime | None
    error: str | None
    """Of the last attempt."""


class TakenDelivery(Struct, frozen=True, kw_only=True):
    id: str
    tenant: str
    webhook: str
    kind: str
    subject: str
    created: datetime
    attempts: int
    """With the one that begins now."""
    lease: int


class DeliveryCounts(NamedTuple):
    pending: int
    dead: int


def enqueue(connection: Connection[Any], tenant: str, kind: str, subject: str) -> None:
    """In the transaction of what happened: one delivery for each webhook of the tenant that wants this kind.

    Once for a webhook, kind and subject, also if it is called again.
    """
    execute(connection, _ENQUEUE, tenant=tenant, kind=kind, subject=subject)


def read_targets(encrypted: EncryptedBlobs, webhooks: Collection[str]) -> dict[str, WebhookTarget]:
    """By the id of the webhook."""
    blobs = read_several(encrypted, [f"{_FOLDER}/{id_}" for id_ in webhooks])
    return {
        name.rpartition("/")[2]: msgspec.json.decode(blob.data, type=WebhookTarget)
        for name, blob in blobs.items()
    }


class OutgoingWebhookRows:
    def __init__(self, database: Database) -> None:
        self._database = database

    # Webhooks

    def add(
        self,
        tenant: str,
        *,
        target: WebhookTarget,
        events: Collection[str],
        by: str,
        encrypted: EncryptedBlobs,
    ) -> OutgoingWebhook | None:
        """None: the tenant has as many as it may have."""
        id_ = clock.new_id()
        with self._database.transaction() as connection:
            rows = execute(connection, _ADD, id=id_, tenant=tenant, events=list(events), by=by, most=MOST)
            if rows:
                write_several(encrypted, {f"{_FOLDER}/{id_}": msgspec.json.encode(target)}, connection)
        return _webhook(rows[0]) if rows else None

    def of(self, tenant: str, id_: str) -> OutgoingWebhook | None:
        statement = f"select {_COLUMNS} from outgoing_webhooks where tenant = %(tenant)s and id = %(id)s"  # noqa: S608
        rows = self._run(statement, tenant=tenant, id=id_)
        return _webhook(rows[0]) if rows else None

    def page(self, tenant: str, *, after: str, limit: int) -> tuple[OutgoingWebhook, ...]:
        return tuple(map(_webhook, self._run(_LIST, tenant=tenant, after=after, limit=limit)))

    def remove(self, tenant: str, id_: str) -> bool:
        """With its secret and its deliveries."""
        return bool(self._run(_REMOVE, tenant=tenant, id=id_))

    # Deliveries

    def deliveries(
        self, tenant: str, webhook: str, *, state: DeliveryState | None, before: str, limit: int
    ) -> tuple[OutgoingDelivery, ...]:
        """Newest first."""
        rows = self._run(_DELIVERIES, tenant=tenant, webhook=webhook, state=state, before=before, limit=limit)
        return tuple(map(_delivery, rows))

    def delivery(self, tenant: str, webhook: str, id_: str) -> OutgoingDelivery | None:
        statement = f"""
        select {_DELIVERY} from outgoing_deliveries
        where tenant = %(tenant)s and webhook = %(webhook)s and id = %(id)s
        """  # noqa: S608 - our own column names
        rows = self._run(statement, tenant=tenant, webhook=webhook, id=id_)
        return _delivery(rows[0]) if rows else None

    def add_test(self, tenant: str, webhook: str, kind: str) -> OutgoingDelivery | None:
        """None: it is disabled."""
        rows = self._run(_ADD_TEST, tenant=tenant, webhook=webhook, kind=kind, subject=clock.new_id())
        return _delivery(rows[0]) if rows else None

    def retry(self, tenant: str, webhook: str, id_: str) -> OutgoingDelivery | None:
        """Due now, and a dead one as often as a new one. None: it was delivered."""
        rows = self._run(_RETRY, tenant=tenant, webhook=webhook, id=id_)
        return _delivery(rows[0]) if rows else None

    # Sending

    def take(self, sources: Collection[str]) -> TakenDelivery | None:
        """The next one to send, of these sources (what a kind begins with). Its webhook is leased."""
        given = {"sources": list(sources)}
        with self._database.transaction() as connection:
            for leased in execute(connection, _LEASE, seconds=LEASE_SECONDS, **given):
                held = {"webhook": leased["id"], "lease": leased["lease"]}
                # By a statement of its own: another server may have sent it until the lease was free.
                for row in execute(connection, _TAKE, **held, **given):
                    return TakenDelivery(**row)
                execute(connection, _RELEASE, **held)
        return None

    def finish(self, taken: TakenDelivery) -> None:
        """It was delivered."""
        with self._database.transaction() as connection:
            execute(connection, _DELIVERED, id=taken.id)
            execute(connection, _RELEASE, webhook=taken.webhook, lease=taken.lease)

    def fail(self, taken: TakenDelivery, error: str, delay: float | None) -> None:
        """It is tried again after this many seconds. None: it is dead."""
        with self._database.transaction() as connection:
            execute(connection, _FAILED, id=taken.id, attempts=taken.attempts, error=error, delay=delay)
            execute(connection, _RELEASE, webhook=taken.webhook, lease=taken.lease)

    def disable(self, taken: TakenDelivery, error: str) -> None:
        """The receiver is gone: all that waits for it is dead."""
        with self._database.transaction() as connection:
            for statement in _DISABLE:
                execute(connection, statement, webhook=taken.webhook, error=error)

    # Upkeep

    def count(self, tenant: str | None) -> DeliveryCounts:
        """None: of all tenants."""
        (row,) = self._run(_COUNT, tenant=tenant)
        return DeliveryCounts(**row)

    def remove_old(self) -> int:
        return len(self._run(_OLD, kept=KEPT))

    def _run(self, statement: str, **values: object) -> list[dict[str, Any]]:
        with self._database.transaction(single=True) as connection:
            return execute(connection, statement, **values)


def _webhook(row: dict[str, Any]) -> OutgoingWebhook:
    return OutgoingWebhook(**{**row, "events": tuple(row["events"])})


def _delivery(row: dict[str, Any]) -> OutgoingDelivery:
    known = {name: row[name] for name in OutgoingDelivery.__struct_fields__}
    return OutgoingDelivery(**{**known, "state": DeliveryState(row["state"])})
