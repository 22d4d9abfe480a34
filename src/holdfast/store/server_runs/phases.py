"""The phases of runs and changes on the server: closed sets with one table of what may follow each. Pure.

The phase says what happens to a run; its status (`plans/status.py`) is its result, once it has one.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final


class Operation(StrEnum):
    PLAN = "plan"
    APPLY = "apply"
    DESTROY = "destroy"
    RECONCILE = "reconcile"

    @property
    def changes_states(self) -> bool:
        return self is not Operation.PLAN


class RunPhase(StrEnum):
    QUEUED = "queued"
    PLANNING = "planning"
    WAITING = "waiting"
    """For a decision about its plan. If the guard denies that, the status is `refused`: only an override
    helps.
    """
    APPLYING = "applying"
    DONE = "done"

    @property
    def has_status(self) -> bool:
        return self in {RunPhase.WAITING, RunPhase.DONE}


class ChangePhase(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    """Nothing can be done until a person decides about a plan."""
    DONE = "done"


NEXT: Final[dict[RunPhase, frozenset[RunPhase]]] = {
    RunPhase.QUEUED: frozenset({RunPhase.PLANNING, RunPhase.DONE}),
    # Planned again after its worker died or was stopped: queued.
    RunPhase.PLANNING: frozenset({RunPhase.QUEUED, RunPhase.WAITING, RunPhase.APPLYING, RunPhase.DONE}),
    # Its plan was stale: planning, or queued if a person noticed it who decided about it.
    RunPhase.WAITING: frozenset({RunPhase.QUEUED, RunPhase.PLANNING, RunPhase.APPLYING, RunPhase.DONE}),
    RunPhase.APPLYING: frozenset({RunPhase.DONE}),
    RunPhase.DONE: frozenset(),
}
"""An apply is never repeated: `applying` leads only to its outcome."""


class InvalidPhase(Exception):  # noqa: N818 - names what was tried
    """A bug in Holdfast: no input causes it."""


def phases_before(phase: RunPhase) -> tuple[RunPhase, ...]:
    """From which a run may get to this phase. A phase may be set again, with a newer digest or status."""
    own = () if phase is RunPhase.DONE else (phase,)
    return (*own, *(before for before in RunPhase if phase in NEXT[before]))


def require_status(phase: RunPhase, status: str | None) -> None:
    if phase.has_status != (status is not None):
        raise InvalidPhase(f"a run that is {phase} cannot have the status {status}")


def phase_of_change(runs: Iterable[RunPhase], *, woken: bool) -> ChangePhase:
    """Of a change with which its worker has finished. `woken`: a decision arrived meanwhile.

    A run that is still applied keeps its change: the outcome is recorded when its supervisor ends.
    """
    phases = set(runs)
    if RunPhase.APPLYING in phases:
        return ChangePhase.RUNNING
    if RunPhase.WAITING in phases:
        return ChangePhase.QUEUED if woken else ChangePhase.WAITING
    return ChangePhase.DONE
