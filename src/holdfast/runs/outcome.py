"""Before a stack is touched: is the run before it over, and is its end known?

What the evidence proves is written down and the stack is free again. What nobody knows is said, and refused.
"""

from __future__ import annotations

import asyncio

from holdfast.plans.context import Session
from holdfast.plans.events import Note
from holdfast.plans.status import Status
from holdfast.runs.claims import alive, busy, journal_of, operation_of, signs
from holdfast.runs.proven_outcome import finish_claim, proof
from holdfast.stacks.stack import Stack
from holdfast.store.claims import Claim
from holdfast.store.journal import Journal
from holdfast.system import clock

_LOOK_AGAIN = 0.5
_NO_END = frozenset({Status.PLANNED.value, Status.UNKNOWN.value})
"""What can be recorded of a run whose apply was torn down in its middle: it is not the end of that."""
_ONLY_THE_RECORD = frozenset({"push", "rollback"})
"""These write a state in one step, and start nothing that makes an object."""


async def require_settled(session: Session, stack: Stack) -> tuple[str, ...]:
    """Notes on what was found and settled. Raises Busy or UnknownOutcome."""
    end = clock.monotonic() + session.wait
    while (claim := session.store.claims.of(stack.name)) is not None:
        journal = journal_of(session, claim)
        settled = settle(session, claim, journal)
        if settled is None and not alive(session, claim):
            # It is over by now, and may have said its last word while we looked.
            journal = journal_of(session, claim)
            settled = settle(session, claim, journal)
            if settled is None:
                # Loaded where it is needed: most runs end well.
                from holdfast.recovery.explain import unknown_run  # noqa: PLC0415

                raise await unknown_run(session, stack, claim, journal)
        if settled is not None:
            return settled
        if clock.monotonic() >= end or session.stop.level:
            raise busy(claim)
        await asyncio.sleep(_LOOK_AGAIN)
    return ()


def settle(session: Session, claim: Claim, journal: Journal) -> tuple[str, ...] | None:
    """What the record proves by itself is written down; None where it proves nothing."""
    outcome = session.store.runs.outcome(claim.run)
    if outcome is not None and outcome.get("status") not in _NO_END:
        # It died between its last word and letting go of the stack.
        session.store.claims.release(claim.stack, claim.run)
        return ()
    found = signs(session, claim, journal)
    end = None if found.alive else proved(claim, journal, dead=found.proved_dead)
    if end is None:
        return None
    if journal.started is None and not never_begun(session, claim):
        return None
    status, note = end
    finish_claim(session, claim, status, note)
    session.tell(Note(stack=claim.stack, text=note))
    return (note,)


def never_begun(session: Session, claim: Claim) -> bool:
    """From now on it cannot be: a process that was asked, and outlived the one who asked it, is too late."""
    return session.store.runs.prevent_start(claim.run) or journal_of(session, claim).started is None


def proved(claim: Claim, journal: Journal, *, dead: bool) -> tuple[Status, str] | None:
    """How a run ended whose Holdfast is gone, as far as its journal says so. Pure."""
    operation = operation_of(claim)
    if dead and operation in _ONLY_THE_RECORD:
        return Status.FAILED, f"a {operation} of before did not come to its end; look at the state"
    found = proof(journal, dead=dead)
    return (found.status, f"run {claim.run} {found.words}") if found is not None else None
