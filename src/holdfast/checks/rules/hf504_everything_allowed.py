"""HF504: a statement that allows every action."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.iam.collect import files_beside
from holdfast.checks.iam.issue import Said
from holdfast.checks.iam.policies import Policy
from holdfast.checks.iam.policy_types import Kind
from holdfast.checks.iam.to_findings import in_code, in_variables
from holdfast.checks.model.interface import Rule, Severity


def _judge(policy: Policy) -> Iterator[Said]:
    if policy.kind.bounds or policy.kind is Kind.TRUST:
        return  # there an allowance is only a bound on what others allow, or the grammar refuses it
    for statement in policy.statements:
        action = next((one for one in statement.actions.known if one.content in ("*", "*:*")), None)
        if not statement.allows or action is None:
            continue
        where = " on every resource" if statement.on_everything is not None else ""
        named = bool(statement.principals) or statement.not_principal is not None
        yield Said(f"every action is allowed{where}", action, grave=not named)


RULE = Rule(
    id="HF504",
    title="A statement that allows every action",
    why="Whoever holds it owns the account: it can make users, open buckets and switch the logs off. A "
    "stolen key of it is the end.",
    fix="Name the actions that are needed, on the resources that they are needed for.",
    severity=Severity.ERROR,
    source=in_code(_judge, Severity.ERROR),
    variables=in_variables(_judge, Severity.ERROR),
    beside=files_beside,
    bad="""\
data "aws_iam_policy_document" "deploy" {
  statement {
    actions   = ["*"]
    resources = ["*"]
  }
}
""",
    good="""\
data "aws_iam_policy_document" "deploy" {
  statement {
    actions   = ["s3:GetObject", "s3:PutObject"]
    resources = ["arn:aws:s3:::acme-artifacts/*"]
  }
}
""",
    more="In a resource's own policy, which is about that resource alone, it is a warning. Policies of "
    "organizations, those of VPC endpoints and permissions boundaries only bound what others allow: there it "
    "is no finding.\n",
)
