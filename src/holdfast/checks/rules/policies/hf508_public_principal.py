from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from holdfast.checks.iam.collect import policy_rule
from holdfast.checks.iam.conditions import is_narrow
from holdfast.checks.iam.document import HOLE, Issue
from holdfast.checks.iam.policies import IamPolicy
from holdfast.checks.iam.statements import ConditionTest, Statement, covers, is_one_of
from holdfast.checks.model.interface import Rule, Severity
from holdfast.kernel.patterns import pattern

NARROWING: Final = (
    *("aws:principalorgid", "aws:principalorgpaths", "aws:principalarn", "aws:principalaccount"),
    *("aws:principaltag/*", "aws:principalservicename", "aws:userid", "aws:username"),
    *("aws:sourcearn", "aws:sourceaccount", "aws:sourceowner", "aws:sourceorgid", "aws:sourceorgpaths"),
    *("aws:sourceip", "aws:vpcsourceip", "aws:sourcevpc", "aws:sourcevpcarn", "aws:sourcevpce"),
    *("aws:vpceaccount", "aws:vpceorgid", "aws:vpceorgpaths"),
    *("kms:calleraccount", "s3:dataaccesspointaccount", "s3:dataaccesspointarn", "ec2:sourceinstancearn"),
    *("saml:*", "cognito-identity.amazonaws.com:*", "elasticfilesystem:accessedviamounttarget"),
    *("sns:endpoint", "ses:recipients"),
)
"""Keys that identify the caller, the network, or who receives what is sent."""


_PUBLIC: Final = pattern(r"public|static|web|site|page|cdn|assets|download|mirror", re.IGNORECASE)
_READS: Final = ("s3:get", "s3:list")
_OF_SERVICES: Final = ("aws:principalisawsservice", "aws:viaawsservice")
_EVERYONE: Final = ("", "AWS", "CanonicalUser", "Service")


def _check(policy: IamPolicy) -> Iterator[Issue]:
    if policy.kind.bounds or policy.kind.names_principals is False:
        return
    for statement in policy.allowing:
        if statement.conditions.restricts(*NARROWING):
            continue
        if any(_is_revoked_by(other, statement) for other in policy.statements):
            continue
        for principal in statement.principals:
            if principal.name == "*" and principal.type in _EVERYONE:
                reads = _only_reads(statement)
                yield Issue(
                    f"this policy allows everyone{' to read' if reads else ''}, "
                    "and no condition restricts the caller",
                    principal.at,
                    severe=not reads and not _is_unclear(statement) and not _is_for_mounts(policy, statement),
                    is_note=(reads and _is_called_public(policy, statement))
                    or _all_actions(statement, "execute-api:", "es:", "opensearch:", "aoss:"),
                )


def _only_reads(statement: Statement) -> bool:
    """Whether it only allows reading a bucket, as for downloads and web sites."""
    return _all_actions(statement, *_READS)


def _all_actions(statement: Statement, *starts: str) -> bool:
    """Whether all its actions are known and start so.

    Requests to an API and OpenSearch are usually restricted by what the policy does not show: a
    network, users of its own.
    """
    words = statement.actions.words
    known = bool(words) and not statement.actions.unsure and statement.not_action is None
    return known and all(word.lower().startswith(starts) for word in words)


def _is_for_mounts(policy: IamPolicy, statement: Statement) -> bool:
    """Whether only those who reach a mount target in the network can use it."""
    on_efs = (policy.address or "").startswith("aws_efs_file_system_policy.")
    return on_efs or _all_actions(statement, "elasticfilesystem:")


def _is_unclear(statement: Statement) -> bool:
    """Whether the code does not show all actions, and those that it shows only read."""
    shown = (str(item.content).lower() for item in statement.actions.all)
    unsure = statement.actions.unsure and statement.not_action is None
    return unsure and all(action.startswith((*_READS, HOLE)) for action in shown)


def _is_called_public(policy: IamPolicy, statement: Statement) -> bool:
    """Whether its names say that this is intended."""
    sid = statement.node.fields.get("Sid")
    names = (policy.address, *policy.file.split("/")[-2:], sid.content if sid is not None else None)
    return any(_PUBLIC.search(str(name)) for name in names)


def _is_revoked_by(other: Statement, allowed: Statement) -> bool:
    """Whether a `Deny` revokes what is allowed, except for callers named in its conditions."""
    denies = not other.allows and other.sure and other.node.fields.get("Effect") is not None
    if not (denies and other.allows_everyone and other.conditions.tests) or other.conditions.unsure:
        return False
    tests = [test for test in other.conditions.tests if test.key not in _OF_SERVICES]
    return bool(tests) and all(map(_excepts, tests)) and _covers(other, allowed)


def _excepts(test: ConditionTest) -> bool:
    """Whether it is true for everyone except identified callers or networks."""
    excludes = test.negative and ":" not in test.operator and is_one_of(test.key, NARROWING)
    return excludes and is_narrow(test.key, test.base_operator.replace("Not", ""), test.values.words)


def _covers(other: Statement, allowed: Statement) -> bool:
    actions, resources = allowed.actions, allowed.resources
    if actions.unsure or not all(map(other.matching_action, actions.words)) or allowed.not_action is not None:
        return False
    if other.any_resource is not None:
        return True
    patterns = [str(item.content) for item in other.resources.all]
    return all(any(covers(pattern, str(item.content)) for pattern in patterns) for item in resources.all)


RULE = Rule(
    id="HF508",
    title="Policy that allows everyone",
    fix="List the accounts or roles, or add a condition on `aws:PrincipalOrgID`, `aws:SourceArn` or "
    "`aws:SourceVpce`.",
    **policy_rule(_check, Severity.ERROR),
)
