"""The first rule of the guard: what it does not understand, it denies."""

from __future__ import annotations

from holdfast.guard.decision import Allow, Decision, Deny, Reason
from holdfast.terraform.plan import Plan

POLICY_VERSION = "1"
"""Part of every plan's digest: a plan judged by another policy is another plan."""


def understood(plan: Plan) -> Decision:
    reasons = tuple(
        Reason(
            code="HF-GUARD-0",
            address=change.address,
            message=(
                f"{change.address}: Terraform means to {'/'.join(change.actions) or 'do nothing'}"
                f"{f' because {change.reason}' if change.reason else ''}, which this version does not know"
            ),
        )
        for change in (*plan.changes, *(deferred.change for deferred in plan.deferred))
        if not change.understood
    )
    if not reasons and not plan.understood:
        reasons = (Reason(code="HF-GUARD-0", message="the plan has outputs that change in an unknown way"),)
    return Deny(reasons=reasons) if reasons else Allow()
