"""Runs and changes as the API shows them. The fields of a run are those of `holdfast runs show`, and more."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from holdfast.server.decisions import DecisionInfo, decision_info, decisions_about, missing_decision
from holdfast.server.run_requests import Caller, RunRequests
from holdfast.store.server_runs.phases import ChangePhase, Operation, RunPhase
from holdfast.store.server_runs.rows import Change, Run


class RunInfo(Struct, frozen=True, kw_only=True):
    id: str
    stack: str
    operation: Operation
    phase: RunPhase
    status: str | None
    """Null until it waits or is done."""
    created: datetime
    started: datetime | None
    ended: datetime | None
    who: str
    reason: str
    change: str
    number: int
    environment: str | None
    target: str | None
    digest: str | None
    retried_from: str | None


class RunDetails(RunInfo, frozen=True, kw_only=True):
    """As in `holdfast runs show`."""

    waiting_for: str | None = None
    """Why it does not go on, while it is in the queue or waits for a decision."""
    decisions: tuple[DecisionInfo, ...] = ()
    """Of people, about its plan, the oldest first."""
    missing: str | None = None
    """What must still be decided, while it waits for that. Null then: a worker applies it."""
    engine: Any = None
    changes: dict[str, int] | None = None
    error: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()
    hooks: tuple[Any, ...] = ()
    intent: None = None
    journal: None = None


class RunDocument(Struct, frozen=True, kw_only=True):
    version: int = 1
    id: str
    phase: RunPhase
    status: str | None
    run: RunDetails


class RunList(Struct, frozen=True, kw_only=True):
    version: int = 1
    runs: tuple[RunInfo, ...]
    next: str | None


class ChangeDocument(Struct, frozen=True, kw_only=True):
    version: int = 1
    id: str
    operation: Operation
    phase: ChangePhase
    who: str
    reason: str
    created: datetime
    started: datetime | None
    ended: datetime | None
    cancelled_by: str | None
    error: dict[str, Any] | None
    stacks: tuple[str, ...] | None
    """As they were asked for, until a worker has selected them; then null."""
    waiting_for: str | None
    """Why it does not go on, while it is in the queue or waits for a decision."""
    runs: tuple[RunInfo, ...]


def run_info(run: Run) -> RunInfo:
    return RunInfo(**{name: getattr(run, name) for name in RunInfo.__struct_fields__})


def run_document(requests: RunRequests, caller: Caller, run: Run) -> RunDocument:
    result = requests.result(caller, run) if run.phase.has_status else None
    known, change = result or {}, requests.changes.of(run.change)
    if change is not None and run.phase is RunPhase.DONE and (result is None or run.status == "cancelled"):
        known = {**known, "error": change.error or known.get("error")}
    waits = change is not None and run.phase in {RunPhase.QUEUED, RunPhase.WAITING}
    given = decisions_about(requests.store(caller), run)
    details = RunDetails(
        **asdict(run_info(run)),
        decisions=tuple(map(decision_info, given)),
        missing=missing_decision(result, given) if run.phase is RunPhase.WAITING else None,
        waiting_for=requests.waiting_for(caller, change, run) if change is not None and waits else None,
        engine=known.get("engine"),
        changes=known.get("changes"),
        error=known.get("error"),
        notes=tuple(known.get("notes") or ()),
    )
    return RunDocument(id=run.id, phase=run.phase, status=run.status, run=details)


def change_document(requests: RunRequests, caller: Caller, change: Change) -> ChangeDocument:
    copied = (*("id", "operation", "phase", "reason", "created", "started", "ended"), "cancelled_by", "error")
    return ChangeDocument(
        **{name: getattr(change, name) for name in copied},
        who=change.requester.name,
        stacks=change.patterns,
        waiting_for=requests.waiting_for(caller, change),
        runs=tuple(map(run_info, change.runs)),
    )
