"""HF507: a statement that allows everyone but those it names."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.iam.collect import files_beside
from holdfast.checks.iam.issue import Said
from holdfast.checks.iam.policies import Policy
from holdfast.checks.iam.to_findings import in_code, in_variables
from holdfast.checks.model.interface import Rule, Severity


def _judge(policy: Policy) -> Iterator[Said]:
    for statement in policy.statements:
        if statement.allows and statement.not_principal is not None:
            yield Said("everyone but those named is allowed (`NotPrincipal`)", statement.not_principal)


RULE = Rule(
    id="HF507",
    title="A statement that allows everyone but those it names",
    why="Everyone in the world is let in, people without an account of AWS included, but for the few that "
    "are named.",
    fix="Name who is allowed in `Principal`.",
    severity=Severity.ERROR,
    source=in_code(_judge, Severity.ERROR),
    variables=in_variables(_judge, Severity.ERROR),
    beside=files_beside,
    bad="""\
data "aws_iam_policy_document" "bucket" {
  statement {
    actions   = ["s3:GetObject"]
    resources = ["arn:aws:s3:::acme-reports/*"]
    not_principals {
      type        = "AWS"
      identifiers = ["arn:aws:iam::111122223333:role/guest"]
    }
  }
}
""",
    good="""\
data "aws_iam_policy_document" "bucket" {
  statement {
    actions   = ["s3:GetObject"]
    resources = ["arn:aws:s3:::acme-reports/*"]
    principals {
      type        = "AWS"
      identifiers = ["arn:aws:iam::111122223333:role/reader"]
    }
  }
}
""",
)
