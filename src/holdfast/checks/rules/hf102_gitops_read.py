"""HF102: Terraform reads an object that belongs to GitOps."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.boundary import ownership
from holdfast.checks.model.interface import Answer, Finding, Rule, Severity
from holdfast.checks.model.subjects import CheckedPlan, CheckedState, Module


def _words(type_: str) -> str:
    return f"`{type_}` is read or rendered here, and belongs to GitOps"


def _source(module: Module) -> Iterator[Finding]:
    return ownership.in_source(module, ownership.READING, _words)


def _plan(plan: CheckedPlan) -> Iterator[Finding]:
    return ownership.in_plan(plan, ownership.READING, _words)


def _state(state: CheckedState) -> Iterator[Answer]:
    return ownership.in_state(state, ownership.READING, _words)


RULE = Rule(
    id="HF102",
    title="Terraform reads what belongs to GitOps",
    why="The plan then needs a running cluster, with what GitOps made in it: it fails before the first sync, "
    "and what it read stands in the state.",
    fix="Take the value from the output of the stack that makes it, or let GitOps hand it on.",
    severity=Severity.WARNING,
    source=_source,
    plan=_plan,
    state=_state,
    bad='data "kubernetes_service" "gateway" {\n  metadata {\n    name = "gateway"\n  }\n}\n',
    good='data "aws_lb" "gateway" {\n  name = "gateway"\n}\n',
    more="Which types are GitOps' own, and which stacks are exempt, is said in `checks.boundary`: "
    "[HF101](HF101.md).",
)
