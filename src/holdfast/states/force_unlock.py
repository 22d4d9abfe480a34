"""Release a lock whose holder is gone, by a person's word."""

from __future__ import annotations

from holdfast.kernel.errors import Refused
from holdfast.plans.context import Session
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import prepared
from holdfast.runs import audit_trail
from holdfast.runs.claims import alive, busy
from holdfast.stacks.stack import Stack


async def unlock(session: Session, stack: Stack, lock: str, *, reason: str) -> None:
    """Terraform compares the id where its backend can. A stack that a run of ours has is not touched."""
    claim = session.store.claims.of(stack.name)
    if claim is not None and alive(session, claim):
        raise busy(claim)
    if claim is not None:
        raise Refused(
            "HF-LOCK-6",
            f"{stack.name}: run {claim.run} ended without an answer, and its lock belongs to what it left",
            hint=f"holdfast runs reconcile {claim.run}",
        )
    async with prepared(session, stack, for_state=True) as ready:
        if ready.home.managed:
            raise Refused("HF-LOCK-6", f"{stack.name}: Holdfast keeps its state; there is no lock to release")
        terraform = Terraform(session, ready)
        await terraform.init()
        with audit_trail.act(session, stack.name, what="unlock", reason=reason, lock=lock):
            await terraform.force_unlock(lock)
