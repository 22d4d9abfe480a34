"""HF401: contract output is missing."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.boundary.contracts import SETTINGS, in_plan, in_source, in_state
from holdfast.checks.model.interface import CheckResult, Rule, Severity
from holdfast.checks.model.subjects import CheckedPlan, CheckedStack, CheckedState
from holdfast.contract.comparison import Kind


def _stack(stack: CheckedStack) -> Iterator[CheckResult]:
    return in_source(stack, Kind.MISSING)


def _plan(plan: CheckedPlan) -> Iterator[CheckResult]:
    return in_plan(plan, Kind.MISSING)


def _state(state: CheckedState) -> Iterator[CheckResult]:
    return in_state(state, Kind.MISSING)


RULE = Rule(
    id="HF401",
    title="Contract output is missing",
    why="Facts, gates and GitOps values are built from these outputs: without one, the apply succeeds "
    "and the platform still does not work.",
    fix="Add it to the outputs of the root module.",
    severity=Severity.ERROR,
    stack=_stack,
    plan=_plan,
    state=_state,
    more=SETTINGS,
)
