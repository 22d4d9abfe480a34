"""How workers take changes, and what they write to them while they have them.

A claim raises the change's `fence`; every write of a worker names the fence that it got. A worker that was
declared dead has an older one, so it writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from holdfast.config.server import ServerRunSettings
from holdfast.store.blobs import EncryptedBlobs
from holdfast.store.database_blobs import write_several
from holdfast.store.server_runs.contents import RunEnd
from holdfast.store.server_runs.phases import (
    ChangePhase,
    InvalidPhase,
    RunPhase,
    phase_of_change,
    phases_before,
    require_status,
)
from holdfast.store.server_runs.rows import (
    CHANGE_COLUMNS,
    NOTIFY_RUNS,
    RUN,
    RUN_COLUMNS,
    WORK,
    Change,
    NewRun,
    change_from_row,
    execute_in_order,
    to_jsonb,
)
from holdfast.store.server_runs.workers import NewWorker
from holdfast.store.server_states.changes import run as execute

if TYPE_CHECKING:
    from psycopg import Connection

    from holdfast.database.database import Database

HEARTBEAT: Final = 5.0
"""Seconds between two heartbeats of a worker and its changes."""
SILENT: Final = 30.0
"""Seconds after which one without a heartbeat counts as silent."""
ENVIRONMENT: Final = "environment"
TARGET: Final = "target"
# No other change works on a stack of this one, or is to do so before it. A run that waits blocks no other.
# An apply also waits until the stacks of earlier applies from its repository are known.
# Whether labels and limits fit is only known once the stacks of a change are selected.
# Events with the same key run at most as many at once as their blueprint allows.
_ELIGIBLE: Final = """
  not exists (
    select from runs mine
    join runs other on other.tenant = mine.tenant and other.stack = mine.stack and other.change <> mine.change
    join changes on changes.id = other.change
    where mine.change = c.id and mine.phase <> 'done' and other.phase <> 'done'
      and (other.phase in ('planning', 'applying')
        or (other.phase = 'queued' and (changes.phase = 'running'
          or (changes.phase = 'queued' and changes.number < c.number)))))
  and (c.operation = 'plan' or not exists (
    select from changes earlier
    join sources theirs on theirs.id = earlier.source join sources own on own.id = c.source
    where earlier.tenant = c.tenant and earlier.number < c.number and earlier.operation <> 'plan'
      and earlier.patterns is not null and earlier.phase in ('queued', 'running')
      and theirs.repository = own.repository))
  and (c.patterns is not null or (
    (%(environments)s::text[] is null or c.environments <@ %(environments)s::text[])
    and (%(targets)s::text[] is null or c.targets <@ %(targets)s::text[])
    and c.labels <@ %(labels)s::text[]
    and not exists (
      select from unnest(c.environments) as named (environment)
      where (%(per_environment)s::jsonb ->> environment)::bigint <= (
        select count(*) from changes where phase = 'running' and id <> c.id
          and environment = any(environments)))))
  and (%(limit)s::bigint is null or %(limit)s::bigint > (
    select count(*) from changes where phase = 'running' and id <> c.id))
  and (c.event is null or not exists (
    select from events own where own.id = c.event and own.concurrency <= (
      select count(*) from changes o join events e on e.id = o.event
      where o.phase = 'running' and o.id <> c.id and e.concurrency_key = own.concurrency_key)))
"""
_CLAIM: Final = f"""
update changes set phase = 'running', worker = %(worker)s, fence = fence + 1, woken = false,
  beat = clock_timestamp(), started = coalesce(started, clock_timestamp())
where id = (
  select id from changes c where phase = 'queued' and (%(tenant)s::text is null or tenant = %(tenant)s)
    and exists (select from workers where id = %(worker)s and phase = 'ready')
    and {_ELIGIBLE}
  order by priority desc, number limit 1)
