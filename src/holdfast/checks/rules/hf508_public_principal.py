"""HF508: a policy that lets everyone in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.checks.iam.found import Policy, files_beside
from holdfast.checks.iam.judging import in_code, in_variables
from holdfast.checks.iam.kinds import Kind
from holdfast.checks.iam.said import Said
from holdfast.checks.interface import Rule, Severity

NARROWING: Final = (
    *("aws:principalorgid", "aws:principalorgpaths", "aws:principalarn", "aws:principalaccount"),
    *("aws:principaltag/*", "aws:principalservicename", "aws:userid", "aws:username"),
    *("aws:sourcearn", "aws:sourceaccount", "aws:sourceowner", "aws:sourceorgid", "aws:sourceorgpaths"),
    *("aws:sourceip", "aws:vpcsourceip", "aws:sourcevpc", "aws:sourcevpcarn", "aws:sourcevpce"),
    *("aws:vpceaccount", "aws:vpceorgid", "aws:vpceorgpaths"),
    *("kms:calleraccount", "s3:dataaccesspointaccount", "s3:dataaccesspointarn", "ec2:sourceinstancearn"),
    *("saml:*", "cognito-identity.amazonaws.com:*"),
)
"""Keys that say who asks, or from where."""


def _judge(policy: Policy) -> Iterator[Said]:
    if policy.kind is Kind.ENDPOINT or policy.kind.names_principals is False:
        return
    for statement in policy.statements:
        if not statement.allows or statement.conditions.narrowed(*NARROWING):
            continue
        for who in statement.principals:
            if who.name == "*" and who.type in ("", "AWS"):
                yield Said(f"{policy.kind} lets everyone in, and no condition says who", who.at)


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
    "or a `Not` operator) and does not match everything. A site that is meant for everyone: waive it, "
    "with the reason.\n",
)
