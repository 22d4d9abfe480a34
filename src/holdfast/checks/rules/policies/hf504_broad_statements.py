from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.iam.collect import policy_rule
from holdfast.checks.iam.document import Issue
from holdfast.checks.iam.policies import IamPolicy
from holdfast.checks.iam.policy_types import PolicyKind
from holdfast.checks.model.interface import Rule, Severity


def _check_actions(policy: IamPolicy) -> Iterator[Issue]:
    if policy.kind.bounds or policy.kind is PolicyKind.TRUST:
        return  # such a policy only limits what others allow, or the grammar rejects it
    for statement in policy.allowing:
        action = next((item for item in statement.actions.known if item.content in ("*", "*:*")), None)
        if action is None:
            continue
        where = " on every resource" if statement.any_resource is not None else ""
        named = bool(statement.principals) or statement.not_principal is not None
        is_note = named or policy.is_administrative
        yield Issue(f"every action is allowed{where}", action, is_note=is_note)


HF504 = Rule(
    id="HF504",
    title="Statement that allows every action",
    fix="Allow only the actions that are needed, on the resources they are needed for.",
    **policy_rule(_check_actions, Severity.WARNING),
)


def _check_exclusions(policy: IamPolicy) -> Iterator[Issue]:
    if policy.kind.bounds:
        return
    for statement in policy.allowing:
        if statement.not_action is not None:
            yield Issue("every action except those listed is allowed (`NotAction`)", statement.not_action)
        if statement.not_resource is not None:
            yield Issue(
                "every resource except those listed is covered (`NotResource`)", statement.not_resource
            )


HF506 = Rule(
    id="HF506",
    title="Allow with NotAction or NotResource",
    fix="List what is allowed in `Action` and `Resource`; use `NotAction` and `NotResource` only with "
    "`Deny`.",
    **policy_rule(_check_exclusions, Severity.WARNING),
)


def _check_principals(policy: IamPolicy) -> Iterator[Issue]:
    for statement in policy.allowing:
        if statement.not_principal is not None:
            yield Issue("everyone except those listed is allowed (`NotPrincipal`)", statement.not_principal)


HF507 = Rule(
    id="HF507",
    title="Allow with NotPrincipal",
    fix="List who is allowed in `Principal`.",
    **policy_rule(_check_principals, Severity.ERROR),
)
