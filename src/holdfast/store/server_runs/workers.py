"""The workers that changes can be claimed by, as their rows say."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from holdfast.store.server_runs.rows import to_jsonb
from holdfast.store.server_states.changes import run as execute
from holdfast.system import clock

if TYPE_CHECKING:
    from holdfast.database.database import Database

_WORKERS: Final = """
select id, tenant, host, slot, labels, engines, version, started, beat, phase,
  (select count(*) from changes where changes.worker = workers.id and changes.phase = 'running') as changes
from workers where phase <> 'gone' and (%(tenant)s::text is null or tenant is null or tenant = %(tenant)s)
order by id
"""


class NewWorker(Struct, frozen=True, kw_only=True):
    host: str
    slot: int
    version: str
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """With `environment` or `target`, it takes only changes whose own are all among these. Others are
    those that stacks can require.
    """
    engines: tuple[str, ...] = ()
    tenant: str | None = None
    id: str = field(default_factory=clock.new_id)


class Worker(Struct, frozen=True, kw_only=True):
    id: str
    tenant: str | None
    host: str
    slot: int
    labels: dict[str, list[str]]
    engines: tuple[str, ...]
    version: str
    started: datetime
    beat: datetime
    phase: str
    changes: int
    """That it has now."""


class WorkerRows:
    def __init__(self, database: Database) -> None:
        self._database = database

    def register(self, new: NewWorker) -> str:
        with self._database.transaction() as connection:
            execute(
                connection,
                "insert into workers (id, tenant, host, slot, labels, engines, version) values (%(id)s,"
                " %(tenant)s, %(host)s, %(slot)s, %(labels)s, %(engines)s, %(version)s)",
                **{name: getattr(new, name) for name in ("id", "tenant", "host", "slot", "version")},
                labels=to_jsonb({name: list(values) for name, values in new.labels.items()}),
                engines=list(new.engines),
            )
        return new.id

    def set_phase(self, worker: str, phase: str) -> None:
        """`draining`: it claims nothing more. `gone`: it ended."""
        with self._database.transaction() as connection:
            statement = "update workers set phase = %(phase)s, beat = clock_timestamp() where id = %(id)s"
            execute(connection, statement, id=worker, phase=phase)

    def list(self, tenant: str | None = None) -> tuple[Worker, ...]:
        """Those that may run changes of the tenant, or all; not those that ended."""
        with self._database.transaction() as connection:
            rows = execute(connection, _WORKERS, tenant=tenant)
        return tuple(Worker(**{**row, "engines": tuple(row["engines"])}) for row in rows)
