"""A verified person's decision about one plan: to approve, reject or override it."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, NamedTuple

from holdfast.audit.actor import Actor
from holdfast.identity.principal import Principal
from holdfast.kernel.errors import Refused
from holdfast.server.exceptions import problem
from holdfast.server.problems import Denial
from holdfast.store.approval_rules import ServerRules
from holdfast.store.approvals import Approval, ApprovalKind, is_author
from holdfast.store.run_store import RunStore
from holdfast.system import clock

OVERRIDE_LIFETIME: Final = timedelta(hours=24)


class DecidedPlan(NamedTuple):
    digest: str
    stack: str
    run: str
    """That saved it."""


def require_decidable(
    store: RunStore, who: Actor, kind: ApprovalKind, plan: DecidedPlan, *, may_break_glass: bool
) -> None:
    """Raises if the run did not save this plan, or if its own author approves it or overrides its denial.

    `may_break_glass`: an admin, who may do the latter in an emergency.
    """
    digest, stack, run = plan
    author = store.approvals.author(digest)
    if author is None or not store.approvals.is_recorded(digest, stack=stack, run=run):
        raise Refused(
            "HF-APPR-2",
            f"{stack}: run {run} did not save this plan, so it cannot be approved",
            hint=f"Save one: holdfast plan {stack} --out DIR, then approve or reject that run.",
        )
    if kind is ApprovalKind.REJECTION or not is_author(author, who.document()):
        return
    if kind is ApprovalKind.OVERRIDE and may_break_glass:
        return
    overrides = kind is ApprovalKind.OVERRIDE
    what = "override its denial" if overrides else "approve it"
    emergency = (
        f" In an emergency, an admin can: holdfast runs override {run} --break-glass --reason TEXT"
        if overrides
        else ""
    )
    raise problem(
        Denial(
            status=403,
            code="HF-APPR-3",
            message=f"{stack}: {who.name} made this plan and cannot {what}",
            hint=f"Ask another person to {what}.{emergency}",
        )
    )


def expiry_of(kind: ApprovalKind, rules: ServerRules) -> str | None:
    """Of a decision that is made now. A rejection never expires."""
    match kind:
        case ApprovalKind.REJECTION:
            return None
        case ApprovalKind.OVERRIDE:
            return (clock.now() + OVERRIDE_LIFETIME).isoformat()
        case ApprovalKind.APPROVAL:
            return (clock.now() + timedelta(seconds=rules.approval_lifetime)).isoformat()


def add_decision(
    store: RunStore,
    principal: Principal,
    who: Actor,
    kind: ApprovalKind,
    plan: DecidedPlan,
    *,
    reason: str,
    until: str | None,
    break_glass: bool = False,
) -> None:
    """Durable when this returns."""
    store.approvals.add(
        Approval(
            kind=kind,
            **plan._asdict(),
            who=who.document(),
            reason=reason,
            at=clock.now().isoformat(),
            until=until,
            role=principal.role.value,
            groups=principal.groups,
            break_glass=break_glass,
        )
    )
