"""HF512: everyone whom an identity provider knows is let in."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.iam.found import Policy
from holdfast.checks.iam.github import is_github
from holdfast.checks.iam.judging import in_code, in_variables
from holdfast.checks.iam.kinds import Kind
from holdfast.checks.iam.said import Said
from holdfast.checks.interface import Rule, Severity


def _judge(policy: Policy) -> Iterator[Said]:
    if policy.kind not in (Kind.TRUST, Kind.UNCLEAR):
        return
    for statement in policy.statements:
        conditions = statement.conditions
        if not statement.allows or conditions.unsure or any(test.demands for test in conditions.tests):
            continue
        for who in statement.principals:
            if who.type == "Federated" and not is_github(who.name):
                yield Said("everyone whom this provider knows is let in: no condition says who", who.at)


RULE = Rule(
    id="HF512",
    title="Everyone whom an identity provider knows is let in",
    why="A provider signs for all its users, pods or pipelines, often for other companies' too.",
    fix="Add a condition on its claims: `…:aud` and `…:sub` (OpenID Connect), or `SAML:aud`.",
    severity=Severity.ERROR,
    source=in_code(_judge, Severity.ERROR),
    variables=in_variables(_judge, Severity.ERROR),
    bad="""\
data "aws_iam_policy_document" "trust" {
  statement {
    actions = ["sts:AssumeRoleWithWebIdentity"]
    principals {
      type        = "Federated"
      identifiers = ["arn:aws:iam::111122223333:oidc-provider/gitlab.com"]
    }
  }
}
""",
    good="""\
data "aws_iam_policy_document" "trust" {
  statement {
    actions = ["sts:AssumeRoleWithWebIdentity"]
    principals {
      type        = "Federated"
      identifiers = ["arn:aws:iam::111122223333:oidc-provider/gitlab.com"]
    }
    condition {
      test     = "StringEquals"
      variable = "gitlab.com:sub"
      values   = ["project_path:acme/infrastructure:ref_type:branch:ref:main"]
    }
  }
}
""",
    more="Whether a condition is narrow enough is only judged for GitHub (HF511).\n",
)
