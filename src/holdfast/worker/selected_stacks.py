"""The stacks of a change that a worker runs: which it has, and which of them can be done now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from holdfast.changes.dependencies import blocked_result, needs, reversed_dependencies
from holdfast.changes.repository import Repository
from holdfast.changes.selection import Selection
from holdfast.kernel.errors import Refused
from holdfast.plans.base_rules import BaseRules
from holdfast.plans.result import StackResult
from holdfast.plans.saved_plan import SavedPlan
from holdfast.plans.status import Status
from holdfast.stacks.stack import Stack
from holdfast.store.server_runs.phases import Operation, RunPhase
from holdfast.store.server_runs.rows import Change, NewRun, Run

_SATISFYING: Final = frozenset({Status.APPLIED.value, Status.UNCHANGED.value})


class SelectedStacks(Struct, frozen=True, kw_only=True):
    """The stacks of a change, and the saved plans that are applied."""

    repository: Repository
    runs: dict[str, Run]
    """By stack, in their order."""
    selection: Selection | None = None
    """None: the runs say what is selected."""
    base: BaseRules | None = None
    bundles: dict[str, SavedPlan | None] = {}
    """None: the saved plan is gone."""
    shown: frozenset[str] = frozenset()
    """Stacks that have only a plan that was shown before: no other one may be applied."""
    later: dict[str, str] = {}
    """By stack: the run of a change that was submitted later, and is applied already."""

    @property
    def ids(self) -> dict[str, str]:
        return {name: run.id for name, run in self.runs.items()}

    def stacks(self, names: Iterable[str]) -> tuple[Stack, ...]:
        known = (self.repository.by_name[name] for name in names)
        return tuple(stack if self.base is None else self.base.stricter(stack) for stack in known)


def new_run(stack: Stack) -> NewRun:
    target = stack.target.name if stack.target is not None else None
    labels = tuple(f"{name}={value}" for name, value in stack.worker.items())
    return NewRun(stack=stack.name, environment=stack.environment, target=target, labels=labels)


def outdated(change: Change, stack: str, later: str) -> Refused:
    """A change never undoes one that was submitted after it: its code is older."""
    return Refused(
        "HF-RUN-39",
        f"{stack}: run {later}, which was submitted later, has begun to apply, so this is out of date",
        hint="Its code is older than what was applied. If it is still needed, submit it again. "
        + next_plan(change, stack),
    )


def lost(stack: str) -> Refused:
    return Refused(
        "HF-RUN-30",
        f"{stack}: another worker has taken the change over, so nothing was applied here",
        hint="Its run goes on there: holdfast runs list",
    )


def next_plan(change: Change, stack: str) -> str:
    """After which a person can apply a plan that they have seen."""
    if change.requester.kind == "webhook":
        return "Make a new plan: comment `holdfast plan`, read it, then comment `holdfast apply`."
    command = "destroy" if change.operation is Operation.DESTROY else "apply"
    return f"Make a new plan, read it, and apply that: holdfast {command} {stack} --server"


def ready_stacks(selected: SelectedStacks, *, destroy: bool) -> tuple[set[str], dict[str, StackResult]]:
    """The stacks that can be done now, and the results of those that cannot be done any more.

    One whose dependency still waits for a decision follows when that is applied.
    """
    runs = selected.runs
    waits = needs(selected.stacks(runs), selected.repository.stacks)
    waits = reversed_dependencies(waits) if destroy else waits
    ready = {
        name
        for name, run in runs.items()
        if run.phase in {RunPhase.QUEUED, RunPhase.PLANNING} or name in selected.bundles
    }
    blocked: dict[str, StackResult] = {}
    while held := {
        name: other
        for name in ready
        for other in waits[name]
        if other not in ready and runs[other].status not in _SATISFYING
    }:
        ready -= set(held)
        for name, other in held.items():
            status = blocked[other].status if other in blocked else runs[other].status
            if other in blocked or runs[other].phase is RunPhase.DONE:
                result = StackResult(
                    stack=selected.repository.by_name[name], status=Status.CANCELLED, run=runs[name].id
                )
                blocked[name] = blocked_result(result, other, Status(str(status)), destroys=destroy)
    return ready, blocked
