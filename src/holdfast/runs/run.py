"""A run: one operation on one stack. This is what the run store holds and what `holdfast runs` lists."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping

import msgspec
from msgspec import Struct, field, structs

from holdfast.audit.chain import End
from holdfast.gates.result import GateResult
from holdfast.kernel.errors import Exit, HoldfastError, UnknownOutcome
from holdfast.plans.context import Identity
from holdfast.plans.result import StackResult
from holdfast.plans.saved_plan import StateIdentity
from holdfast.plans.status import STATUS_OF_EXIT, Status
from holdfast.plans.workdir import HookRun
from holdfast.runs.claims import Claim
from holdfast.runs.stages import Stage
from holdfast.secrets.encryption import WrongKey
from holdfast.store.run_store import RunStore
from holdfast.system import clock

_VERSION = 1


class RunError(Struct, frozen=True, kw_only=True):
    code: str
    message: str


class Run(Struct, frozen=True, kw_only=True):
    """One run as far as it is known. Of a run whose record is lost, only the id may be."""

    id: str
    stack: str | None = None
    target: str | None = None
    """Of an operation on a whole target, which has no stack."""
    operation: str | None = None
    who: str | None = None
    change: str | None = None
    """The change it belongs to."""
    status: Status = Status.QUEUED
    times: Mapping[Status, str] = field(default_factory=dict)
    """When the run came to each status."""
    digest: str | None = None
    replaces: str | None = None
    """The digest of the saved plan that was planned again for this run."""
    state_before: StateIdentity | None = None
    state_after: StateIdentity | None = None
    """Which state the apply changed, and which one it left."""
    engine: str | None = None
    changes: Mapping[str, int] | None = None
    """How many resources the plan creates, updates, …"""
    error: RunError | None = None
    notes: tuple[str, ...] | None = None
    hooks: tuple[HookRun, ...] | None = None
    stages: tuple[Stage, ...] | None = None
    """Of a deploy."""
    source: str | None = None
    """A digest of the code that a deploy is made from."""
    gates: tuple[GateResult, ...] | None = None
    """What checking the gates of its target observed."""
    author: Mapping[str, object] | None = None
    """Who planned it, with the proof of that."""
    audit: End | None = None
    """The end of the audit log when the run began: an anchor (`audit.anchors`)."""

    @property
    def started(self) -> str | None:
        return min(self.times.values(), default=None)

    @property
    def ended(self) -> str | None:
        return None if self.status.is_running else self.times.get(self.status)

    def to(self, status: Status, note: str | None = None) -> Run:
        """The run in its next status. Raises `InvalidTransition` for one that cannot follow."""
        self.status.require_next(status)
        times = self.times if status is self.status else {**self.times, status: clock.now().isoformat()}
        notes = self.notes if note is None else (*(self.notes or ()), note)
        return structs.replace(self, status=status, times=times, notes=notes)

    def with_result(self, result: StackResult) -> Run:
        """The run with what came out for its stack."""
        return structs.replace(
            self.to(result.status),
            digest=result.digest,
            replaces=result.replaces,
            state_before=result.state_before,
            state_after=result.state_after,
            engine=str(result.engine) if result.engine is not None else None,
            changes=result.plan.counts.document() if result.plan is not None else None,
            error=RunError(code=result.error.code, message=result.error.message) if result.error else None,
            notes=result.notes,
        )


def redact_run(run: Run, clean: Callable[[str], str]) -> Run:
    """More people may read the record than the secrets that are stored beside it, if any are."""
    error = structs.replace(run.error, message=clean(run.error.message)) if run.error is not None else None
    notes = tuple(map(clean, run.notes)) if run.notes is not None else None
    return structs.replace(run, error=error, notes=notes)


def new_run(
    stack: str | None,
    operation: str,
    identity: Identity,
    *,
    run: str | None = None,
    target: str | None = None,
) -> Run:
    return Run(
        id=run or clock.new_id(),
        stack=stack,
        target=target,
        operation=operation,
        who=identity.who,
        change=identity.change,
        times={Status.QUEUED: clock.now().isoformat()},
        author=identity.audit.who.document(),
        audit=End(seq=end.seq, hash=end.hash) if (end := identity.audit.end) is not None else None,
    )


def run_from_claim(claim: Claim) -> Run:
    """A run that could not write its own record: what it wrote down when it claimed the stack."""
    intent, plan = claim.intent, claim.intent.plan
    return Run(
        id=claim.run,
        stack=claim.stack,
        operation=intent.operation,
        who=intent.who,
        change=intent.change,
        status=Status.APPLYING,
        times={Status.APPLYING: intent.started},
        digest=plan.digest if plan is not None else None,
        state_before=StateIdentity(lineage=plan.lineage, serial=plan.serial) if plan is not None else None,
    )


def write_run(store: RunStore, run: Run, *, durable: bool = True) -> None:
    """The only writer of a run's record. A later one replaces an earlier one."""
    document = {"version": _VERSION, **msgspec.to_builtins(run)}
    store.runs.finish(run.id, document, durable=durable)


@contextlib.contextmanager
def record_outcome(store: RunStore, run: Run, note: str | None = None) -> Iterator[None]:
    """Record the outcome of an operation on a state. What it refuses changed nothing.

    Only of an `UnsettledRun` none is recorded.
    """
    try:
        yield
    except UnsettledRun:
        raise
    except HoldfastError as error:
        status = Status.FAILED if error.exit is Exit.UNKNOWN else STATUS_OF_EXIT[error.exit]
        write_run(store, run.to(status, error.problem.message))
        raise
    write_run(store, run.to(Status.APPLIED, note))


class UnsettledRun(UnknownOutcome):
    """It is unknown what was written: the claim stays, and `runs reconcile` finds out."""


DEPLOY = "deploy"
VERIFY = "verify"
"""The gates of a target were checked; nothing was changed."""
_UNSIGNED = ("plan", VERIFY)
"""What a plan job may do."""


def read_run(store: RunStore, run: str) -> Run | None:
    """None: the run wrote no record. A record of another version counts as an unknown outcome.

    So does an unsigned one of anything but a plan or a check of gates: a plan job can write no other.
    """
    try:
        blob = store.runs.outcome_blob(run)
    except WrongKey:
        # Written by a plan that was running while the key was replaced.
        return Run(id=run, status=Status.UNKNOWN, notes=("its record is encrypted with another key",))
    if blob is None:
        return None
    try:
        recorded = msgspec.convert({"id": run, **blob.document()}, Run)
    except (ValueError, UnknownOutcome):  # A ValidationError is a ValueError.
        return Run(id=run, status=Status.UNKNOWN, notes=("its record cannot be read",))
    if blob.signed or (recorded.operation in _UNSIGNED and recorded.status is not Status.APPLIED):
        return recorded
    return structs.replace(
        recorded,
        status=Status.UNKNOWN,
        notes=("the apply key did not sign this record, so it does not count",),
    )


def applied_run(store: RunStore, run: str) -> Run | None:
    """The record of a run that claimed its stack: None also if the apply key did not sign it."""
    blob = store.runs.outcome_blob(run)
    return read_run(store, run) if blob is not None and blob.signed else None
