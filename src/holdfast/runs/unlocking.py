"""Release a lock whose holder is gone, by a person's word."""

from __future__ import annotations

from holdfast.kernel.errors import Refused
from holdfast.runs import noting
from holdfast.runs.claiming import alive, busy
from holdfast.runs.phases import Terraform
from holdfast.runs.prepare import prepared
from holdfast.runs.session import Session
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
        if ready.home.kept:
            raise Refused("HF-LOCK-6", f"{stack.name}: Holdfast keeps its state; there is no lock to release")
        terraform = Terraform(session, ready)
        await terraform.init()
        with noting.act(session, stack.name, what="unlock", reason=reason, lock=lock):
            await terraform.force_unlock(lock)
