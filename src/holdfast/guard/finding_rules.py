"""Rules about what the checks found: policies in Rego that deny, and errors in code and plan.

A stack without changes is not refused: there is nothing to apply, and its findings are shown all the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.config.guard import Effect
from holdfast.guard.decision import Reason
from holdfast.guard.plan_context import Case, Found


def policies(case: Case) -> Iterator[Reason]:
    if case.has_changes:
        for one in case.situation.findings:
            if one.policy:
                yield _reason("HF-GUARD-18", one, case.policy.policies)


def findings(case: Case) -> Iterator[Reason]:
    """That there are some is shown with them; a reason it is only where it holds something up."""
    if case.has_changes and case.policy.findings not in {Effect.ALLOW, Effect.WARN}:
        for one in case.situation.findings:
            if not one.policy:
                yield _reason("HF-GUARD-19", one, case.policy.findings)


def _reason(code: str, found: Found, effect: Effect) -> Reason:
    if not found.policy:
        rule = f"check {found.rule}"
    else:
        rule = f"policy {found.rule}" if found.rule.startswith("rego.") else "policies without an answer"
    return Reason(
        code=code,
        message=f"{found.where}: {found.message}" if found.where else found.message,
        address=found.address,
        rule=rule,
        effect=effect,
        finding=found.id,
    )
