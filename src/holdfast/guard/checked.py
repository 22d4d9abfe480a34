"""Rules about what the checks found: policies in Rego that deny, and errors in code and plan.

A stack without changes is not refused: there is nothing to apply, and its findings are shown all the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.config.guard_valid import Effect
from holdfast.guard.decision import Reason
from holdfast.guard.situation import Case


def policies(case: Case) -> Iterator[Reason]:
    if not case.has_changes:
        return
    for one in case.situation.findings:
        if one.policy:
            yield Reason(
                code="HF-GUARD-18",
                message=one.message,
                address=one.address,
                rule=f"policy {one.rule}" if one.rule.startswith("rego.") else "policies without an answer",
                effect=case.policy.policies,
            )


def findings(case: Case) -> Iterator[Reason]:
    """That there are some is shown with them; a reason it is only where it holds something up."""
    effect = case.policy.findings
    if effect in {Effect.ALLOW, Effect.WARN} or not case.has_changes:
        return
    for one in case.situation.findings:
        if not one.policy:
            where = f"{one.where}: " if one.where else ""
            yield Reason(
                code="HF-GUARD-19",
                message=f"{where}{one.message}",
                address=one.address,
                rule=f"check {one.rule}",
                effect=effect,
            )
