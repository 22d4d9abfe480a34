"""Stacks and results as values, for tests that run nothing."""

from __future__ import annotations

from holdfast.config.stack_rules import RuleKind
from holdfast.kernel.errors import Place, Problem
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.stacks.stack import Stack


def stack(name: str, *depends_on: str) -> Stack:
    return Stack(
        name=name,
        kind=RuleKind.NAMED,
        place=Place(file="holdfast.yaml", line=1),
        module=name,
        depends_on=depends_on,
    )


def result(of: Stack, status: Status, code: str | None = None) -> StackResult:
    error = Problem(code=code, message=f"{of.name} says {code}") if code else None
    return StackResult(
        stack=of, status=status, digest="d" * 64, error=error, problems=(error,) if error else ()
    )
