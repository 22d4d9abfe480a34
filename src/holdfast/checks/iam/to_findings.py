"""From what is said about documents to findings of a rule, in code and in variables files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from holdfast.checks.iam.collect import files_beside, of_module, of_variables
from holdfast.checks.iam.issue import Said
from holdfast.checks.iam.policies import Policies, Policy
from holdfast.checks.model.interface import CheckResult, Finding, Severity, finding
from holdfast.checks.model.subjects import Module, VariablesFile
from holdfast.kernel.errors import Place

Judge = Callable[[Policy], Iterable[Said]]
_MILDER = {Severity.ERROR: Severity.WARNING, Severity.WARNING: Severity.NOTE, Severity.NOTE: Severity.NOTE}


def for_policies(judge: Judge, severity: Severity) -> dict[str, Any]:
    """The functions of a `Rule` about policy documents in code and variables files; `severity` is its own."""

    def source(module: Module) -> Iterator[CheckResult]:
        return judged(of_module(module), judge, severity)

    def variables(file: VariablesFile) -> Iterator[CheckResult]:
        return judged(of_variables(file), judge, severity)

    return {"source": source, "variables": variables, "extra_files": files_beside}


def judged(policies: Policies, judge: Judge, severity: Severity) -> Iterator[Finding]:
    for policy in policies.found:
        for said in judge(policy):
            yield found(policy, said, severity)


def found(policy: Policy, said: Said, severity: Severity, stack: str | None = None) -> Finding:
    place = Place(file=policy.file, line=said.at.line or None, column=said.at.column or None)
    return finding(
        place,
        said.message,
        address=policy.address,
        hint=said.hint,
        severity=None if said.grave else _MILDER[severity],
        stack=stack,
    )
