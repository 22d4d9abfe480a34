"""Removes events that are over and old, with their payloads, and devices of which nothing is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.store.fleet.queue import take_queue
from holdfast.store.server_runs.contents import FOLDER
from holdfast.store.server_states.changes import run as execute
from holdfast.system import clock

if TYPE_CHECKING:
    from holdfast.database.database import Database

# Ids begin with their time, so the primary key finds old ones. Of a device that exists these stay: its last
# event that succeeded (outputs, drift, rollouts), the one before (rollback), the newest payload (updates and
# deletions without one), and its newest event (dead letters).
_OLD: Final = """
select e.id from events e
left join devices d on (d.tenant, d.blueprint, d.resource_id) = (e.tenant, e.blueprint, e.resource_id)
  and d.status <> 'absent'
where e.id < %(before)s and e.status in ('succeeded', 'failed', 'superseded', 'cancelled')
  and e.updated < clock_timestamp() - make_interval(secs => %(max_age)s)
  and (d.tenant is null or (
    e.id is distinct from d.event
    and exists (select from events o where (o.tenant, o.blueprint, o.resource_id)
      = (e.tenant, e.blueprint, e.resource_id) and o.number > e.number)
    and (e.status <> 'succeeded' or e.action = 'delete' or 2 <= (
      select count(*) from events o where (o.tenant, o.blueprint, o.resource_id)
        = (e.tenant, e.blueprint, e.resource_id) and o.number > e.number
        and o.status = 'succeeded' and o.action <> 'delete'))
    and (e.action <> 'create' or e.status = 'superseded' or exists (
      select from events o where (o.tenant, o.blueprint, o.resource_id)
        = (e.tenant, e.blueprint, e.resource_id) and o.number > e.number
        and (o.status = 'succeeded' or (o.action = 'create' and o.status in ('failed', 'cancelled')))))))
order by e.id limit %(limit)s for update of e skip locked
"""
_REMOVE: Final = (
    f"""
    delete from blobs using events where events.id = any(%(old)s) and blobs.tenant = events.tenant
      and blobs.name = '{FOLDER}/events/' || events.id
    """,  # noqa: S608 - our own names
    "delete from events where id = any(%(old)s)",
    """
    delete from devices d where status = 'absent' and drift_change is null
      and updated < clock_timestamp() - make_interval(secs => %(max_age)s)
      and not exists (select from events e where (e.tenant, e.blueprint, e.resource_id)
        = (d.tenant, d.blueprint, d.resource_id))
    """,
)
_BATCH: Final = 5000


def remove_old_events(database: Database, *, max_age: float, limit: int = _BATCH) -> int:
    """How many. Their code is removed with the last event and change that used it, as uploads are."""
    before = clock.id_at(clock.now().timestamp() - max_age)
    with database.transaction() as connection:
        # Nothing is accepted or ended meanwhile: what an event needs is not removed under it.
        take_queue(connection)
        old = [row["id"] for row in execute(connection, _OLD, before=before, max_age=max_age, limit=limit)]
        for statement in _REMOVE if old else ():
            execute(connection, statement, old=old, max_age=max_age)
    return len(old)
