"""What is left of a run that ended without an answer, gathered from everywhere it can have left something."""

from __future__ import annotations

from holdfast.kernel.errors import HoldfastError, UnknownOutcome
from holdfast.kernel.values import MaskedStruct
from holdfast.plans.context import ChangeContext
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import StackWorkdir, open_workdir, state_at_hand
from holdfast.recovery.evidence import Evidence, compare
from holdfast.runs.claims import Claim, HolderLiveness, holder_liveness
from holdfast.runs.intent import PlanIntent
from holdfast.stacks.stack import Stack
from holdfast.store.journal import Journal
from holdfast.store.run_store import RunStore
from holdfast.terraform.statefile.contents import Contents, read_contents
from holdfast.terraform.statefile.model import State, read_state


class Aftermath(MaskedStruct, frozen=True, kw_only=True):
    claim: Claim
    journal: Journal
    holder: HolderLiveness
    intent: PlanIntent
    evidence: Evidence
    state: bytes | None
    """What is kept now. None: there is none, or nobody could look, as the evidence says."""
    before: bytes | None
    unsaved: bool
    """Terraform left a state that it could not save."""


def require_plan_intent(claim: Claim) -> PlanIntent:
    if claim.intent.plan is None:
        raise UnknownOutcome(
            "HF-REC-1",
            f"{claim.stack}: run {claim.run} did not record what it was about to do",
            hint="Compare the state and the provider's side by hand.",
        )
    return claim.intent.plan


async def look(context: ChangeContext, stack: Stack, claim: Claim, journal: Journal) -> Aftermath:
    """Reads only. A state that cannot be reached is part of the answer."""
    try:
        async with open_workdir(context, stack, for_state=True) as ready:
            content = _newer(context.store.errored(stack.name), await state_now(context, ready))
            seen = read_contents(content)
    except HoldfastError as error:
        content = None
        seen = Contents(
            lineage=None, serial=None, unseen=f"the state cannot be read: {error.problem.message}"
        )
    return gather(context.store, claim, journal, content, seen)


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
    store: RunStore,
    claim: Claim,
    journal: Journal,
    content: bytes | None,
    seen: Contents | None = None,
) -> Aftermath:
    intent = require_plan_intent(claim)
    before = state_before(store, claim, intent)
    seen = seen if seen is not None else read_contents(content)
    return Aftermath(
        claim=claim,
        journal=journal,
        holder=holder_liveness(store, claim, journal),
        intent=intent,
        evidence=compare(intent, journal.lines, seen, read_contents(before) if before is not None else None),
        state=content,
        before=before,
        unsaved=store.errored(claim.stack) is not None,
    )


async def state_now(context: ChangeContext, ready: StackWorkdir) -> bytes | None:
    """None where there is no state, as whoever keeps it answers; empty where a file has not one byte."""
    if ready.home.managed or ready.home.file is not None:
        content = state_at_hand(context.store, ready)
        there = ready.home.file is not None and ready.home.file.exists()
        return content if content or there else None
    terraform = Terraform(context, ready)
    await terraform.init()
    return await terraform.state_pull() or None


def state_before(store: RunStore, claim: Claim, intent: PlanIntent) -> bytes | None:
    """The state that the plan was made for, as it was kept before anything was changed."""
    if intent.backup is not None:
        version = store.states.version(claim.stack, int(intent.backup))
        return version.state if version is not None else None
    backup = store.backups.read(claim.stack, claim.run)
    return backup.state if backup is not None else None
