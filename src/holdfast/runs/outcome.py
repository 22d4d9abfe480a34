"""How a run ended whose Holdfast is gone, as far as its journal proves it.

Before a stack is planned or changed, its previous run must be over and its outcome known. What the journal
proves is recorded and the stack is free again; anything else is refused as an unknown outcome.
"""

from __future__ import annotations

import asyncio

from holdfast.kernel.errors import Busy, UnknownOutcome
from holdfast.plans.context import Control
from holdfast.plans.events import Listener, Note
from holdfast.plans.status import Status
from holdfast.runs.claims import (
    POLL_SECONDS,
    Claim,
    HolderLiveness,
    claim_on,
    collect_journal,
    holder_liveness,
    holder_not_proved_dead,
    is_working,
    stack_busy,
)
from holdfast.runs.run import applied_run, run_from_claim, write_run
from holdfast.stacks.stack import Stack
from holdfast.store.journal import Journal
from holdfast.store.run_store import RunStore
from holdfast.system import clock
from holdfast.terraform.apply_log import OperationStatus, parse_apply_log
from holdfast.terraform.engine.worker import NOT_STARTED

_FAILED = 1
_STATE_ONLY = frozenset({"push", "rollback", "adopt", "rename", "retire", "mv", "rm"})
"""These write a state in one step and create no resource."""


class UnknownRun(UnknownOutcome):
    """The previous run of a stack was interrupted. `recovery.crash_report` says what is known of it."""

    def __init__(self, stack: Stack, claim: Claim, journal: Journal, holder: HolderLiveness) -> None:
        happened = "was interrupted"
        if not holder.proved_dead and journal.ended is None:
            since = (holder.heartbeat or claim.intent.started)[:19]
            happened = f"sent its last heartbeat at {since}Z on {claim.intent.process.host} and may still run"
        super().__init__(
            "HF-RUN-8",
            f"The last {claim.intent.operation} of {claim.stack} {happened}; its outcome is unknown.",
            hint="Nothing is planned or applied on this stack until this is resolved: "
            f"holdfast runs reconcile {claim.run}",
        )
        self.stack = stack
        self.claim = claim
        self.journal = journal


async def require_previous_finished(store: RunStore, control: Control, stack: Stack) -> tuple[str, ...]:
    """Notes on a previous run that was finished just now. Raises `Busy` or `UnknownRun`."""
    end = clock.monotonic() + control.wait
    while (claim := claim_on(store, stack.name)) is not None:
        journal = collect_journal(store, claim)
        notes = finish_from_journal(store, control.tell, claim, journal)
        if notes is None and not is_working(store, claim):
            # The run is over now, and may have written its last lines since we read the journal.
            journal = collect_journal(store, claim)
            notes = finish_from_journal(store, control.tell, claim, journal)
            if notes is None:
                raise UnknownRun(stack, claim, journal, holder_liveness(store, claim, journal))
        if notes is not None:
            return notes
        if clock.monotonic() >= end or control.stop.level:
            raise stack_busy(claim)
        await asyncio.sleep(POLL_SECONDS)
    return ()


def finish_from_journal(
    store: RunStore, tell: Listener, claim: Claim, journal: Journal
) -> tuple[str, ...] | None:
    """Record the outcome that record or journal prove, and free the stack; None where they prove nothing.

    A plan job only reads: the next command with the apply key records it.
    """
    run = applied_run(store, claim.run)
    if run is not None and run.status.is_final:
        # The run died after it recorded its outcome and before it released the stack.
        if store.can_apply:
            store.take_over(claim.stack, claim.run)
            store.claims.release(claim.stack, claim.run)
        return ()
    holder = holder_liveness(store, claim, journal)
    outcome = None if holder.alive else proven_status(claim, journal, dead=holder.proved_dead)
    if outcome is None:
        return None
    status, note = outcome
    if store.can_apply:
        store.take_over(claim.stack, claim.run)
        if journal.started is None and not prevent_start(store, claim):
            return None
        close_run(store, claim, status, note)
    tell(Note(stack=claim.stack, text=note))
    return (note,)


