from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.checks.iam.collect import policy_rule
from holdfast.checks.iam.document import HOLE, Issue, display_text
from holdfast.checks.iam.policies import IamPolicy
from holdfast.checks.iam.policy_types import PolicyKind
from holdfast.checks.iam.statements import PrincipalName, Statement
from holdfast.checks.model.interface import Rule, Severity
from holdfast.kernel.patterns import pattern

_SENDER: Final = (
    *("aws:sourcearn", "aws:sourceaccount", "aws:sourceowner", "aws:sourceorgid", "aws:sourceorgpaths"),
)
_SENDER_OF_KEYS: Final = (
    *("kms:viaservice", "kms:calleraccount", "kms:encryptioncontext:*", "kms:grantisforawsresource"),
)
_SENT: Final = (
    *("bedrock", "bedrock-agentcore", "cloudtrail", "codebuild", "datasync", "ecs-tasks", "iot", "osis"),
    *("elasticmapreduce", "pipes", "sagemaker", "scheduler", "ses", "states", "transfer", "vpc-flow-logs"),
)
"""Services that set these keys when they assume a role; with others the condition is never true."""


_LOGS_OF_BALANCERS: Final = "logdelivery.elasticloadbalancing."
_OF_ONE_ACCOUNT = pattern(rf".*/AWSLogs/(?:[0-9]{{12}}|{HOLE}.*?)/.*")


def _check(policy: IamPolicy) -> Iterator[Issue]:
    if policy.kind.bounds or policy.kind.names_principals is False:
        return
    for statement in policy.allowing:
        kind = _kind(policy.kind, statement)
        guards = (*_SENDER, *_SENDER_OF_KEYS) if kind is PolicyKind.KEY else _SENDER
        if not statement.conditions.restricts(*guards):
            yield from _services(statement, kind)


def _kind(kind: PolicyKind, statement: Statement) -> PolicyKind:
    """If the kind of a policy is unclear, each statement determines its own."""
    if kind is not PolicyKind.UNCLEAR:
        return kind
    words = statement.actions.words
    return (
        PolicyKind.TRUST
        if words and all(word.lower().startswith("sts:") for word in words)
        else PolicyKind.RESOURCE
    )


def _services(statement: Statement, kind: PolicyKind) -> Iterator[Issue]:
    for principal in statement.principals:
        if principal.type != "Service" or principal.name in ("*", HOLE):
            continue
        sent = kind is not PolicyKind.TRUST or principal.name.partition(".")[0] in _SENT
        if sent and not _writes_own_logs(principal, statement):
            yield Issue(
                f"`{display_text(principal.name)}` is allowed for every account",
                principal.at,
                severe=kind is not PolicyKind.TRUST,
            )


def _writes_own_logs(principal: PrincipalName, statement: Statement) -> bool:
    """Load balancers only write logs below their own account id."""
    places = statement.resources.all
    return principal.name.startswith(_LOGS_OF_BALANCERS) and all(
        _OF_ONE_ACCOUNT.fullmatch(str(place.content)) for place in places
    )


RULE = Rule(
    id="HF509",
    title="Service allowed for any account (confused deputy)",
    fix="Add a condition on `aws:SourceArn` or `aws:SourceAccount`.",
    **policy_rule(_check, Severity.NOTE),
)
