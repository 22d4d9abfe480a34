"""What is left of a run that ended without an answer, gathered from everywhere it can have left something."""

from __future__ import annotations

import json

from holdfast.kernel.errors import HoldfastError, UnknownOutcome
from holdfast.kernel.values import MaskedStruct
from holdfast.plans.context import Session
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import Prepared, prepared, state_at_hand
from holdfast.recovery.evidence import Evidence, compare
from holdfast.runs.claims import Signs, signs
from holdfast.runs.intent import Intent
from holdfast.stacks.stack import Stack
from holdfast.store.claims import Claim
from holdfast.store.journal import Journal
from holdfast.terraform.statefile.contents import Contents, read_contents
from holdfast.terraform.statefile.model import State, read_state


class Aftermath(MaskedStruct, frozen=True, kw_only=True):
    claim: Claim
    journal: Journal
    signs: Signs
    intent: Intent
    evidence: Evidence
    state: bytes | None
    """What is kept now. None: there is none, or nobody could look, as the evidence says."""
    before: bytes | None
    unsaved: bool
    """Terraform left a state that it could not save."""


def intent_of(claim: Claim) -> Intent:
    inner = claim.intent.get("intent")
    if inner is None:
        raise UnknownOutcome(
            "HF-REC-1",
            f"{claim.stack}: run {claim.run} did not write down what it meant to do",
            hint="Compare the state and the provider's side by hand.",
        )
    return Intent.from_bytes(json.dumps(inner).encode())


async def look(session: Session, stack: Stack, claim: Claim, journal: Journal) -> Aftermath:
    """Reads only. A state that cannot be reached is part of the answer."""
    try:
        async with prepared(session, stack, for_state=True) as ready:
            content = _newer(session.store.errored(stack.name), await state_now(session, ready))
            seen = read_contents(content)
    except HoldfastError as error:
        content = None
        seen = Contents(
            lineage=None, serial=None, unseen=f"the state cannot be read: {error.problem.message}"
        )
    return gather(session, claim, journal, content, seen)


def _newer(unsaved: bytes | None, saved: bytes | None) -> bytes | None:
    """What Terraform could not save is what it knew last; reconcile saves it before anything else."""
    if unsaved is None:
        return saved
    kept, there = read_state(unsaved), read_state(saved or b"")
    if not isinstance(kept, State):
        return saved
    older = isinstance(there, State) and (there.lineage != kept.lineage or there.serial >= kept.serial)
    return saved if older else unsaved


def gather(
    session: Session, claim: Claim, journal: Journal, content: bytes | None, seen: Contents | None = None
) -> Aftermath:
    intent = intent_of(claim)
    before = state_before(session, intent)
    seen = seen if seen is not None else read_contents(content)
    return Aftermath(
        claim=claim,
        journal=journal,
        signs=signs(session, claim, journal),
        intent=intent,
        evidence=compare(intent, journal.lines, seen, read_contents(before) if before is not None else None),
        state=content,
        before=before,
        unsaved=session.store.errored(claim.stack) is not None,
    )


async def state_now(session: Session, ready: Prepared) -> bytes | None:
    """None where there is no state, as whoever keeps it answers; empty where a file has not one byte."""
    if ready.home.managed or ready.home.file is not None:
        content = state_at_hand(session, ready)
        there = ready.home.file is not None and ready.home.file.exists()
        return content if content or there else None
    terraform = Terraform(session, ready)
    await terraform.init()
    return await terraform.state_pull() or None


def state_before(session: Session, intent: Intent) -> bytes | None:
    """The state that the plan was made for, as it was kept before anything was changed."""
    if intent.backup is not None:
        version = session.store.states.version(intent.stack, int(intent.backup))
        return version.state if version is not None else None
    backup = session.store.backups.read(intent.stack, intent.run)
    return backup.state if backup is not None else None
