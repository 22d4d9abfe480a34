"""Events of devices are accepted, begun and ended: one event of a device at a time.

An event is a row of its own; when its turn comes, it gets a change with one run, which workers execute like
any other. The row of the event is what counts: who finds that its change is done ends it, and begins the
next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct, field

from holdfast.identity.principal import Principal
from holdfast.store.fleet.rows import COLUMNS, FROM, Event, event_from_row, known_key
from holdfast.store.fleet.rules import Action, DeviceStatus, EventStatus
from holdfast.store.server_runs.rows import APPLY_PRIORITY, IN_ORDER, RUN, WORK, to_jsonb
from holdfast.store.server_states.changes import run as execute
from holdfast.system import clock

if TYPE_CHECKING:
    from psycopg import Connection

_KEY: Final = """
insert into idempotency_keys (tenant, key, request, event)
values (%(tenant)s, %(key)s, %(request)b, %(event)s)
on conflict (tenant, key) do update set request = excluded.request, event = excluded.event,
  created = excluded.created where idempotency_keys.created < clock_timestamp() - interval '7 days'
returning event
"""
_OPEN_ACTIONS: Final = """
select action from events where tenant = %(tenant)s and blueprint = %(blueprint)s
  and resource_id = %(resource_id)s and status in ('queued', 'running', 'unknown') order by number
"""
_WAITING_COUNTS: Final = """
select count(*) as overall, count(*) filter (where tenant = %(tenant)s) as tenant,
  count(*) filter (where tenant = %(tenant)s and client = %(client)s) as client
from events where status in ('queued', 'running')
"""
# Updates that did not begin, after the last other action.
_SUPERSEDE: Final = f"""
with old as (
  update events set status = 'superseded', superseded_by = %(id)s, updated = clock_timestamp()
  where tenant = %(tenant)s and blueprint = %(blueprint)s and resource_id = %(resource_id)s
    and status = 'queued' and action = 'update' and number > coalesce((
      select max(number) from events other where other.tenant = %(tenant)s
        and other.blueprint = %(blueprint)s and other.resource_id = %(resource_id)s
        and other.action <> 'update' and other.status in ('queued', 'running', 'unknown')), 0)
  returning id
)
select id, pg_notify('{RUN}', id) from old
"""  # noqa: S608 - our own names
_INSERT: Final = """
insert into events (id, tenant, blueprint, version, digest, resource_id, action, stack, source, requester,
  client, reason, requires_approval, labels, environments, worker_labels, concurrency_key, concurrency,
  change, run, retries, retry_wait, origin)
values (%(id)s, %(tenant)s, %(blueprint)s, %(version)s, %(digest)s, %(resource_id)s, %(action)s, %(stack)s,
  %(source)s, %(requester)s, %(client)s, %(reason)s, %(requires_approval)s, %(labels)s,
  %(environments)s::text[], %(worker_labels)s::text[], %(concurrency_key)s, %(concurrency)s, %(change)s,
  %(run)s, %(retries)s, %(retry_wait)s, %(origin)s)
"""
_INSERT_DEVICE: Final = """
insert into devices (tenant, blueprint, resource_id, labels)
values (%(tenant)s, %(blueprint)s, %(resource_id)s, %(labels)s)
on conflict (tenant, blueprint, resource_id) do update set
  labels = case when %(labels)s = '{}'::jsonb then devices.labels else excluded.labels end
"""
# The first event of each device that has none in progress, as far as the limit of its key allows.
_BEGIN: Final = f"""
with heads as (
  select e.* from events e
  where e.status = 'queued' and (%(event)s::text is null or e.id = %(event)s)
    and (e.next_try is null or e.next_try <= clock_timestamp())
    and not exists (
      select from events other where (other.tenant, other.blueprint, other.resource_id)
        = (e.tenant, e.blueprint, e.resource_id)
        and (other.status in ('running', 'unknown') or (other.status = 'queued' and other.number < e.number)))
), ranked as (
  select heads.*, row_number() over (partition by concurrency_key order by number) as place,
    (select count(*) from events r join changes c on c.id = r.change
      where r.status = 'running' and r.concurrency_key = heads.concurrency_key
        and c.phase <> 'waiting') as busy
  from heads
), begun as (
  update events set status = 'running', attempts = events.attempts + 1, next_try = null,
    updated = clock_timestamp()
  from ranked
  where events.id = ranked.id
    and (ranked.concurrency is null or ranked.place + ranked.busy <= ranked.concurrency)
  returning events.*
), change as (
  insert into changes (id, tenant, operation, source, requester, reason, patterns, priority, environments,
    labels, event)
  select change, tenant, case action when 'delete' then 'destroy' else 'apply' end, source, requester, reason,
    null, %(priority)s, environments, worker_labels, id from begun order by number
), submitted as (
  insert into runs (id, tenant, change, stack, operation, environment)
  select run, tenant, change, stack, case action when 'delete' then 'destroy' else 'apply' end,
    environments[1] from begun order by number
)
select id, pg_notify('{WORK}', change) from begun
"""  # noqa: S608 - our own names
# A reconciliation of an unknown outcome that succeeded lets the event go on.
_ENDED: Final = f"""
select {COLUMNS}, c.cancelled_by, c.error as change_error, r.apply_began is not null as began,
  e.status = 'unknown' as reconciled
{FROM}
where (e.status = 'running' and c.phase = 'done') or (e.status = 'unknown' and exists (
  select from runs again where again.retried_from = e.run and again.operation = 'reconcile'
    and again.status in ('applied', 'unchanged')))
