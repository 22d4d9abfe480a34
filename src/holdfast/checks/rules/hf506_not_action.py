from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.iam.collect import policy_rule
from holdfast.checks.iam.document import Issue
from holdfast.checks.iam.policies import IamPolicy
from holdfast.checks.model.interface import Rule, Severity


def _judge(policy: IamPolicy) -> Iterator[Issue]:
    if policy.kind.bounds:
        return
    for statement in policy.statements:
        if not statement.allows:
            continue
        if statement.not_action is not None:
            yield Issue("every action except those listed is allowed (`NotAction`)", statement.not_action)
        if statement.not_resource is not None:
            yield Issue(
                "every resource except those listed is covered (`NotResource`)", statement.not_resource
            )


RULE = Rule(
    id="HF506",
    title="Allow with NotAction or NotResource",
    why="It allows actions and resources that no one has considered, including those that AWS will add.",
    fix="List what is allowed in `Action` and `Resource`; use `NotAction` and `NotResource` only with "
    "`Deny`.",
    severity=Severity.WARNING,
    **policy_rule(_judge, Severity.WARNING),
)
