"""HF102: Terraform reads a resource that belongs to GitOps."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.boundary import ownership
from holdfast.checks.model.interface import CheckResult, Finding, Rule, Severity
from holdfast.checks.model.subjects import CheckedPlan, CheckedState, Module


def _words(type_: str) -> str:
    return f"Terraform reads or renders `{type_}`, which belongs to GitOps"


def _source(module: Module) -> Iterator[Finding]:
    return ownership.in_source(module, ownership.READING, _words)


def _plan(plan: CheckedPlan) -> Iterator[Finding]:
    return ownership.in_plan(plan, ownership.READING, _words)


def _state(state: CheckedState) -> Iterator[CheckResult]:
    return ownership.in_state(state, ownership.READING, _words)


RULE = Rule(
    id="HF102",
    title="Terraform reads a resource that belongs to GitOps",
    why="The plan needs a running cluster that GitOps has already synced. It fails before the first "
    "sync, and the values it reads are stored in the state.",
    fix="Read the value from an output of the stack that creates it, or let GitOps pass it on.",
    severity=Severity.WARNING,
    source=_source,
    plan=_plan,
    state=_state,
    bad='data "kubernetes_service" "gateway" {\n  metadata {\n    name = "gateway"\n  }\n}\n',
    good='data "aws_lb" "gateway" {\n  name = "gateway"\n}\n',
    more="`checks.boundary` says which types belong to GitOps and which stacks are exempt: "
    "[HF101](HF101.md).",
)
