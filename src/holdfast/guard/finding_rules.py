"""Rules about what the checks found: policies in Rego that deny, and errors in code and plan.

A stack without changes is not refused: there is nothing to apply, and its findings are shown all the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.config.guard_valid import Effect
from holdfast.guard.decision import Reason
from holdfast.guard.plan_context import Case, Found


def named(found: Found) -> tuple[str, str]:
    """What stopped it and what would be wrong, as a reason says it of this finding."""
    message = f"{found.where}: {found.message}" if found.where else found.message
    if found.policy:
        own = found.rule.startswith("rego.")
        return (f"policy {found.rule}" if own else "policies without an answer"), message
    return f"check {found.rule}", message


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
    rule, message = named(found)
    return Reason(code=code, message=message, address=found.address, rule=rule, effect=effect)
