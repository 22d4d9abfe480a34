"""Devices that are compared with their states: which are due, and what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from holdfast.identity.principal import Principal
from holdfast.store.server_runs.rows import WORK, to_jsonb
from holdfast.store.server_states.changes import run as execute
from holdfast.system import clock

if TYPE_CHECKING:
    from psycopg import Connection

PRIORITY: Final = 0
"""Below plans and applies."""
# Each device once in an interval, without those that an event changes now. Of a sample, others each time.
_DUE: Final = """
select d.tenant, d.blueprint, d.resource_id, e.id as event, e.source, e.stack, e.environments, e.worker_labels
from devices d join events e on e.id = d.event
where d.status = 'present' and d.drift_change is null
  and (d.drift_checked is null or d.drift_checked < clock_timestamp() - make_interval(secs => %(interval)s))
  and abs(hashtext(d.resource_id || floor(extract(epoch from clock_timestamp()) / %(interval)s)::text)
    ::bigint) %% 100 < %(sample)s
  and not exists (select from events o where (o.tenant, o.blueprint, o.resource_id)
    = (d.tenant, d.blueprint, d.resource_id) and o.status in ('queued', 'running', 'unknown'))
order by d.drift_checked nulls first limit %(limit)s
"""
_ONE: Final = """
select d.tenant, d.blueprint, d.resource_id, e.id as event, e.source, e.stack, e.environments, e.worker_labels
from devices d join events e on e.id = d.event
where d.tenant = %(tenant)s and d.blueprint = %(blueprint)s and d.resource_id = %(resource_id)s
  and d.status = 'present' and d.drift_change is null
"""
_IN_PROGRESS: Final = "select count(*) as number from devices where drift_change is not null"
_SUBMIT: Final = f"""
with change as (
  insert into changes (id, tenant, operation, source, requester, reason, patterns, priority, environments,
    labels, event)
  values (%(change)s, %(tenant)s, 'plan', %(source)s, %(requester)s, 'drift of the device', null,
    %(priority)s, %(environments)s::text[], %(worker_labels)s::text[], %(event)s) returning id
), submitted as (
  insert into runs (id, tenant, change, stack, operation, environment)
  select %(run)s, %(tenant)s, id, %(stack)s, 'plan', (%(environments)s::text[])[1] from change
)
update devices set drift_change = change.id from change
where tenant = %(tenant)s and blueprint = %(blueprint)s and resource_id = %(resource_id)s
returning pg_notify('{WORK}', change.id)
"""  # noqa: S608 - our own names
_DONE: Final = """
select d.tenant, d.blueprint, d.resource_id, r.id as run, r.status from devices d
join changes c on c.id = d.drift_change left join runs r on r.change = c.id
where c.phase = 'done' limit 100 for update of d skip locked
"""
_RECORD: Final = """
update devices set drift = %(drift)s, drift_checked = clock_timestamp(), drift_change = null
where tenant = %(tenant)s and blueprint = %(blueprint)s and resource_id = %(resource_id)s
"""


class DueDevice(Struct, frozen=True, kw_only=True):
    tenant: str
    blueprint: str
    resource_id: str
    event: str
    source: str
    stack: str
    environments: list[str]
    worker_labels: list[str]


class CheckedDevice(Struct, frozen=True, kw_only=True):
    tenant: str
    blueprint: str
    resource_id: str
    run: str | None
    status: str | None


def due_devices(
    connection: Connection[Any], *, interval: float, sample: int, at_once: int
) -> Sequence[DueDevice]:
    """As many as may be looked at beside those that are."""
    busy = int(execute(connection, _IN_PROGRESS)[0]["number"])
    if busy >= at_once:
        return ()
    rows = execute(connection, _DUE, interval=interval, sample=sample, limit=at_once - busy)
    return [DueDevice(**row) for row in rows]


def one_device(
    connection: Connection[Any], tenant: str, blueprint: str, resource_id: str
) -> DueDevice | None:
    """None: it does not exist, or is being looked at."""
    rows = execute(connection, _ONE, tenant=tenant, blueprint=blueprint, resource_id=resource_id)
    return DueDevice(**rows[0]) if rows else None


def submit_look(connection: Connection[Any], device: DueDevice, requester: Principal) -> str:
    """A plan that only refreshes. Returns its change, whose options are to be written in this transaction."""
    change = clock.new_id()
    execute(
        connection,
        _SUBMIT,
        **{name: getattr(device, name) for name in DueDevice.__struct_fields__},
        change=change,
        run=clock.new_id(),
        requester=to_jsonb(msgspec.to_builtins(requester)),
        priority=PRIORITY,
    )
    return change


def checked_devices(connection: Connection[Any]) -> Sequence[CheckedDevice]:
    return [CheckedDevice(**row) for row in execute(connection, _DONE)]


def record_drift(connection: Connection[Any], device: CheckedDevice, drift: Mapping[str, Any]) -> None:
    execute(
        connection,
        _RECORD,
        tenant=device.tenant,
        blueprint=device.blueprint,
        resource_id=device.resource_id,
        drift=to_jsonb(dict(drift)),
    )
