"""Changes whose worker is silent or gone: another worker takes them and finds out what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.store.server_runs.claiming import SILENT
from holdfast.store.server_runs.rows import Change, ChangeRows, execute_in_order
from holdfast.store.server_states.changes import run as execute

if TYPE_CHECKING:
    from holdfast.database.database import Database

# Under the lock of all statements that depend on the order of runs: two workers never take the same one.
_TAKE: Final = """
update changes set worker = %(worker)s, fence = fence + 1, beat = clock_timestamp()
where id = (
  select c.id from changes c left join workers w on w.id = c.worker
  where c.phase = 'running' and (%(tenant)s::text is null or c.tenant = %(tenant)s) and (
    c.beat < clock_timestamp() - make_interval(secs => %(silent)s)
    or (%(gone)s and w.phase = 'gone'))
  order by c.number limit 1 for update of c skip locked)
returning id
"""
_FORGET: Final = "delete from workers where beat < clock_timestamp() - interval '1 day'"


def take_silent(
    database: Database, worker: str, tenant: str | None = None, *, silent: float = SILENT, gone: bool = True
) -> Change | None:
    """With a new fence: the worker that had it writes nothing more, should it come back.

    `gone`: also at once that of a worker which is known to have ended.
    """
    rows = execute_in_order(database, _TAKE, worker=worker, tenant=tenant, silent=silent, gone=gone)
    return ChangeRows(database).of(rows[0]["id"]) if rows else None


def forget_old_workers(database: Database) -> None:
    with database.transaction(durable=False) as connection:
        execute(connection, _FORGET)
