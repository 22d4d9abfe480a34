"""Devices and their events in the database, as they are read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from holdfast.identity.principal import Principal
from holdfast.store.fleet.rules import Action, DeviceStatus, EventStatus
from holdfast.store.server_states.changes import run as execute

if TYPE_CHECKING:
    from psycopg import Connection

    from holdfast.database.database import Database

# What its change says is shown as the status of a running event.
_STATUS: Final = """
case when e.status <> 'running' then e.status
  when c.phase = 'queued' and c.started is null then 'queued' when c.phase = 'waiting' then 'waiting'
  else 'running' end
"""
COLUMNS: Final = f"""
e.id, e.tenant, e.number, e.blueprint, e.version, e.digest, e.resource_id, e.action, {_STATUS} as status,
  e.status as stored, e.stack, e.source, e.requester, e.reason, e.requires_approval, e.labels, e.change,
  e.run, e.attempts, e.retries, e.retry_wait, e.next_try, e.superseded_by, e.origin, e.error, e.created,
  greatest(e.updated, r.since, r.ended) as updated, r.started as run_started, r.status as run_status,
  r.digest as plan_digest
"""
FROM: Final = "from events e left join changes c on c.id = e.change left join runs r on r.id = e.run"
_EVENT: Final = f"select {COLUMNS} {FROM} where e.id = %(id)s"
_EVENTS: Final = f"""
select {COLUMNS} {FROM}
where e.tenant = %(tenant)s and (%(before)s::bigint is null or e.number < %(before)s)
  and (%(blueprint)s::text is null or e.blueprint = %(blueprint)s)
  and (%(resource_id)s::text is null or e.resource_id = %(resource_id)s)
  and (%(action)s::text is null or e.action = %(action)s)
  and (%(status)s::text is null or {_STATUS} = %(status)s)
  and (not %(dead)s or (e.status = 'failed' and not exists (
    select from events later where (later.tenant, later.blueprint, later.resource_id)
      = (e.tenant, e.blueprint, e.resource_id) and later.number > e.number
      and later.status not in ('cancelled', 'superseded'))))
order by e.number desc limit %(limit)s
"""  # noqa: S608 - our own names
_KNOWN_KEY: Final = """
select request, event from idempotency_keys
where tenant = %(tenant)s and key = %(key)s and created >= clock_timestamp() - interval '7 days'
"""
_DEVICE_COLUMNS: Final = (
    "tenant, blueprint, resource_id, status, event, version, digest, labels, created, updated, drift,"
    " drift_checked"
)
_DEVICE: Final = f"""
select {_DEVICE_COLUMNS} from devices
where tenant = %(tenant)s and blueprint = %(blueprint)s and resource_id = %(resource_id)s
"""  # noqa: S608 - our own names
_DEVICES: Final = f"""
select {_DEVICE_COLUMNS} from devices
where tenant = %(tenant)s and (blueprint, resource_id) > (%(after_blueprint)s, %(after)s)
  and (%(blueprint)s::text is null or blueprint = %(blueprint)s)
  and (%(status)s::text is null and status <> 'absent' or status = %(status)s)
order by blueprint, resource_id limit %(limit)s
"""  # noqa: S608 - our own names
# The last payload that the device had before the event.
_BEFORE: Final = """
select id, action from events
where tenant = %(tenant)s and blueprint = %(blueprint)s and resource_id = %(resource_id)s
  and number < %(number)s and status = 'succeeded' and action <> 'delete'
  and number > coalesce((select max(number) from events deleted where deleted.tenant = %(tenant)s
    and deleted.blueprint = %(blueprint)s and deleted.resource_id = %(resource_id)s
    and deleted.number < %(number)s and deleted.status = 'succeeded' and deleted.action = 'delete'), 0)
