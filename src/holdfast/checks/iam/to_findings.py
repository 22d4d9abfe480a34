"""From what is said about documents to findings of a rule, in code and in variables files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from holdfast.checks.iam.collect import of_module, of_variables
from holdfast.checks.iam.issue import Said
from holdfast.checks.iam.policies import Policies, Policy
from holdfast.checks.model.interface import CheckFunction, CheckResult, Finding, Severity, finding
from holdfast.checks.model.subjects import Module, VariablesFile
from holdfast.kernel.errors import Place

Judge = Callable[[Policy], Iterable[Said]]
_MILDER = {Severity.ERROR: Severity.WARNING, Severity.WARNING: Severity.NOTE, Severity.NOTE: Severity.NOTE}


def in_code(judge: Judge, severity: Severity) -> CheckFunction[Module]:
    """Asks about every document of a module; `severity` is the rule's own."""

    def look(module: Module) -> Iterator[CheckResult]:
        yield from judged(of_module(module), judge, severity)

    return look


def in_variables(judge: Judge, severity: Severity) -> CheckFunction[VariablesFile]:
    """Asks about every document that a variables file holds, names or stands beside."""

    def look(variables: VariablesFile) -> Iterator[CheckResult]:
        yield from judged(of_variables(variables), judge, severity)

    return look


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
