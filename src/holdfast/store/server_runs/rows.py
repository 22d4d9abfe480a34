"""Changes and their runs in the database. The rows are the queue: nothing else says what is to be done.

Runs of one stack keep the order of their changes, by `number`. Statements that depend on it run one after
another, under one advisory lock, which is taken and released within one exchange with PostgreSQL: a client
that is stopped never holds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec import Struct, field

from holdfast.identity.principal import Principal
from holdfast.store.server_runs.phases import ChangePhase, Operation, RunPhase
from holdfast.store.server_states.changes import run as execute
from holdfast.system import clock

if TYPE_CHECKING:
    from holdfast.database.database import Database

WORK: Final = "holdfast_work"
"""The channel that workers listen to. The payload: the id of the change."""
RUN: Final = "holdfast_run"
"""The channel of log lines and phases. The payload: the id of the run, or of its change."""
APPLY_PRIORITY: Final = 20
PLAN_PRIORITY: Final = 10
IN_ORDER: Final = "select pg_advisory_xact_lock(7276454121340);"
"""Held by who submits, claims or begins work, until the end of the transaction."""
RUN_COLUMNS: Final = (
    "id, tenant, change, number, stack, operation, environment, target, phase, status, digest, retried_from,"
    " created, started, ended, since,"
    " (select requester ->> 'name' from changes c where c.id = runs.change) as who,"
    " (select reason from changes c where c.id = runs.change) as reason"
)
CHANGE_COLUMNS: Final = (
    "id, tenant, number, operation, source, requester, reason, patterns, phase, environments, targets,"
    " labels, priority, worker, fence, beat, cancel, cancelled_by, error, created, started, ended, event"
)
NOTIFY_RUNS: Final = f"""
select pg_notify('{RUN}', id) from runs where change = %(change)s
union all select pg_notify('{RUN}', %(change)s)
"""  # noqa: S608 - our own names
_PHASES: Final = """
select c.phase as change_phase, r.id, r.stack, r.phase, r.status
from changes c left join runs r on r.change = c.id where c.id = %s order by r.number
"""
_SUBMIT: Final = f"""
with change as (
  insert into changes (id, tenant, operation, source, requester, reason, patterns, priority, event)
  values (%(id)s, %(tenant)s, %(operation)s, %(source)s, %(requester)s, %(reason)s, %(patterns)s::text[],
    %(priority)s, %(event)s)
  returning id, tenant, operation
), submitted as (
  insert into runs (id, tenant, change, stack, operation, retried_from)
  select new.id, change.tenant, change.id, new.stack, change.operation, new.retried_from
  from change, unnest(%(runs)s::text[], %(stacks)s::text[], %(retried)s::text[])
    with ordinality as new (id, stack, retried_from, place) order by place
)
select pg_notify('{WORK}', id) from change
"""  # noqa: S608 - our own column names
_CHANGE: Final = f"select {CHANGE_COLUMNS} from changes where id = %(id)s"  # noqa: S608
_RUNS_OF: Final = f"select {RUN_COLUMNS} from runs where change = any(%(ids)s) order by number"  # noqa: S608
_CHANGES: Final = f"""
select {CHANGE_COLUMNS} from changes
where tenant = %(tenant)s and (%(before)s::bigint is null or number < %(before)s)
  and (%(phases)s::text[] is null or phase = any(%(phases)s))
order by number desc limit %(limit)s
"""  # noqa: S608 - our own column names
_RUNS: Final = f"""
select {RUN_COLUMNS} from runs
where tenant = %(tenant)s and (%(before)s::bigint is null or number < %(before)s)
  and (%(stack)s::text is null or stack = %(stack)s) and (%(change)s::text is null or change = %(change)s)
  and (%(phases)s::text[] is null or phase = any(%(phases)s))
  and (%(statuses)s::text[] is null or status = any(%(statuses)s))
order by number desc limit %(limit)s
"""  # noqa: S608 - our own column names
_LATER_APPLIES: Final = """
select distinct on (other.stack) other.stack, other.id
from runs mine join runs other on other.tenant = mine.tenant and other.stack = mine.stack
join changes later on later.id = other.change
where mine.change = %(change)s and mine.phase <> 'done' and later.number > %(number)s
  and other.operation <> 'plan' and (other.apply_began is not null or other.status = 'applied')
