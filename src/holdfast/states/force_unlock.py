"""Release a lock whose holder is gone, by a person's word."""

from __future__ import annotations

from holdfast.kernel.errors import Refused
from holdfast.plans.context import ChangeContext
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import open_workdir
from holdfast.runs import audit_trail
from holdfast.runs.claims import claim_on, is_working, stack_busy
from holdfast.stacks.stack import Stack


async def unlock(context: ChangeContext, stack: Stack, lock: str, *, reason: str) -> None:
    """Terraform compares the id where its backend can. A stack that a run of ours has is not touched."""
    claim = claim_on(context.store, stack.name)
    if claim is not None and is_working(context.store, claim):
        raise stack_busy(claim)
    if claim is not None:
        raise Refused(
            "HF-LOCK-6",
            f"{stack.name}: run {claim.run} was interrupted; reconcile it instead of removing its lock",
            hint=f"holdfast runs reconcile {claim.run}",
        )
    async with open_workdir(context, stack, for_state=True) as ready:
        if ready.home.managed:
            raise Refused(
                "HF-LOCK-6", f"{stack.name}: its state is managed by Holdfast; there is no lock to release"
            )
        terraform = Terraform(context, ready)
        await terraform.init()
        with audit_trail.audited(
            context.identity, context.control.tell, stack.name, what="unlock", reason=reason, lock=lock
        ):
            await terraform.force_unlock(lock)
