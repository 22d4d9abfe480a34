"""Changes on the server against a model of what was promised: any order of submissions, claims, steps of
workers, decisions, cancellations and lost workers.

Whatever happens: two runs of one stack are never in progress at once, an earlier queued run goes first, a run
follows the table of phases, what is done stays so, and a worker without the newest claim writes nothing.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from postgres_made import MadePostgres
from runs_made import made_worker, submitted

from holdfast.database.database import Database
from holdfast.store.server_runs.phases import NEXT, ChangePhase, InvalidPhase, Operation, RunPhase
from holdfast.store.server_runs.rows import Change, ChangeRows, Run

_STACKS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True)
_WORKERS = st.sampled_from([0, 1])
_PLACES = st.integers(0, 5)
_STATUS = {RunPhase.WAITING: "waiting", RunPhase.DONE: "planned"}
_DIGEST = "d" * 64


class _Machine(RuleBasedStateMachine):
    real: Database

    def __init__(self) -> None:
        super().__init__()
        with self.real.transaction() as connection:
            connection.execute("truncate changes, runs, workers cascade")
        self.changes = ChangeRows(self.real)
        self.workers = [made_worker(self.real)[0] for _ in range(2)]
        self.held: dict[str, tuple[int, int]] = {}
        """The worker with the newest claim of a change, and its fence."""
        self.lost: list[tuple[str, int, int]] = []
        self.before: dict[str, Run] = {}
        self.decided: set[str] = set()

    def _all(self) -> dict[str, Change]:
        return {change.id: change for change in self.changes.list("acme", limit=200)}

    @rule(stacks=_STACKS, operation=st.sampled_from(Operation), priority=st.sampled_from([10, 20]))
    def submit(self, stacks: list[str], operation: Operation, priority: int) -> None:
        submitted(self.real, *stacks, operation=operation, priority=priority)

    @rule(worker=_WORKERS)
    def claim(self, worker: int) -> None:
        before = self._all()
        change = self.workers[worker].claim()
        queued = [other for other in before.values() if other.phase is ChangePhase.QUEUED]
        if change is None:
            # Something is always possible unless a run of the same stack is in progress.
            assert not queued or self.held or _in_progress(before)
            return
        assert before[change.id].phase is ChangePhase.QUEUED
        mine = {run.stack: run.number for run in change.runs if run.phase is not RunPhase.DONE}
        for other in queued:
            for run in other.runs:
                if other.id != change.id and run.phase is RunPhase.QUEUED and run.stack in mine:
                    assert run.number > mine[run.stack], "a later run overtook an earlier one"
        self.held[change.id] = (worker, change.fence)

    @rule(place=_PLACES, run=_PLACES, phase=st.sampled_from(RunPhase))
    def set_phase(self, place: int, run: int, phase: RunPhase) -> None:
        held = sorted(self.held.items())
        if not held:
            return
        change, (worker, fence) = held[place % len(held)]
        runs = self._all()[change].runs
        chosen = runs[run % len(runs)]
        status = _STATUS.get(phase)
        try:
            assert self.workers[worker].set_phase(
                change, fence, chosen.id, phase, status=status, digest=_DIGEST if status else None
            )
        except InvalidPhase:
            assert phase not in NEXT[chosen.phase]
            assert phase is not chosen.phase or phase is RunPhase.DONE

    @rule(place=_PLACES, give_back=st.booleans(), failed=st.booleans())
    def give_up(self, place: int, give_back: bool, failed: bool) -> None:  # noqa: FBT001 - drawn
        held = sorted(self.held.items())
        if not held:
            return
        change, (worker, fence) = held[place % len(held)]
        claiming = self.workers[worker]
        if give_back:
            assert claiming.requeue(change, fence)
        else:
            assert claiming.finish(change, fence, {"code": "HF-X"} if failed else None) is not None
        if self._all()[change].phase is not ChangePhase.RUNNING:
            del self.held[change]
            self.lost.append((change, worker, fence))

    @rule(place=_PLACES, rejected=st.booleans())
    def decide(self, place: int, rejected: bool) -> None:  # noqa: FBT001 - drawn
        waiting = [
            run for change in self._all().values() for run in change.runs if run.phase is RunPhase.WAITING
        ]
        if waiting:
            run = waiting[place % len(waiting)]
            assert not self.changes.decide(run.id, "e" * 64, rejected=rejected)
            assert self.changes.decide(run.id, _DIGEST, rejected=rejected)

    @rule(place=_PLACES)
    def cancel(self, place: int) -> None:
        changes = [*self._all().values()]
        if changes:
            self.changes.request_cancel(changes[place % len(changes)].id, "bob")

    @rule(place=_PLACES)
    def write_with_an_old_claim(self, place: int) -> None:
        if not self.lost:
            return
        change, worker, fence = self.lost[place % len(self.lost)]
        before = self._all()[change]
        claiming = self.workers[worker]
        for run in before.runs:
            assert not claiming.set_phase(change, fence, run.id, RunPhase.DONE, status="planned")
        assert claiming.finish(change, fence) is None
        assert not claiming.requeue(change, fence)
        assert claiming.beat({change: fence}).lost == {change}
        assert self._all()[change] == before

    @invariant()
    def one_run_of_a_stack_is_in_progress(self) -> None:
        stacks = _in_progress(self._all())
        assert len(stacks) == len(set(stacks))

    @invariant()
    def phases_follow_the_table(self) -> None:
        changes = self._all()
        for change in changes.values():
            phases = {run.phase for run in change.runs}
            assert (change.phase is ChangePhase.DONE) <= (phases <= {RunPhase.DONE})
            assert (change.phase is ChangePhase.WAITING) <= (RunPhase.WAITING in phases)
            assert (change.worker is not None) == (change.phase is ChangePhase.RUNNING)
            for run in change.runs:
                before = self.before.get(run.id)
                if before is not None and before.phase is RunPhase.DONE:
                    assert run == before
                if before is not None:
                    assert run.phase is before.phase or _leads(before.phase, run.phase)
                self.before[run.id] = run


def _in_progress(changes: dict[str, Change]) -> list[str]:
    active = (RunPhase.PLANNING, RunPhase.APPLYING)
    return [run.stack for change in changes.values() for run in change.runs if run.phase in active]


def _leads(before: RunPhase, after: RunPhase) -> bool:
    """In one or more steps: a rule may take several."""
    reached, left = set(NEXT[before]), set(NEXT[before])
    while left:
        left = set().union(*(NEXT[phase] for phase in left)) - reached
        reached |= left
    return after in reached


@pytest.fixture
def machine(postgres: MadePostgres) -> object:
    with postgres.new_database() as address, Database.open(address, size=4) as database:
        yield type("Machine", (_Machine,), {"real": database})


def test_changes_on_the_server_hold(machine: type[_Machine]) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=40, stateful_step_count=30))


@pytest.mark.long
def test_changes_on_the_server_hold_for_long(machine: type[_Machine]) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=600, stateful_step_count=60))