order by e.number limit %(limit)s for update of e skip locked
"""  # noqa: S608 - our own names
_END: Final = f"""
with ended as (
  update events e set status = new.status, error = new.error, change = new.change, run = new.run,
    next_try = case when new.status = 'queued'
      then clock_timestamp() + make_interval(secs => coalesce(new.wait, 0)) end,
    updated = clock_timestamp()
  from unnest(%(ids)s::text[], %(statuses)s::text[], %(errors)s::jsonb[], %(changes)s::text[],
    %(runs)s::text[], %(waits)s::float8[]) as new (id, status, error, change, run, wait)
  where e.id = new.id returning e.id
)
select id, pg_notify('{RUN}', id) from ended
"""  # noqa: S608 - our own names
_SET_DEVICES: Final = """
update devices d set status = new.status, updated = clock_timestamp(),
  event = coalesce(new.event, d.event), version = coalesce(new.version, d.version),
  digest = coalesce(new.digest, d.digest), drift = null, drift_checked = null
from unnest(%(tenants)s::text[], %(blueprints)s::text[], %(resources)s::text[], %(statuses)s::text[],
  %(events)s::text[], %(versions)s::text[], %(digests)s::text[])
  as new (tenant, blueprint, resource_id, status, event, version, digest)
where (d.tenant, d.blueprint, d.resource_id) = (new.tenant, new.blueprint, new.resource_id)
"""
_CANCEL: Final = f"""
with cancelled as (
  update events set status = 'cancelled', error = %(error)s, updated = clock_timestamp()
  where id = %(id)s and status = 'queued' returning id
)
select id, pg_notify('{RUN}', id) from cancelled
"""  # noqa: S608 - our own names
# What the device has once its open events are done. One whose creation failed has what it was tried with.
_ORIGIN: Final = """
select id as event,
  %(updates)s and requires_approval and status in ('queued', 'running', 'unknown') as requires_approval
from events where tenant = %(tenant)s and blueprint = %(blueprint)s and resource_id = %(resource_id)s
  and (status in ('queued', 'running', 'unknown', 'succeeded')
    or (action = 'create' and status in ('failed', 'cancelled')))
order by number desc limit 1
"""


# What counts for the device, or will.
_NEWER: Final = """
select id, action, status from events
where tenant = %(tenant)s and blueprint = %(blueprint)s and resource_id = %(resource_id)s
  and number > %(number)s and status in ('queued', 'running', 'unknown', 'succeeded')
