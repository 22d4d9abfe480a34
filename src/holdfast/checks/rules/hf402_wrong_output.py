"""HF402: an output is not what the contract wants it to be."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.boundary.contracts import SETTINGS, in_plan, in_source, in_state
from holdfast.checks.model.interface import Answer, Rule, Severity
from holdfast.checks.model.subjects import CheckedPlan, CheckedStack, CheckedState
from holdfast.contract.comparison import Kind


def _stack(stack: CheckedStack) -> Iterator[Answer]:
    return in_source(stack, Kind.WRONG)


def _plan(plan: CheckedPlan) -> Iterator[Answer]:
    return in_plan(plan, Kind.WRONG)


def _state(state: CheckedState) -> Iterator[Answer]:
    return in_state(state, Kind.WRONG)


RULE = Rule(
    id="HF402",
    title="An output is not what the contract wants",
    why="What reads it takes it for what the contract says: an address that is none ends up in DNS and in "
    "values of GitOps, and is found out far from here.",
    fix="Give the output a value of the type that the contract names.",
    severity=Severity.ERROR,
    stack=_stack,
    plan=_plan,
    state=_state,
    more=SETTINGS,
)
