"""The first step of a reconcile: a state that can be read, and holds all that Terraform knew."""

from __future__ import annotations

from holdfast.plans.context import ChangeContext
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import StackWorkdir
from holdfast.recovery.cleanup import Fate, fate_of_unsaved, past_the_lock
from holdfast.recovery.crash_report import require_plan_intent, state_before, state_now
from holdfast.runs.claims import Claim
from holdfast.states.operations import push_content
from holdfast.system import clock
from holdfast.terraform.statefile.model import State, read_state


async def state_back(context: ChangeContext, ready: StackWorkdir, claim: Claim) -> list[str]:
    """What Terraform could not save is saved; a local state that a kill emptied comes from its backup."""
    stack, store = ready.stack, context.store
    notes = []
    unsaved = store.errored(stack.name)
    if unsaved is not None:
        becomes = fate_of_unsaved(read_state(unsaved), read_state(await state_now(context, ready) or b""))
        if becomes is Fate.SAVED:
            await past_the_lock(
                Terraform(context, ready), claim, lambda: push_content(context, ready, unsaved, run=claim.run)
            )
        if becomes is not Fate.KEPT:
            store.resolve_errored(stack.name)
        notes.append(f"the state that could not be saved {becomes.value}")
    elif ready.home.file is not None and not isinstance(
        read_state(await state_now(context, ready) or b""), State
    ):
        intent = require_plan_intent(claim)
        before = state_before(context.store, claim, intent)
        if before is not None:
            await push_content(context, ready, before, run=claim.run)
            notes.append("the local state was empty or unreadable: its backup from before the run is back")
        elif ready.home.file.exists() and intent.serial == 0:
            # There was no state before: the run's own first write was cut off.
            ready.home.file.rename(
                ready.home.file.with_name(f"{ready.home.file.name}.damaged-{clock.new_id()}")
            )
            notes.append("the first state of this stack was cut off while it was written: it is set aside")
    return notes
