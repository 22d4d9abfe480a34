"""An unknown outcome in words: what is known, what is not, and the one command that goes on."""

from __future__ import annotations

from holdfast.kernel.errors import UnknownOutcome
from holdfast.runs.session import Session
from holdfast.stacks.stack import Stack
from holdfast.store.claims import Claim
from holdfast.store.journal import Journal


async def unknown_run(session: Session, stack: Stack, claim: Claim, journal: Journal) -> UnknownOutcome:
    return UnknownOutcome(
        "HF-RUN-8",
        f"the last {claim.intent.get('operation')} of {stack.name} ended without an answer",
        hint=f"holdfast runs reconcile {claim.run}",
    )
