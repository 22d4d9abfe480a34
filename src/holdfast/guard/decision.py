"""The guard's decision: a closed union with reasons. The most severe effect of a reason decides."""

from __future__ import annotations

from msgspec import Struct

from holdfast.config.guard import Effect, RequiredApprovals

NOT_UNDERSTOOD = "HF-GUARD-0"
OTHER_REPOSITORY = "HF-GUARD-23"


class Reason(Struct, frozen=True, kw_only=True):
    code: str
    message: str
    """What would happen to which resource, and why; without a full stop."""
    address: str | None = None
    rule: str = ""
    """The rule in a few words: `deletions in production`, `protected type aws_db_instance`."""
    effect: Effect = Effect.DENY
    finding: str = ""
    """The id of the check finding that the reason repeats, if any."""


class Allow(Struct, frozen=True, kw_only=True):
    reasons: tuple[Reason, ...] = ()
    """Warnings."""
    verified: bool = False
    approvers: tuple[RequiredApprovals, ...] = ()


class NeedApproval(Struct, frozen=True, kw_only=True):
    reasons: tuple[Reason, ...]
    approvals: int = 1
    verified: bool = False
    """Only approvals by verified identities count."""
    approvers: tuple[RequiredApprovals, ...] = ()
    """Of the approvals, those that people with a role or of a group must give. All must be met."""


class Deny(Struct, frozen=True, kw_only=True):
    reasons: tuple[Reason, ...]
    approvals: int = 0
    """How many approvals the plan still needs once the denial is overridden."""
    verified: bool = False
    approvers: tuple[RequiredApprovals, ...] = ()


Decision = Allow | NeedApproval | Deny
NAMES: dict[type[Decision], str] = {Allow: "allow", NeedApproval: "approval", Deny: "deny"}


def required_approvals(decision: NeedApproval | Deny) -> tuple[RequiredApprovals, ...]:
    """All of them must be met; one approval may count for several."""
    return (RequiredApprovals(count=decision.approvals, verified=decision.verified), *decision.approvers)