returning {CHANGE_COLUMNS}
"""  # noqa: S608 - our own column names
# Locked until the end of the transaction: nothing takes the change meanwhile.
_MINE: Final = """
select id, woken, cancel from changes
where id = %(change)s and fence = %(fence)s and worker = %(worker)s and phase = 'running' for no key update
"""
_ADD_RUNS: Final = f"""
with mine as ({_MINE}), added as (
  insert into runs (id, tenant, change, stack, operation, environment, target)
  select new.id, changes.tenant, changes.id, new.stack, changes.operation, new.environment, new.target
  from mine join changes using (id),
    unnest(%(runs)s::text[], %(stacks)s::text[], %(run_environments)s::text[], %(run_targets)s::text[])
    with ordinality as new (id, stack, environment, target, place) order by place
  on conflict (change, stack) do update set environment = excluded.environment, target = excluded.target
)
update changes set patterns = null,
  environments = (select coalesce(array_agg(distinct e), '{{}}') from unnest(%(run_environments)s::text[]) e
    where e is not null),
  targets = (select coalesce(array_agg(distinct t), '{{}}') from unnest(%(run_targets)s::text[]) t
    where t is not null),
  labels = %(run_labels)s::text[]
from mine where changes.id = mine.id;
update changes c set phase = 'queued', worker = null
where id = %(change)s and fence = %(fence)s and worker = %(worker)s and phase = 'running'
  and not ({_ELIGIBLE});
select pg_notify('{RUN}', %(change)s);
select {CHANGE_COLUMNS} from changes
where id = %(change)s and fence = %(fence)s and worker = %(worker)s and phase = 'running'
"""  # noqa: S608 - our own column names
# Runs of one change need not wait for each other: no transaction with this lock writes to its row.
_SHARED: Final = _MINE.replace("for no key update", "for share")
_SET_PHASES: Final = f"""
with mine as ({_SHARED})
update runs set phase = %(phase)s, status = new.status, digest = coalesce(new.digest, runs.digest),
  since = clock_timestamp(),
  apply_began = case when %(phase)s = 'applying' then clock_timestamp() else apply_began end,
  started = case when %(phase)s = 'queued' then null else coalesce(started, clock_timestamp()) end,
  ended = case when %(phase)s = 'done' then clock_timestamp() end
from mine, unnest(%(runs)s::text[], %(statuses)s::text[], %(digests)s::text[]) as new (id, status, digest)
where runs.id = new.id and runs.change = mine.id and runs.phase = any(%(before)s)
returning pg_notify('{RUN}', runs.id), pg_notify('{RUN}', runs.change)
"""  # noqa: S608 - our own names
_END_RUNS: Final = """
update runs set phase = 'done', status = %(status)s, ended = clock_timestamp()
where change = %(change)s and (phase in ('queued', 'planning') or (%(refused)s and phase = 'waiting'))
"""
_END: Final = f"""
update changes set phase = %(phase)s, woken = false, error = coalesce(%(error)s, error),
  worker = case %(phase)s when 'running' then worker end,
  ended = case %(phase)s when 'done' then clock_timestamp() end
