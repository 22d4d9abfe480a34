"""HF509: a service is let in whoever sent it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.checks.iam.found import Policy, files_beside
from holdfast.checks.iam.judging import in_code, in_variables
from holdfast.checks.iam.kinds import Kind
from holdfast.checks.iam.said import Said
from holdfast.checks.interface import Rule, Severity

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
"""Services that say for whom they take on a role: with others, such a condition would never hold."""


def _judge(policy: Policy) -> Iterator[Said]:
    kind = policy.kind
    if kind not in (Kind.TRUST, Kind.KEY, Kind.BUCKET, Kind.RESOURCE):
        return
    guards = (*_SENDER, *_SENDER_OF_KEYS) if kind is Kind.KEY else _SENDER
    for statement in policy.statements:
        if not statement.allows or statement.conditions.narrowed(*guards):
            continue
        for who in statement.principals:
            sent = kind is not Kind.TRUST or who.name.partition(".")[0] in _SENT
            if who.type == "Service" and sent:
                yield Said(f"`{who.name}` is let in whoever sent it", who.at, grave=kind is not Kind.TRUST)


RULE = Rule(
    id="HF509",
    title="A service is let in whoever sent it",
    why="The service works for every customer of AWS. Without a condition, another customer can have it "
    "write into this bucket, send into this queue or use this key: it is a confused deputy.",
    fix="Add a condition on `aws:SourceArn` or `aws:SourceAccount`.",
    severity=Severity.WARNING,
    source=in_code(_judge, Severity.WARNING),
    variables=in_variables(_judge, Severity.WARNING),
    beside=files_beside,
    bad="""\
resource "aws_sns_topic_policy" "alarms" {
  arn = "arn:aws:sns:eu-west-1:111122223333:alarms"
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "cloudwatch.amazonaws.com" }
      Action    = "sns:Publish"
      Resource  = "*"
    }]
  })
}
""",
    good="""\
resource "aws_sns_topic_policy" "alarms" {
  arn = "arn:aws:sns:eu-west-1:111122223333:alarms"
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "cloudwatch.amazonaws.com" }
      Action    = "sns:Publish"
      Resource  = "*"
      Condition = { StringEquals = { "aws:SourceAccount" = "111122223333" } }
    }]
  })
}
""",
    more="In trust policies it is a note, and only for services that say for whom they come: a role is "
    "handed to a service with `iam:PassRole`, which asks for rights in the same account. In key "
    "policies conditions on `kms:ViaService`, `kms:CallerAccount` and the encryption context count too.\n",
)
