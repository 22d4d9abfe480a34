from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.iam.collect import policy_rule
from holdfast.checks.iam.document import Issue
from holdfast.checks.iam.policies import IamPolicy
from holdfast.checks.iam.policy_types import PolicyKind
from holdfast.checks.model.interface import Rule, Severity


def _judge(policy: IamPolicy) -> Iterator[Issue]:
    if policy.kind.bounds or policy.kind is PolicyKind.TRUST:
        return  # such a policy only limits what others allow, or the grammar rejects it
    for statement in policy.statements:
        action = next((one for one in statement.actions.known if one.content in ("*", "*:*")), None)
        if not statement.allows or action is None:
            continue
        where = " on every resource" if statement.any_resource is not None else ""
        named = bool(statement.principals) or statement.not_principal is not None
        yield Issue(f"every action is allowed{where}", action, severe=not named)


RULE = Rule(
    id="HF504",
    title="Statement that allows every action",
    why="Its holder controls the account: it can create users, open buckets and turn off logging. One "
    "leaked key compromises everything.",
    fix="Allow only the actions that are needed, on the resources they are needed for.",
    severity=Severity.ERROR,
    **policy_rule(_judge, Severity.ERROR),
)