where id = %(change)s returning pg_notify('{WORK}', id)
"""  # noqa: S608 - our own names
_BEAT: Final = """
update changes set beat = clock_timestamp()
from unnest(%(ids)s::text[], %(fences)s::bigint[]) as own (id, fence)
where changes.id = own.id and changes.fence = own.fence and changes.worker = %(worker)s and phase = 'running'
returning changes.id, cancel, forced
"""
# A plan that was begun is made again, whatever is known of it.
_NOT_DURABLE: Final = ", set_config('synchronous_commit', 'off', true)"


class ClaimLimits(Struct, frozen=True, kw_only=True):
    """How many changes run at the same time, on all workers together."""

    overall: int | None = None
    per_environment: Mapping[str, int] = field(default_factory=dict)


def limits_of(settings: ServerRunSettings) -> ClaimLimits:
    return ClaimLimits(overall=settings.limit, per_environment=dict(settings.per_environment))


class Beats(Struct, frozen=True, kw_only=True):
    lost: frozenset[str]
    """Changes that another worker has, or that ended: stop them."""
    cancelled: frozenset[str]
    forced: frozenset[str] = frozenset()
    """Of these, those to stop at once."""


class Claiming:
    """What one worker does to changes."""

    def __init__(self, database: Database, worker: NewWorker, limits: ClaimLimits | None = None) -> None:
        limits = limits or ClaimLimits()
        self._database = database
        self._worker = worker.id
        self._fitting = {
            "worker": worker.id,
            "tenant": worker.tenant,
            "environments": _label(worker, ENVIRONMENT),
            "targets": _label(worker, TARGET),
            "labels": [f"{name}={value}" for name, values in worker.labels.items() for value in values],
            "limit": limits.overall,
            "per_environment": to_jsonb(dict(limits.per_environment)),
        }

    def claim(self) -> Change | None:
        """The next change that this worker may run: by priority, then in the order they were submitted."""
        rows = execute_in_order(self._database, _CLAIM, **self._fitting)
        return self._with_runs(rows[0]) if rows else None

    def add_runs(self, change: str, fence: int, runs: Sequence[NewRun]) -> Change | None:
        """The stacks that the change selects; a run that it has already keeps its id.

        None: lost, or queued again because order, limits or labels do not allow this worker to continue.
        """
        rows = execute_in_order(
            self._database,
            _ADD_RUNS,
            **self._fitting,
            change=change,
            fence=fence,
            runs=[run.id for run in runs],
            stacks=[run.stack for run in runs],
            run_environments=[run.environment for run in runs],
            run_targets=[run.target for run in runs],
            run_labels=sorted({label for run in runs for label in run.labels}),
        )
        if not rows:
            self._notify(change)
        return self._with_runs(rows[0]) if rows else None

    def beat(self, fences: Mapping[str, int]) -> Beats:
        """Of the worker and of the changes that it has, by their fence."""
        with self._database.transaction(durable=False) as connection:
            execute(
                connection,
                "update workers set beat = clock_timestamp() where id = %(worker)s",
                worker=self._worker,
            )
            rows = execute(
                connection, _BEAT, ids=list(fences), fences=list(fences.values()), worker=self._worker
            )
        own = {row["id"] for row in rows}
        cancelled = frozenset(row["id"] for row in rows if row["cancel"] is not None)
        forced = frozenset(row["id"] for row in rows if row["forced"] is not None)
        return Beats(lost=frozenset(fences) - own, cancelled=cancelled, forced=forced)

    def set_phase(
        self,
        change: str,
        fence: int,
        run: str,
        phase: RunPhase,
        *,
        status: str | None = None,
        digest: str | None = None,
    ) -> bool:
        """False: the change is another worker's now, and nothing was written."""
        require_status(phase, status)
        values = _phase_values(phase, ((run, status, digest),))
        statement = _SET_PHASES + (_NOT_DURABLE if phase is RunPhase.PLANNING else "")
        with self._database.transaction(single=True) as connection:
            written = execute(connection, statement, **values, **self._mine(change, fence))
        if written:
            return True
        if not self.has(change, fence):
            return False
        raise InvalidPhase(f"the run {run} of the change {change} cannot become {phase}")

    def end_runs(self, change: str, fence: int, ends: Sequence[RunEnd], blobs: EncryptedBlobs) -> bool:
        """With what is stored of them, or nothing. False: the change is another worker's now."""
        mine = self._mine(change, fence)
        with self._database.transaction() as connection:
            if not execute(connection, _SHARED, **mine):
                return False
            contents = {name: data for end in ends for name, data in end.contents.items()}
            write_several(blobs, contents, connection)
            for phase in {end.phase for end in ends}:
                values = [(end.run, end.status, end.digest) for end in ends if end.phase is phase]
                written = execute(connection, _SET_PHASES, **_phase_values(phase, values), **mine)
                if len(written) != len(values):
                    raise InvalidPhase(f"runs of the change {change} cannot become {phase}")
        return True

    def has(self, change: str, fence: int) -> bool:
        with self._database.transaction() as connection:
            return self._hold(connection, change, fence) is not None

    def finish(
        self, change: str, fence: int, error: Mapping[str, Any] | None = None, *, refused: bool = False
    ) -> ChangePhase | None:
        """Its worker can do no more now. None: lost.

        Runs that did not begin end with it, unless others wait for a decision: those may follow then.
        If the change is `refused`, no decision can help, so what waits ends as well.
        """
        with self._database.transaction() as connection:
            mine = self._hold(connection, change, fence)
            if mine is None:
                return None
            phases = _phases(connection, change)
            if error is not None or not {RunPhase.WAITING, RunPhase.APPLYING} & set(phases):
                status = "cancelled" if mine["cancel"] is not None and error is None else "failed"
                values = {"status": "refused" if refused else status, "refused": refused}
                execute(connection, _END_RUNS, change=change, **values)
                phases = _phases(connection, change)
            phase = phase_of_change(phases, woken=mine["woken"])
            document = None if error is None else to_jsonb(dict(error))
            execute(connection, _END, change=change, phase=phase.value, error=document)
            execute(connection, NOTIFY_RUNS, change=change)
        return phase

    def requeue(self, change: str, fence: int) -> bool:
        """For another worker: plans are made again. A run that is applied keeps the change. False: lost.

        A change whose runs are all done is done.
        """
        with self._database.transaction() as connection:
            if self._hold(connection, change, fence) is None:
                return False
            statement = "update runs set phase = 'queued', started = null where change = %(change)s"
            execute(connection, f"{statement} and phase = 'planning'", change=change)
            phases = set(_phases(connection, change))
            phase = ChangePhase.RUNNING if RunPhase.APPLYING in phases else ChangePhase.QUEUED
            if phases == {RunPhase.DONE}:
                phase = ChangePhase.DONE
            execute(connection, _END, change=change, phase=phase.value, error=None)
            execute(connection, NOTIFY_RUNS, change=change)
        return True

    def _mine(self, change: str, fence: int) -> dict[str, object]:
        return {"change": change, "fence": fence, "worker": self._worker}

    def _hold(self, connection: Connection[Any], change: str, fence: int) -> dict[str, Any] | None:
        rows = execute(connection, _MINE, **self._mine(change, fence))
        return rows[0] if rows else None

    def _with_runs(self, row: dict[str, Any]) -> Change:
        with self._database.transaction(single=True) as connection:
            runs = execute(
                connection,
                f"select {RUN_COLUMNS} from runs where change = %(change)s order by number",  # noqa: S608
                change=row["id"],
            )
        return change_from_row(row, runs)

    def _notify(self, change: str) -> None:
        with self._database.transaction(single=True) as connection:
            execute(connection, f"select pg_notify('{WORK}', %(change)s)", change=change)


def _phase_values(phase: RunPhase, runs: Sequence[tuple[str, str | None, str | None]]) -> dict[str, object]:
    """Of these runs, each with its status and digest."""
    ids, statuses, digests = ([run[place] for run in runs] for place in range(3))
    before = [phase.value for phase in phases_before(phase)]
    return {"phase": phase.value, "before": before, "runs": ids, "statuses": statuses, "digests": digests}


def _label(worker: NewWorker, name: str) -> list[str] | None:
    values = worker.labels.get(name)
    return None if values is None else list(values)


def _phases(connection: Connection[Any], change: str) -> list[RunPhase]:
    rows = execute(connection, "select phase from runs where change = %(change)s", change=change)
    return [RunPhase(row["phase"]) for row in rows]
