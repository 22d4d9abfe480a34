"""What a change in the queue waits for, for people: the rules are those of `_ELIGIBLE` in `claiming.py`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from holdfast.kernel.text import plural
from holdfast.store.server_runs.claiming import ENVIRONMENT, SILENT, TARGET, ClaimLimits
from holdfast.store.server_runs.phases import ChangePhase
from holdfast.store.server_runs.rows import Change
from holdfast.store.server_runs.workers import Worker, WorkerRows
from holdfast.store.server_states.changes import run as execute
from holdfast.system import clock

if TYPE_CHECKING:
    from holdfast.database.database import Database

_BEFORE: Final = """
select other.id, other.stack, other.phase from runs mine
join runs other on other.tenant = mine.tenant and other.stack = mine.stack and other.change <> mine.change
join changes on changes.id = other.change
where mine.change = %(change)s and mine.phase <> 'done' and other.phase <> 'done'
  and (other.phase in ('planning', 'applying')
    or (other.phase = 'queued' and (changes.phase = 'running'
      or (changes.phase = 'queued' and changes.number < %(number)s))))
order by other.number limit 1
"""
_UNSELECTED: Final = """
select earlier.id from changes earlier
join sources theirs on theirs.id = earlier.source join sources own on own.id = %(source)s
where earlier.tenant = %(tenant)s and earlier.number < %(number)s and earlier.operation <> 'plan'
  and earlier.patterns is not null and earlier.phase in ('queued', 'running')
  and theirs.repository = own.repository order by earlier.number limit 1
"""
_RUNNING: Final = "select environments from changes where phase = 'running' and id <> %(change)s"


def waiting_for(database: Database, change: Change, limits: ClaimLimits) -> str | None:
    """None: it is not in the queue. A noun phrase."""
    if change.phase is ChangePhase.WAITING:
        stacks = ", ".join(run.stack for run in change.runs if run.phase == "waiting")
        return f"a decision about the plan of {stacks}"
    if change.phase is not ChangePhase.QUEUED:
        return None
    with database.transaction() as connection:
        before = execute(connection, _BEFORE, change=change.id, number=change.number)
        place = {"source": change.source, "tenant": change.tenant, "number": change.number}
        unselected = execute(connection, _UNSELECTED, **place) if change.operation != "plan" else []
        running = [row["environments"] for row in execute(connection, _RUNNING, change=change.id)]
    if before:
        return "run {id} of the same stack, {stack}, which is {phase}".format(**before[0])
    if unselected:
        return f"change {unselected[0]['id']}, an earlier apply of the same repository"
    workers = [worker for worker in WorkerRows(database).list(change.tenant) if is_ready(worker, clock.now())]
    return missing_worker(change, workers) or reached_limit(change, running, limits) or "a free worker"


def is_ready(worker: Worker, now: datetime) -> bool:
    return worker.phase == "ready" and now - worker.beat < timedelta(seconds=SILENT)


def missing_worker(change: Change, workers: Sequence[Worker]) -> str | None:
    """None: there is one that may run the change. Without selected stacks any may."""
    needed = () if change.patterns is not None else tuple(_needed(change))
    if any(all(_has(worker, *label) for label in needed) for worker in workers):
        return None
    lacking = [label for label in needed if not all(_has(worker, *label) for worker in workers)]
    # Without any worker: those that were required.
    named = lacking or [label for label in needed if label[0] not in {ENVIRONMENT, TARGET}]
    labels = ", ".join(f"{name}={value}" for name, value in named)
    if (
        len(change.runs) > 1
        and workers
        and all(any(_has(worker, *label) for worker in workers) for label in named)
    ):
        return (
            f"one worker with all of {labels}: those that are running have only some of these. Submit stacks "
            "that need different workers as separate changes, or start a worker with all these labels"
        )
    return f"a worker with {labels}: none is running" if labels else "a worker: none is running"


def reached_limit(change: Change, running: Sequence[Iterable[str]], limits: ClaimLimits) -> str | None:
    if limits.overall is not None and len(running) >= limits.overall:
        return f"the limit of {plural(limits.overall, 'change')} at the same time (`runs.limit`)"
    for environment in change.environments if change.patterns is None else ():
        limit = limits.per_environment.get(environment)
        if limit is not None and sum(environment in names for names in running) >= limit:
            return f"the limit of {plural(limit, 'change')} in {environment} (`runs.per_environment`)"
    return None


def _needed(change: Change) -> Iterable[tuple[str, str]]:
    yield from ((ENVIRONMENT, name) for name in change.environments)
    yield from ((TARGET, name) for name in change.targets)
    for label in change.labels:
        name, _, value = label.partition("=")
        yield name, value


def _has(worker: Worker, name: str, value: str) -> bool:
    """A worker without a label of an environment or a target takes all of them."""
    values = worker.labels.get(name)
    return value in values if values is not None else name in {ENVIRONMENT, TARGET}
