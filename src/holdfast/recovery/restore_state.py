"""The first step of a reconcile: a readable state with everything that Terraform knew."""

from __future__ import annotations

from holdfast.plans.context import ChangeContext
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import StackWorkdir
from holdfast.recovery.cleanup import UnsavedStateOutcome, retry_past_stale_lock, unsaved_state_outcome
from holdfast.recovery.crash_report import require_plan_intent, state_before, state_now
from holdfast.runs.claims import Claim
from holdfast.states.operations import push_content
from holdfast.system import clock
from holdfast.terraform.statefile.model import State, read_state


async def restore_state(context: ChangeContext, ready: StackWorkdir, claim: Claim) -> list[str]:
    """Save an unsaved state; restore a local state that a kill emptied from its backup."""
    stack, store = ready.stack, context.store
    notes = []
    unsaved = store.errored(stack.name)
    if unsaved is not None:
        outcome = unsaved_state_outcome(
            read_state(unsaved), read_state(await state_now(context, ready) or b"")
        )
        if outcome is UnsavedStateOutcome.SAVED:
            await retry_past_stale_lock(
                Terraform(context, ready), claim, lambda: push_content(context, ready, unsaved, run=claim.run)
            )
        if outcome is not UnsavedStateOutcome.KEPT:
            store.resolve_errored(stack.name)
        notes.append(f"the unsaved state {outcome.value}")
    elif ready.home.file is not None and not isinstance(
        read_state(await state_now(context, ready) or b""), State
    ):
        intent = require_plan_intent(claim)
        before = state_before(context.store, claim, intent)
        if before is not None:
            await push_content(context, ready, before, run=claim.run)
            notes.append("the local state was empty or unreadable: restored its backup from before the run")
        elif ready.home.file.exists() and intent.serial == 0:
            # There was no state before: the first write of this run was interrupted.
            ready.home.file.rename(
                ready.home.file.with_name(f"{ready.home.file.name}.damaged-{clock.new_id()}")
            )
            notes.append("the first state of this stack was incomplete and was set aside")
    return notes