order by number desc limit 1
"""
_RELEASE_KEYS: Final = """
delete from idempotency_keys where created < clock_timestamp() - interval '7 days' returning key
"""


class Event(Struct, frozen=True, kw_only=True):
    id: str
    tenant: str
    number: int
    blueprint: str
    version: str
    digest: str
    resource_id: str
    action: Action
    status: EventStatus
    """As shown: while its change runs, also what that says."""
    stored: str
    stack: str
    source: str
    requester: Principal
    reason: str
    requires_approval: bool
    labels: dict[str, str]
    change: str
    run: str
    attempts: int
    retries: int
    retry_wait: float
    next_try: datetime | None
    superseded_by: str | None
    origin: str | None
    error: dict[str, Any] | None
    created: datetime
    updated: datetime
    run_started: datetime | None
    run_status: str | None
    plan_digest: str | None
    """Of the plan that its run made."""


class Device(Struct, frozen=True, kw_only=True):
    tenant: str
    blueprint: str
    resource_id: str
    status: DeviceStatus
    event: str | None
    """The last one that succeeded."""
    version: str | None
    digest: str | None
    labels: dict[str, str]
    created: datetime
    updated: datetime
    drift: dict[str, Any] | None
    drift_checked: datetime | None


class FleetRows:
    """What changes events takes a connection: its caller has the transaction, and the lock of the queue."""

    def __init__(self, database: Database) -> None:
        self.database = database

    # Reading

    def event(self, id_: str) -> Event | None:
        with self.database.transaction(single=True) as connection:
            rows = execute(connection, _EVENT, id=id_)
        return event_from_row(rows[0]) if rows else None

    def events(
        self,
        tenant: str,
        *,
        blueprint: str | None = None,
        resource_id: str | None = None,
        action: str | None = None,
        status: str | None = None,
        dead: bool = False,
        before: int | None = None,
        limit: int = 100,
    ) -> tuple[Event, ...]:
        """Newest first. `dead`: failed, and nothing was done about it since."""
        filters = {"blueprint": blueprint, "resource_id": resource_id, "action": action, "status": status}
        with self.database.transaction(single=True) as connection:
            rows = execute(
                connection, _EVENTS, tenant=tenant, **filters, dead=dead, before=before, limit=limit
            )
        return tuple(map(event_from_row, rows))

    def device(self, tenant: str, blueprint: str, resource_id: str) -> Device | None:
        with self.database.transaction(single=True) as connection:
            return find_device(connection, tenant, blueprint, resource_id)

    def devices(
        self,
        tenant: str,
        *,
        blueprint: str | None = None,
        status: str | None = None,
        after: tuple[str, str] = ("", ""),
        limit: int = 100,
    ) -> tuple[Device, ...]:
        """Without absent ones, unless `status` asks for them."""
        with self.database.transaction(single=True) as connection:
            rows = execute(
                connection, _DEVICES, tenant=tenant, blueprint=blueprint, status=status,
                after_blueprint=after[0], after=after[1], limit=limit,
            )  # fmt: skip
        return tuple(map(_device, rows))

    def payload_before(self, event: Event) -> str | None:
        """The event whose payload the device had before this one."""
        with self.database.transaction(single=True) as connection:
            rows = execute(
                connection, _BEFORE, tenant=event.tenant, blueprint=event.blueprint,
                resource_id=event.resource_id, number=event.number,
            )  # fmt: skip
        return str(rows[0]["id"]) if rows else None

    def known_key(self, tenant: str, key: str) -> tuple[bytes, str] | None:
        """What it was used for in the last week: request and event."""
        with self.database.transaction(single=True) as connection:
            return known_key(connection, tenant, key)

    def remove_old_keys(self) -> int:
        with self.database.transaction(single=True) as connection:
            return len(execute(connection, _RELEASE_KEYS))


def find_device(connection: Connection[Any], tenant: str, blueprint: str, resource_id: str) -> Device | None:
    rows = execute(connection, _DEVICE, tenant=tenant, blueprint=blueprint, resource_id=resource_id)
    return _device(rows[0]) if rows else None


def known_key(connection: Connection[Any], tenant: str, key: str) -> tuple[bytes, str] | None:
    rows = execute(connection, _KNOWN_KEY, tenant=tenant, key=key)
    return (bytes(rows[0]["request"]), str(rows[0]["event"])) if rows else None


def event_from_row(row: Mapping[str, Any]) -> Event:
    known = {name: row[name] for name in Event.__struct_fields__}
    return Event(
        **{
            **known,
            "action": Action(row["action"]),
            "status": EventStatus(row["status"]),
            "requester": msgspec.convert(row["requester"], Principal),
        }
    )


def _device(row: Mapping[str, Any]) -> Device:
    return Device(**{**row, "status": DeviceStatus(row["status"])})
