"""HF508: a policy that lets everyone in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.checks.iam.collect import files_beside
from holdfast.checks.iam.condition_scope import narrow
from holdfast.checks.iam.issue import Said
from holdfast.checks.iam.policies import Policy
from holdfast.checks.iam.statements import Comparison, Statement, covers, is_one_of
from holdfast.checks.iam.to_findings import in_code, in_variables
from holdfast.checks.model.interface import Rule, Severity

NARROWING: Final = (
    *("aws:principalorgid", "aws:principalorgpaths", "aws:principalarn", "aws:principalaccount"),
    *("aws:principaltag/*", "aws:principalservicename", "aws:userid", "aws:username"),
    *("aws:sourcearn", "aws:sourceaccount", "aws:sourceowner", "aws:sourceorgid", "aws:sourceorgpaths"),
    *("aws:sourceip", "aws:vpcsourceip", "aws:sourcevpc", "aws:sourcevpcarn", "aws:sourcevpce"),
    *("aws:vpceaccount", "aws:vpceorgid", "aws:vpceorgpaths"),
    *("kms:calleraccount", "s3:dataaccesspointaccount", "s3:dataaccesspointarn", "ec2:sourceinstancearn"),
    *("saml:*", "cognito-identity.amazonaws.com:*", "elasticfilesystem:accessedviamounttarget"),
)
"""Keys that say who asks, or from where."""


_OF_SERVICES: Final = ("aws:principalisawsservice", "aws:viaawsservice")
_EVERYONE: Final = ("", "AWS", "CanonicalUser", "Service")


def _judge(policy: Policy) -> Iterator[Said]:
    if policy.kind.bounds or policy.kind.names_principals is False:
        return
    for statement in policy.statements:
        if not statement.allows or statement.conditions.narrowed(*NARROWING):
            continue
        if any(_shuts_out(other, statement) for other in policy.statements):
            continue
        for who in statement.principals:
            if who.name == "*" and who.type in _EVERYONE:
                yield Said(f"{policy.kind} lets everyone in, and no condition says who", who.at)


def _shuts_out(other: Statement, allowed: Statement) -> bool:
    """Whether a denial takes back what is allowed, but for those whom its conditions except."""
    denies = not other.allows and other.sure and other.node.fields.get("Effect") is not None
    if not (denies and other.by_everyone and other.conditions.tests) or other.conditions.unsure:
        return False
    tests = [test for test in other.conditions.tests if test.key not in _OF_SERVICES]
    return bool(tests) and all(map(_excepts, tests)) and _covers(other, allowed)


def _excepts(test: Comparison) -> bool:
    """Whether it holds for all but those who say who they are, or where they come from."""
    whom = test.negative and ":" not in test.operator and is_one_of(test.key, NARROWING)
    return whom and narrow(test.key, test.bare.replace("Not", ""), test.values.words)


def _covers(other: Statement, allowed: Statement) -> bool:
    actions, resources = allowed.actions, allowed.resources
    if actions.unsure or not all(map(other.acts, actions.words)) or allowed.not_action is not None:
        return False
    if other.on_everything is not None:
        return True
    patterns = [str(item.content) for item in other.resources.all]
    return all(any(covers(pattern, str(item.content)) for pattern in patterns) for item in resources.all)


RULE = Rule(
    id="HF508",
    title="A policy that lets everyone in",
    why="`*` is every account of AWS and everyone without one. Buckets, queues and keys that were opened "
    "this way are found by strangers within hours.",
    fix="Name the accounts or roles, or add a condition on `aws:PrincipalOrgID`, `aws:SourceArn` or "
    "`aws:SourceVpce`.",
    severity=Severity.ERROR,
    source=in_code(_judge, Severity.ERROR),
    variables=in_variables(_judge, Severity.ERROR),
    beside=files_beside,
    bad="""\
resource "aws_s3_bucket_policy" "reports" {
  bucket = "acme-reports"
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = "*"
      Action    = "s3:GetObject"
      Resource  = "arn:aws:s3:::acme-reports/*"
    }]
  })
}
""",
    good="""\
resource "aws_s3_bucket_policy" "reports" {
  bucket = "acme-reports"
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = "*"
      Action    = "s3:GetObject"
      Resource  = "arn:aws:s3:::acme-reports/*"
      Condition = { StringEquals = { "aws:PrincipalOrgID" = "o-a1b2c3d4e5" } }
    }]
  })
}
""",
    more="A condition counts if it says who asks or from where, must hold (not `…IfExists`, `ForAllValues:` "
    "or a `Not` operator) and does not match everything: not `arn:aws:iam::*:role/*`, nor half of all "
    "addresses. A statement that denies the same to everyone but those named in such a condition counts "
    "too. A site that is meant for everyone: waive it, with the reason.\n",
)
