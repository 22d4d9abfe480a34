"""Before a stack is touched: is the run before it over, and is its end known?

What the evidence proves is written down and the stack is free again. What nobody knows is said, and refused.
"""

from __future__ import annotations

import asyncio

from holdfast.doors import clock
from holdfast.runs.claiming import alive, busy, operation_of, signs
from holdfast.runs.evidence_shown import unknown_run
from holdfast.runs.heard import End, listen
from holdfast.runs.session import Session
from holdfast.runs.status import Status
from holdfast.stacks.stack import Stack
from holdfast.store.claims import Claim
from holdfast.store.journal import Journal
from holdfast.terraform.worker import NOT_STARTED

_LOOK_AGAIN = 0.5


async def require_settled(session: Session, stack: Stack) -> tuple[str, ...]:
    """Notes on what was found and settled. Raises Busy or UnknownOutcome."""
    end = clock.monotonic() + session.wait
    while (claim := session.store.claims.of(stack.name)) is not None:
        journal = session.store.runs.journal(claim.run, session.store.key)
        settled = settle(session, claim, journal)
        if settled is not None:
            return settled
        if not alive(session, claim):
            raise await unknown_run(session, stack, claim, journal)
        if clock.monotonic() >= end or session.stop.level:
            raise busy(claim)
        await asyncio.sleep(_LOOK_AGAIN)
    return ()


def settle(session: Session, claim: Claim, journal: Journal) -> tuple[str, ...] | None:
    """What the record proves by itself; None where it proves nothing."""
    store = session.store
    if store.runs.outcome(claim.run) is not None:
        # It died between its last word and letting go of the stack.
        store.claims.release(claim.stack, claim.run)
        return ()
    found = signs(session, claim, journal)
    if found.alive:
        return None
    if operation_of(claim) == "push" and found.proved_dead:
        return _freed(session, claim, Status.FAILED, "a state push of before did not end; look at the state")
    code = journal.ended.get("code") if journal.ended is not None else None
    unsaved = bool(journal.ended and journal.ended.get("unsaved"))
    if code == 0 and not unsaved:
        return _freed(
            session,
            claim,
            Status.APPLIED,
            f"run {claim.run} went on after its Holdfast ended, and was applied",
        )
    if found.proved_dead and journal.started is None and journal.whole:
        return _freed(session, claim, Status.FAILED, f"run {claim.run} ended before Terraform was started")
    if failed_cleanly(journal):
        return _freed(
            session, claim, Status.FAILED, f"run {claim.run} went on after its Holdfast ended, and failed"
        )
    if code == NOT_STARTED:
        return _freed(session, claim, Status.FAILED, f"run {claim.run} could not start Terraform")
    return None


def _freed(session: Session, claim: Claim, status: Status, note: str) -> tuple[str, ...]:
    finish_claim(session, claim, status, note)
    return (note,)


def finish_claim(session: Session, claim: Claim, status: Status, note: str) -> None:
    """The end of a run that could not write its own."""
    intent = claim.intent
    inner = intent.get("intent")
    digest = inner.get("digest") if isinstance(inner, dict) else None
    session.store.runs.finish(
        claim.run,
        {
            "version": 1,
            "id": claim.run,
            "stack": claim.stack,
            "operation": operation_of(claim),
            "status": status.value,
            "started": intent.get("started"),
            "ended": clock.now().isoformat(),
            "who": intent.get("who"),
            "digest": digest,
            "notes": [note],
        },
    )
    session.store.claims.release(claim.stack, claim.run)


def failed_cleanly(journal: Journal) -> bool:
    """Terraform ended by itself with an error, saved its state and told what failed; no provider died."""
    if journal.ended is None or journal.ended.get("code") != 1 or journal.ended.get("unsaved"):
        return False
    heard = listen(journal.lines)
    return not heard.died and all(
        one.end is not End.OPEN for several in heard.operations.values() for one in several
    )
