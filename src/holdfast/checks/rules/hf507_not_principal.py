from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.iam.collect import policy_rule
from holdfast.checks.iam.document import Issue
from holdfast.checks.iam.policies import IamPolicy
from holdfast.checks.model.interface import Rule, Severity


def _judge(policy: IamPolicy) -> Iterator[Issue]:
    for statement in policy.statements:
        if statement.allows and statement.not_principal is not None:
            yield Issue("everyone except those listed is allowed (`NotPrincipal`)", statement.not_principal)


RULE = Rule(
    id="HF507",
    title="Allow with NotPrincipal",
    why="Everyone except the listed principals is allowed, including people without an AWS account.",
    fix="List who is allowed in `Principal`.",
    severity=Severity.ERROR,
    **policy_rule(_judge, Severity.ERROR),
)
