"""Rules about findings of the checks: Rego policies that deny, and errors in code and plan.

A stack without changes is never refused: there is nothing to apply, and its findings are shown anyway.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.config.guard import Effect
from holdfast.guard.decision import Reason
from holdfast.guard.plan_context import RuleInput, StackFinding


def policies(given: RuleInput) -> Iterator[Reason]:
    if given.has_changes:
        for finding in given.context.findings:
            if finding.policy:
                by = (
                    f"policy {finding.rule}" if finding.rule.startswith("rego.") else "policies not evaluated"
                )
                yield _reason("HF-GUARD-18", finding, by, given.policy.policies)


def findings(given: RuleInput) -> Iterator[Reason]:
    """Only a reason if it stops the plan; findings are shown in any case."""
    if given.has_changes and given.policy.findings not in {Effect.ALLOW, Effect.WARN}:
        for finding in given.context.findings:
            if not finding.policy:
                yield _reason("HF-GUARD-19", finding, f"check {finding.rule}", given.policy.findings)


def _reason(code: str, finding: StackFinding, rule: str, effect: Effect) -> Reason:
    return Reason(
        code=code,
        message=f"{finding.where}: {finding.message}" if finding.where else finding.message,
        address=finding.address,
        rule=rule,
        effect=effect,
        finding=finding.id,
    )
