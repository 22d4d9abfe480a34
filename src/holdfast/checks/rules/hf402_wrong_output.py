"""HF402: output does not match the contract."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.boundary.contracts import SETTINGS, in_plan, in_source, in_state
from holdfast.checks.model.interface import CheckResult, Rule, Severity
from holdfast.checks.model.subjects import CheckedPlan, CheckedStack, CheckedState
from holdfast.contract.comparison import Kind


def _stack(stack: CheckedStack) -> Iterator[CheckResult]:
    return in_source(stack, Kind.WRONG)


def _plan(plan: CheckedPlan) -> Iterator[CheckResult]:
    return in_plan(plan, Kind.WRONG)


def _state(state: CheckedState) -> Iterator[CheckResult]:
    return in_state(state, Kind.WRONG)


RULE = Rule(
    id="HF402",
    title="Output does not match the contract",
    why="Consumers rely on the contract: an invalid address ends up in DNS and GitOps values and fails "
    "far from here.",
    fix="Give the output a value of the type that the contract requires.",
    severity=Severity.ERROR,
    stack=_stack,
    plan=_plan,
    state=_state,
    more=SETTINGS,
)