def close_run(store: RunStore, claim: Claim, status: Status, note: str) -> None:
    """Record the outcome of a run that could not record its own, and free the stack."""
    write_run(store, run_from_claim(claim).to(status, note))
    store.claims.release(claim.stack, claim.run)


def prevent_start(store: RunStore, claim: Claim) -> bool:
    """From now on the run cannot start Terraform, even if a process it asked is still alive.

    False when Terraform was started before.
    """
    return store.runs.prevent_start(claim.run) or collect_journal(store, claim).started is None


def require_ended(store: RunStore, claim: Claim, *, declared: str | None = None) -> None:
    """Nothing of the run works any more, nor can start: proved, or `declared` by a person.

    Then its claim is the caller's.
    """
    journal = collect_journal(store, claim)
    holder = holder_liveness(store, claim, journal)
    over = holder.proved_dead or journal.ended is not None or declared is not None
    if over and not holder.alive:
        store.take_over(claim.stack, claim.run, declared=declared)
    if holder.alive or (over and journal.started is None and not prevent_start(store, claim)):
        raise Busy(
            "HF-LOCK-2",
            f"{claim.stack}: run {claim.run} of {claim.intent.who} is still running",
            hint="Wait until it finishes, then try again.",
        )
    if not over:
        raise holder_not_proved_dead(claim, holder)


def proven_status(claim: Claim, journal: Journal, *, dead: bool) -> tuple[Status, str] | None:
    """How a run ended whose Holdfast is gone, and a note on it. Pure."""
    operation = claim.intent.operation
    if claim.intent.move is not None:
        return None  # Only the two states tell.
    if dead and operation in _STATE_ONLY:
        return Status.FAILED, f"run {claim.run}: the {operation} was interrupted; check the state"
    outcome = outcome_from_journal(journal, dead=dead)
    return (outcome[0], f"run {claim.run} {outcome[1]}") if outcome is not None else None


def outcome_from_journal(journal: Journal, *, dead: bool) -> tuple[Status, str] | None:
    """The status of a run whose Holdfast is gone, and what happened; None: the journal proves nothing.

    `dead`: no process can start it any more.
    """
    ended = journal.ended
    if ended is None:
        never = dead and journal.started is None and journal.whole
        return (Status.FAILED, "ended before Terraform was started") if never else None
    if ended.get("code") == NOT_STARTED:
        return Status.FAILED, "could not start Terraform"
    if ended.get("code") == 0 and not ended.get("unsaved"):
        return Status.APPLIED, "continued after Holdfast was killed, and was applied"
    if failed_cleanly(journal):
        return Status.FAILED, "continued after Holdfast was killed, and failed"
    return None


def failed_cleanly(journal: Journal) -> bool:
    """Terraform exited with an error and saved its state; no provider crashed and no change is open."""
    ended = journal.ended
    if ended is None or ended.get("code") != _FAILED or ended.get("unsaved"):
        return False
    return exited_by_itself(journal)


def was_forced(journal: Journal) -> bool:
    """Whether Holdfast interrupted Terraform twice: it then exits without waiting for its changes."""
    return journal.ended is not None and journal.ended.get("forced") is True


def failed_creates(journal: Journal) -> frozenset[str]:
    """Addresses whose create failed: the resource may exist anyway."""
    log = parse_apply_log(journal.lines, forced=was_forced(journal))
    return frozenset(
        address
        for address, operations in log.operations.items()
        if any(
            operation.creates and operation.end is not OperationStatus.COMPLETE for operation in operations
        )
    )


def exited_by_itself(journal: Journal) -> bool:
    """Terraform exited by itself and reported the end of every change it had started."""
    code = journal.ended.get("code") if journal.ended is not None else None
    if code not in {0, _FAILED}:
        return False
    log = parse_apply_log(journal.lines, forced=was_forced(journal))
    still_open = (
        operation
        for operations in log.operations.values()
        for operation in operations
        if operation.end is OperationStatus.OPEN
    )
    return not log.died and next(still_open, None) is None
