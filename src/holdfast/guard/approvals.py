"""What is left of a decision once people have spoken about that one plan. Pure.

An override lifts a denial, approvals lift the need for an approval, a rejection is final. Each counts only
for the digest it was given for: the caller passes what was said about one digest.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, structs

from holdfast.config.guard import Effect
from holdfast.guard.decision import Allow, Decision, Deny, NeedApproval, Reason
from holdfast.guard.evaluate import decision_from_reasons, with_override

REJECTED = "HF-GUARD-17"


class Said(Struct, frozen=True, kw_only=True):
    """One word about a plan, as far as the guard must know it."""

    kind: str
    """approve, reject or override."""
    by: str
    """Whose word it is; two words of one person are one."""
    shown: str
    reason: str
    valid: bool
    """False when it has expired."""


def with_consent(decision: Decision, words: Iterable[Said]) -> Decision:
    """The decision that holds now."""
    said = tuple(words)
    rejection = next((one for one in said if one.kind == "reject"), None)
    if rejection is not None:
        message = f"rejected by {rejection.shown}: {rejection.reason}"
        reason = Reason(code=REJECTED, message=message, rule="rejection", effect=Effect.DENY)
        return Deny(reasons=(reason, *decision.reasons))
    if any(one.kind == "override" and one.valid for one in said):
        decision = with_override(decision)
    approvers = {one.by for one in said if one.kind == "approve" and one.valid}
    match decision:
        case NeedApproval(approvals=needed) if len(approvers) >= needed:
            return _approved(decision)
        case Allow() | NeedApproval() | Deny():
            return decision


def still_needed(decision: Decision, words: Iterable[Said]) -> int:
    """How many approvals are missing; 0 where none is needed, or more than approvals is in the way."""
    if not isinstance(decision, NeedApproval):
        return 0
    return max(0, decision.approvals - len({one.by for one in words if one.kind == "approve" and one.valid}))


def _approved(decision: NeedApproval) -> Decision:
    return decision_from_reasons(
        structs.replace(one, effect=Effect.WARN) if one.effect is Effect.APPROVE else one
        for one in decision.reasons
    )