order by other.stack, later.number desc
"""
# A change that no worker has is cancelled at once; a running one by its worker.
_CANCEL: Final = f"""
with change as (
  update changes set cancel = coalesce(cancel, clock_timestamp()),
    cancelled_by = coalesce(cancelled_by, %(by)s), error = coalesce(error, %(error)s),
    forced = case when %(force)s and cancel is not null then clock_timestamp() else forced end,
    phase = case when phase in ('queued', 'waiting') then 'done' else phase end,
    ended = case when phase in ('queued', 'waiting') then clock_timestamp() end
  where id = %(change)s and phase <> 'done' returning id, phase
), cancelled as (
  update runs set phase = 'done', status = 'cancelled', ended = clock_timestamp()
  from change where runs.change = change.id and change.phase = 'done' and runs.phase <> 'done'
)
select pg_notify('{WORK}', id) from change
"""  # noqa: S608 - our own names
# With its last run that was not done, a rejection ends the change; otherwise a worker continues.
_DECIDE: Final = f"""
with decided as (
  select changes.id, %(rejected)s and not exists (
    select from runs other where other.change = changes.id and other.id <> runs.id and other.phase <> 'done')
    as ends
  from changes join runs on runs.change = changes.id
  where runs.id = %(run)s and runs.phase = 'waiting' and runs.digest = %(digest)s for update of changes, runs
), rejected as (
  update runs set phase = 'done', status = 'refused', ended = clock_timestamp()
  from decided where runs.id = %(run)s and %(rejected)s
), woken as (
  update changes set woken = phase = 'running',
    phase = case when phase = 'running' then phase when ends then 'done' else 'queued' end,
    ended = case when phase <> 'running' and ends then clock_timestamp() end
  from decided where changes.id = decided.id returning changes.id
)
select pg_notify('{WORK}', id) from woken
"""  # noqa: S608 - our own names


_NOTIFY_RUN: Final = f"""
select pg_notify('{RUN}', id), pg_notify('{RUN}', change) from runs where id = %(run)s
"""  # noqa: S608 - our own names


class NewRun(Struct, frozen=True, kw_only=True):
    stack: str
    environment: str | None = None
    target: str | None = None
    labels: tuple[str, ...] = ()
    """That a worker needs to run it, as `network=internal`."""
    retried_from: str | None = None
    id: str = field(default_factory=clock.new_id)


class NewChange(Struct, frozen=True, kw_only=True):
    """Its options (`contents.py`) are written before it is submitted: a worker may claim it at once."""

    tenant: str
    operation: Operation
    source: str
    requester: Principal
    patterns: tuple[str, ...]
    """A worker selects the stacks that they match."""
    runs: tuple[NewRun, ...] = ()
    """Of stacks that were named exactly: their ids are known at once."""
    reason: str = ""
    priority: int = PLAN_PRIORITY
    event: str | None = None
    """The event of a device, if it reconciles that."""
    id: str = field(default_factory=clock.new_id)


class Run(Struct, frozen=True, kw_only=True):
    id: str
    """Also its id in the run store: of its claim, journal, record and approvals."""
    tenant: str
    change: str
    number: int
    stack: str
    operation: Operation
    environment: str | None
    target: str | None
    phase: RunPhase
    status: str | None
    digest: str | None
    retried_from: str | None
    created: datetime
    started: datetime | None
    ended: datetime | None
    who: str
    """Who asked for the change."""
    reason: str
    since: datetime | None = None
    """When it got its phase."""


class Change(Struct, frozen=True, kw_only=True):
    id: str
    tenant: str
    number: int
    operation: Operation
    source: str
    requester: Principal
    reason: str
    patterns: tuple[str, ...] | None
    """None: its runs are all that it has."""
    phase: ChangePhase
    environments: tuple[str, ...]
    targets: tuple[str, ...]
    labels: tuple[str, ...]
    priority: int
    worker: str | None
    fence: int
    beat: datetime | None
    cancel: datetime | None
    cancelled_by: str | None
    error: dict[str, Any] | None
    created: datetime
    started: datetime | None
    ended: datetime | None
    event: str | None = None
    """The event of a device that it belongs to."""
    runs: tuple[Run, ...] = ()


class RunState(NamedTuple):
    stack: str
    phase: str
    status: str | None


class ChangePhases(NamedTuple):
    phase: str
    runs: dict[str, RunState]


class ChangeRows:
    def __init__(self, database: Database) -> None:
        self._database = database

    def submit(self, new: NewChange) -> Change:
        values = {
            **{
                name: getattr(new, name) for name in ("id", "tenant", "source", "reason", "priority", "event")
            },
            "operation": new.operation.value,
            "requester": to_jsonb(msgspec.to_builtins(new.requester)),
            "patterns": list(new.patterns),
            "runs": [run.id for run in new.runs],
            "stacks": [run.stack for run in new.runs],
            "retried": [run.retried_from for run in new.runs],
        }
        execute_in_order(self._database, _SUBMIT, **values)
        change = self.of(new.id)
        assert change is not None  # noqa: S101 - it was just written
        return change

    def of(self, change: str) -> Change | None:
        with self._database.transaction() as connection:
            rows = execute(connection, _CHANGE, id=change)
            runs = execute(connection, _RUNS_OF, ids=[change])
        return change_from_row(rows[0], runs) if rows else None

    def phases(self, change: str) -> ChangePhases | None:
        """What a follower of the change asks for often."""
        with self._database.transaction(single=True) as connection:
            rows = connection.execute(_PHASES, (change,)).fetchall()
        if not rows:
            return None
        runs = {row[1]: RunState(*row[2:]) for row in rows if row[1] is not None}
        return ChangePhases(rows[0][0], runs)

    def list(
        self,
        tenant: str,
        *,
        phases: Sequence[ChangePhase] | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> tuple[Change, ...]:
        """Newest first. `before`: the number of the last one of the page before."""
        named = None if phases is None else [phase.value for phase in phases]
        with self._database.transaction() as connection:
            rows = execute(connection, _CHANGES, tenant=tenant, phases=named, before=before, limit=limit)
            runs = execute(connection, _RUNS_OF, ids=[row["id"] for row in rows])
        return tuple(change_from_row(row, runs) for row in rows)

    def request_cancel(
        self, change: str, by: str, *, error: Mapping[str, str] | None = None, force: bool = False
    ) -> Change | None:
        """At once if no worker has it, otherwise by its worker. None: there is none. Done stays done.

        `force`: of one that was cancelled before, without waiting for the resources in progress.
        """
        with self._database.transaction() as connection:
            document = None if error is None else to_jsonb(dict(error))
            execute(connection, _CANCEL, change=change, by=by, error=document, force=force)
            execute(connection, NOTIFY_RUNS, change=change)
        return self.of(change)

    def decide(self, run: str, digest: str, *, rejected: bool = False) -> bool:
        """A person decided about this plan: a worker continues with its change. A rejected run is done.

        False: the run does not wait, or its plan is another one.
        """
        with self._database.transaction() as connection:
            woken = execute(connection, _DECIDE, run=run, digest=digest, rejected=rejected)
            execute(connection, _NOTIFY_RUN, run=run)
        return bool(woken)


class RunRows:
    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, run: str) -> Run | None:
        with self._database.transaction(single=True) as connection:
            rows = execute(connection, f"select {RUN_COLUMNS} from runs where id = %(id)s", id=run)  # noqa: S608
        return run_from_row(rows[0]) if rows else None

    def shown_plan(self, run: Run) -> str | None:
        """The run whose plan was shown to who asked for this apply, also if this repeats that apply.

        None: it makes its own plan. The run may be gone, and its plan with it.
        """
        while run.retried_from is not None and run.operation in {Operation.APPLY, Operation.DESTROY}:
            before = self.of(run.retried_from)
            if before is None or before.operation is Operation.PLAN:
                return run.retried_from
            run = before
        return None

    def later_applies(self, change: Change) -> dict[str, str]:
        """By stack of the change: the last run of a later change that began to apply."""
        with self._database.transaction(single=True) as connection:
            rows = execute(connection, _LATER_APPLIES, change=change.id, number=change.number)
        return {row["stack"]: row["id"] for row in rows}

    def apply_of(self, plan: str) -> str | None:
        """The newest run that applies the plan of this one."""
        statement = (
            "select id from runs where retried_from = %(plan)s and operation <> 'plan'"
            " order by number desc limit 1"
        )
        with self._database.transaction(single=True) as connection:
            rows = execute(connection, statement, plan=plan)
        return str(rows[0]["id"]) if rows else None

    def list(
        self,
        tenant: str,
        *,
        stack: str | None = None,
        change: str | None = None,
        phases: Sequence[str] | None = None,
        statuses: Sequence[str] | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> tuple[Run, ...]:
        """Newest first. `before`: the number of the last one of the page before."""
        values = {"stack": stack, "change": change, "before": before, "limit": limit}
        lists = {
            "phases": None if phases is None else list(phases),
            "statuses": None if statuses is None else list(statuses),
        }
        with self._database.transaction(single=True) as connection:
            rows = execute(connection, _RUNS, tenant=tenant, **values, **lists)
        return tuple(map(run_from_row, rows))


def execute_in_order(database: Database, statement: str, **values: object) -> list[dict[str, Any]]:
    """One after another with all others of this kind, in one transaction and one exchange."""
    from psycopg import ClientCursor  # noqa: PLC0415 - an extra
    from psycopg.rows import dict_row  # noqa: PLC0415 - an extra

    with database.transaction(single=True) as connection:
        cursor = ClientCursor(connection, row_factory=dict_row)
        cursor.execute(f"{IN_ORDER}{statement}", values)
        while cursor.nextset():
            pass
        return cursor.fetchall()


def to_jsonb(document: object) -> object:
    from psycopg.types.json import Jsonb  # noqa: PLC0415 - an extra

    return Jsonb(document)


def run_from_row(row: dict[str, Any]) -> Run:
    return Run(**{**row, "operation": Operation(row["operation"]), "phase": RunPhase(row["phase"])})


def change_from_row(row: dict[str, Any], runs: Sequence[dict[str, Any]]) -> Change:
    """With those of the runs that are its own."""
    return Change(
        **{
            **row,
            "operation": Operation(row["operation"]),
            "requester": msgspec.convert(row["requester"], Principal),
            "patterns": None if row["patterns"] is None else tuple(row["patterns"]),
            "phase": ChangePhase(row["phase"]),
            "environments": tuple(row["environments"]),
            "targets": tuple(row["targets"]),
            "labels": tuple(row["labels"]),
        },
        runs=tuple(run_from_row(run) for run in runs if run["change"] == row["id"]),
    )
