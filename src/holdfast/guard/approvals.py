"""What remains of a decision after the approvals, rejections and overrides of that plan. Pure.

An override lifts a denial, approvals satisfy the need for an approval, a rejection is final. The caller
passes what was decided about one digest.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from holdfast.config.guard import Effect
from holdfast.guard.decision import Allow, Decision, Deny, NeedApproval, Reason
from holdfast.guard.evaluate import decision_from_reasons, with_override
from holdfast.store.approvals import Approval, ApprovalKind

REJECTED = "HF-GUARD-17"


def with_approvals(decision: Decision, approvals: Iterable[Approval], *, now: str) -> Decision:
    given = tuple(approval for approval in approvals if approval.in_force(now))
    rejection = next((approval for approval in given if approval.kind is ApprovalKind.REJECTION), None)
    if rejection is not None:
        message = f"rejected by {rejection.shown}: {rejection.reason}"
        reason = Reason(code=REJECTED, message=message, rule="rejection", effect=Effect.DENY)
        return Deny(reasons=(reason, *decision.reasons))
    if any(approval.kind is ApprovalKind.OVERRIDE for approval in given):
        decision = with_override(decision)
    match decision:
        case NeedApproval(approvals=needed) if len(_approvers(given, now)) >= needed:
            return _approved(decision)
        case Allow() | NeedApproval() | Deny():
            return decision


def missing_approvals(decision: Decision, approvals: Iterable[Approval], *, now: str) -> int:
    """0 if none is needed, or if more than approvals is missing."""
    if not isinstance(decision, NeedApproval):
        return 0
    return max(0, decision.approvals - len(_approvers(approvals, now)))


def _approvers(approvals: Iterable[Approval], now: str) -> set[str]:
    approved = (approval for approval in approvals if approval.kind is ApprovalKind.APPROVAL)
    return {approval.by for approval in approved if approval.in_force(now)}


def _approved(decision: NeedApproval) -> Decision:
    return decision_from_reasons(
        structs.replace(reason, effect=Effect.WARN) if reason.effect is Effect.APPROVE else reason
        for reason in decision.reasons
    )
