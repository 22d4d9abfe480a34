"""The first rule of the guard: what it does not understand, it denies."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.guard.decision import NOT_UNDERSTOOD, Allow, Decision, Deny, Reason
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.plan.model import Plan

_RULE = "what is not understood"


def understood(plan: Plan) -> Decision:
    reasons = tuple(not_understood(plan))
    return Deny(reasons=reasons) if reasons else Allow()


def not_understood(plan: Plan) -> Iterator[Reason]:
    for change in (*plan.changes, *(deferred.change for deferred in plan.deferred), *plan.drift):
        if not change.understood:
            why = f" because {change.reason}" if change.reason else ""
            yield Reason(
                code=NOT_UNDERSTOOD,
                address=change.address,
                message=f"{change.address}: Terraform means to {'/'.join(change.actions) or 'do nothing'}"
                f"{why}, which this version does not know",
                rule=_RULE,
            )
    for output in plan.outputs:
        if output.kind is ChangeKind.UNKNOWN:
            yield Reason(
                code=NOT_UNDERSTOOD,
                message=f"the output `{output.name}` changes in a way that this version does not know",
                rule=_RULE,
            )
