from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.checks.iam.collect import (
    findings_from_policies,
    policies_of_module,
    policies_of_variables,
    policy_files,
)
from holdfast.checks.iam.document import Issue
from holdfast.checks.iam.grammar import grammar_issues
from holdfast.checks.iam.policies import IamPolicy, Policies
from holdfast.checks.model.interface import CheckResult, Rule, Severity, finding, known_at_run_time_only
from holdfast.checks.model.subjects import Module, VariablesFile
from holdfast.kernel.errors import Place


def _judge(policy: IamPolicy) -> Iterable[Issue]:
    return grammar_issues(policy.document, policy.kind, policy.text)


def _all(policies: Policies) -> Iterator[CheckResult]:
    yield from findings_from_policies(policies, _judge, Severity.ERROR)
    for wrong in policies.malformed:
        place = Place(file=wrong.file, line=wrong.error.line or None, column=wrong.error.column or None)
        yield finding(place, f"this policy is not valid JSON: {wrong.error.message}", address=wrong.address)
    whole = frozenset(policies.unresolved)
    parts = [place for place in policies.partial if place not in whole]
    yield from known_at_run_time_only("the policy", policies.unresolved, "; no HF5 rule checks it")
    yield from known_at_run_time_only("part of the policy", parts, "; no HF5 rule checks the rest")


def _in_code(module: Module) -> Iterator[CheckResult]:
    yield from _all(policies_of_module(module))


def _in_variables(variables: VariablesFile) -> Iterator[CheckResult]:
    yield from _all(policies_of_variables(variables))


RULE = Rule(
    id="HF501",
    title="Policy document that AWS would reject",
    why="AWS only rejects it in the middle of an apply, when half of the change is made. A duplicate "
    "key is worse: the first value is silently lost.",
    fix="Follow the grammar of this kind of policy.",
    severity=Severity.ERROR,
    source=_in_code,
    variables=_in_variables,
    extra_files=policy_files,
)
