"""Removes what runs on the server need not hold any more: old changes with all they contain, and uploads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.config.shapes import duration_text
from holdfast.store.retention import KEEP_RUNS, MAX_RUN_AGE
from holdfast.store.server_runs.contents import FOLDER
from holdfast.store.server_runs.rows import RUN, to_jsonb
from holdfast.store.server_states.changes import run as execute

if TYPE_CHECKING:
    from holdfast.database.database import Database

# A run whose outcome is unknown is evidence. That of the last event of a device has its outputs.
_OLD: Final = """
select id from changes c
where phase = 'done' and ended < now() - make_interval(secs => %(max_age)s)
  and number <= (select number from changes newer where newer.tenant = c.tenant
    order by number desc offset %(keep)s limit 1)
  and not exists (select from runs where change = c.id and status = 'unknown')
  and not exists (select from events where change = c.id and status in ('running', 'unknown'))
  and not exists (select from events e join devices d on (d.tenant, d.blueprint, d.resource_id, d.event)
    = (e.tenant, e.blueprint, e.resource_id, e.id) where e.change = c.id)
limit 500 for update skip locked
"""
_REMOVE: Final = (
    f"""
    delete from blobs using runs where runs.change = any(%(old)s) and blobs.tenant = runs.tenant
      and (blobs.name in ('{FOLDER}/plans/' || runs.id, '{FOLDER}/results/' || runs.id)
        or (blobs.name >= '{FOLDER}/log/' || runs.id || '/'
          and blobs.name < '{FOLDER}/log/' || runs.id || '0'))
    """,  # noqa: S608 - our own names
    f"""
    delete from blobs using changes where changes.id = any(%(old)s) and blobs.tenant = changes.tenant
      and blobs.name in ('{FOLDER}/options/' || changes.id, '{FOLDER}/checks/' || changes.id,
        '{FOLDER}/reports/' || changes.id)
    """,  # noqa: S608 - our own names
    "delete from runs where change = any(%(old)s)",
    "delete from changes where id = any(%(old)s)",
)
# Its row stays for the changes that were made from it; it cannot be used again.
_EXPIRED_UPLOADS: Final = f"""
with expired as (
  update sources set expires = null
  where kind = 'upload' and expires < now()
    and not exists (select from changes where source = sources.id and phase <> 'done')
  returning id, tenant
)
delete from blobs using expired
where blobs.tenant = expired.tenant and blobs.name = '{FOLDER}/uploads/' || expired.id returning 1
"""  # noqa: S608 - our own names
# What a server stored and did not enter into its table, because it was killed in between.
_UNUSED: Final = (
    """
    delete from sources where expires is null and created < now() - interval '1 day'
      and not exists (select from changes where source = sources.id)
      and not exists (select from events where source = sources.id)
    """,
    f"""
    delete from blobs where name >= '{FOLDER}/uploads/' and name < '{FOLDER}/uploads0'
      and written < now() - interval '1 day'
      and not exists (select from sources where '{FOLDER}/uploads/' || id = blobs.name)
    """,  # noqa: S608 - our own names
    f"""
    delete from blobs where name >= '{FOLDER}/options/' and name < '{FOLDER}/options0'
      and written < now() - interval '1 day'
      and not exists (select from changes where '{FOLDER}/options/' || id = blobs.name)
    """,  # noqa: S608 - our own names
)


# A change with several plans waits as long as the newest of them.
_UNDECIDED: Final = """
with undecided as (
  select id from changes c where phase = 'waiting' and not exists (
    select from runs where change = c.id and phase = 'waiting'
      and coalesce(since, started, created) > clock_timestamp() - make_interval(secs => %(limit)s))
  for update skip locked
), ended as (
  update changes set phase = 'done', ended = clock_timestamp(), cancel = clock_timestamp(),
    cancelled_by = 'holdfast serve', error = %(error)s
  from undecided where changes.id = undecided.id
)
update runs set phase = 'done', status = 'cancelled', ended = clock_timestamp(), since = clock_timestamp()
from undecided where runs.change = undecided.id and runs.phase <> 'done'
returning runs.id, runs.tenant, runs.stack
"""


class EndedRun(NamedTuple):
    id: str
    tenant: str
    stack: str


def end_undecided(database: Database, limit: float) -> tuple[EndedRun, ...]:
    """Changes whose plans waited for a decision for more than these seconds: their runs are cancelled."""
    error = {
        "code": "HF-RUN-37",
        "message": f"no decision about the plan arrived within {duration_text(limit)}",
        "hint": "Submit the change again, or make a new plan: holdfast runs retry RUN",
    }
    with database.transaction() as connection:
        rows = execute(connection, _UNDECIDED, limit=limit, error=to_jsonb(error))
        for row in rows:
            execute(connection, "select pg_notify(%(channel)s, %(run)s)", channel=RUN, run=row["id"])
    return tuple(EndedRun(**row) for row in rows)


def remove_old_changes(database: Database, *, keep: int = KEEP_RUNS, max_age: float = MAX_RUN_AGE) -> int:
    """As in every run store: those that are old, except the newest `keep` of each tenant."""
    with database.transaction() as connection:
        old = [row["id"] for row in execute(connection, _OLD, keep=keep, max_age=max_age)]
        for statement in _REMOVE if old else ():
            execute(connection, statement, old=old)
    return len(old)


def remove_expired_uploads(database: Database) -> int:
    """Those that were not used for a day, and that no unfinished change needs."""
    with database.transaction() as connection:
        removed = len(execute(connection, _EXPIRED_UPLOADS))
        for statement in _UNUSED:
            execute(connection, statement)
    return removed