order by number desc limit 1
"""


class NewEvent(Struct, frozen=True, kw_only=True):
    tenant: str
    blueprint: str
    version: str
    digest: str
    resource_id: str
    action: Action
    stack: str
    source: str
    requester: Principal
    concurrency_key: str
    concurrency: int | None = None
    reason: str = ""
    requires_approval: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    environments: tuple[str, ...] = ()
    worker_labels: tuple[str, ...] = ()
    retries: int = 0
    retry_wait: float = 0.0
    origin: str | None = None
    id: str = field(default_factory=clock.new_id)
    change: str = field(default_factory=clock.new_id)
    run: str = field(default_factory=clock.new_id)


class EndedChange(Struct, frozen=True, kw_only=True):
    event: Event
    cancelled: bool
    error: dict[str, Any] | None
    began: bool
    reconciled: bool
    """The outcome of an interrupted apply was found out: the event goes on."""


class EventEnd(Struct, frozen=True, kw_only=True):
    event: Event
    status: EventStatus
    """`queued`: it is tried again."""
    device: DeviceStatus | None
    """None: as before."""
    error: Mapping[str, Any] | None = None
    wait: float = 0.0


class PayloadOrigin(Struct, frozen=True, kw_only=True):
    """Where the payload of an event comes from that brings none."""

    event: str
    requires_approval: bool
    """That event is open, and a person is to approve it."""


class NewerEvent(Struct, frozen=True, kw_only=True):
    id: str
    action: str
    status: str


class WaitingCounts(Struct, frozen=True, kw_only=True):
    overall: int
    tenant: int
    client: int


def take_queue(connection: Connection[Any]) -> None:
    """One after another with all others that submit, claim or end work, until the end of the transaction."""
    connection.execute(IN_ORDER)


def open_actions(
    connection: Connection[Any], tenant: str, blueprint: str, resource_id: str
) -> tuple[Action, ...]:
    """Of the events of a device that are not final, in their order."""
    rows = execute(connection, _OPEN_ACTIONS, tenant=tenant, blueprint=blueprint, resource_id=resource_id)
    return tuple(Action(row["action"]) for row in rows)


def newer_event(connection: Connection[Any], event: Event) -> NewerEvent | None:
    """The newest one of its device after it that succeeded or is open."""
    device = {"tenant": event.tenant, "blueprint": event.blueprint, "resource_id": event.resource_id}
    rows = execute(connection, _NEWER, **device, number=event.number)
    return NewerEvent(**rows[0]) if rows else None


def payload_origin(
    connection: Connection[Any], tenant: str, blueprint: str, resource_id: str, action: Action
) -> PayloadOrigin | None:
    """None: the device never had an event. One whose creation failed has what it was tried with."""
    device = {"tenant": tenant, "blueprint": blueprint, "resource_id": resource_id}
    rows = execute(connection, _ORIGIN, **device, updates=action is Action.UPDATE)
    return PayloadOrigin(**rows[0]) if rows else None


def waiting_counts(connection: Connection[Any], tenant: str, client: str) -> WaitingCounts:
    """Events that are not over. Those that begin at once wait for a worker, too."""
    return WaitingCounts(**execute(connection, _WAITING_COUNTS, tenant=tenant, client=client)[0])


def take_key(
    connection: Connection[Any], tenant: str, key: str, request: bytes, event: str
) -> tuple[bytes, str] | None:
    """None: it is new, or older than a week. Otherwise what it was used for: request and event."""
    if execute(connection, _KEY, tenant=tenant, key=key, request=request, event=event):
        return None
    return known_key(connection, tenant, key)


def add_event(connection: Connection[Any], new: NewEvent) -> tuple[str, ...]:
    """Returns the updates that it supersedes. It begins with `begin_events`."""
    values = {name: getattr(new, name) for name in NewEvent.__struct_fields__}
    values |= {
        "action": new.action.value,
        "requester": to_jsonb(msgspec.to_builtins(new.requester)),
        "client": new.requester.subject,
        "labels": to_jsonb(dict(new.labels)),
        "environments": list(new.environments),
        "worker_labels": list(new.worker_labels),
    }
    execute(connection, _INSERT_DEVICE, **values)
    superseded = execute(connection, _SUPERSEDE, **values) if new.action is Action.UPDATE else []
    execute(connection, _INSERT, **values)
    return tuple(row["id"] for row in superseded)


def begin_events(connection: Connection[Any], event: str | None = None) -> tuple[str, ...]:
    """All whose turn it is, or this one if it is: each gets its change."""
    rows = execute(connection, _BEGIN, event=event, priority=APPLY_PRIORITY)
    return tuple(row["id"] for row in rows)


def ended_changes(connection: Connection[Any], limit: int = 200) -> tuple[EndedChange, ...]:
    """Of events that are not ended yet."""
    rows = execute(connection, _ENDED, limit=limit)
    return tuple(
        EndedChange(
            event=event_from_row(row),
            cancelled=row["cancelled_by"] is not None,
            error=row["change_error"],
            began=row["began"] or False,
            reconciled=row["reconciled"],
        )
        for row in rows
    )


def end_events(connection: Connection[Any], ends: Sequence[EventEnd]) -> None:
    """Events that are tried again get new ids for their next change."""
    again = [end.status is EventStatus.QUEUED for end in ends]
    execute(
        connection,
        _END,
        ids=[end.event.id for end in ends],
        statuses=[end.status.value for end in ends],
        errors=[None if end.error is None else to_jsonb(dict(end.error)) for end in ends],
        changes=[clock.new_id() if new else end.event.change for end, new in zip(ends, again, strict=True)],
        runs=[clock.new_id() if new else end.event.run for end, new in zip(ends, again, strict=True)],
        waits=[end.wait for end in ends],
    )
    changed = [end for end in ends if end.device is not None]
    done = {end.event.id: end.status is EventStatus.SUCCEEDED for end in changed}
    execute(
        connection,
        _SET_DEVICES,
        tenants=[end.event.tenant for end in changed],
        blueprints=[end.event.blueprint for end in changed],
        resources=[end.event.resource_id for end in changed],
        statuses=[end.device.value for end in changed if end.device is not None],
        events=[end.event.id if done[end.event.id] else None for end in changed],
        versions=[end.event.version if done[end.event.id] else None for end in changed],
        digests=[end.event.digest if done[end.event.id] else None for end in changed],
    )


def cancel_queued(connection: Connection[Any], event: str, error: Mapping[str, Any]) -> bool:
    """False: it has begun."""
    return bool(execute(connection, _CANCEL, id=event, error=to_jsonb(dict(error))))
