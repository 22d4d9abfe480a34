"""HF512: everyone whom an identity provider knows is let in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.checks.iam.found import Policy, files_beside
from holdfast.checks.iam.github import is_github
from holdfast.checks.iam.judging import in_code, in_variables
from holdfast.checks.iam.kinds import Kind
from holdfast.checks.iam.said import Said
from holdfast.checks.iam.statements import Conditions, Who, narrow
from holdfast.checks.interface import Rule, Severity

_EVERYBODYS: Final = ("agent.buildkite.com", "app.terraform.io", "gitlab.com")
"""Providers that sign for the pipelines of all companies, for whatever audience these ask."""


def _judge(policy: Policy) -> Iterator[Said]:
    if policy.kind not in (Kind.TRUST, Kind.UNCLEAR):
        return
    for statement in policy.statements:
        if not statement.allows or statement.conditions.unsure:
            continue
        for who in statement.principals:
            if who.type == "Federated" and not is_github(who.name):
                yield from _let_in(who, statement.conditions)


def _let_in(who: Who, conditions: Conditions) -> Iterator[Said]:
    demands = [test for test in conditions.tests if test.demands]
    host = who.name.rpartition("oidc-provider/")[2].lower()
    if not demands:
        yield Said("everyone whom this provider knows is let in: no condition says who", who.at)
    elif host in _EVERYBODYS and not any(
        test.key != f"{host}:aud" and narrow(test.values) for test in demands
    ):
        yield Said(f"every pipeline of {host}, anybody's, is let in: the audience does not say who", who.at)


RULE = Rule(
    id="HF512",
    title="Everyone whom an identity provider knows is let in",
    why="A provider signs for all its users, pods or pipelines, often for other companies' too.",
    fix="Add a condition on its claims: `…:aud` and `…:sub` (OpenID Connect), or `SAML:aud`.",
    severity=Severity.ERROR,
    source=in_code(_judge, Severity.ERROR),
    variables=in_variables(_judge, Severity.ERROR),
    beside=files_beside,
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
    more="Whether a condition is narrow enough is only judged for GitHub (HF511); of GitLab, Terraform Cloud "
    "and Buildkite it is known that an audience alone, or a subject of `*`, keeps nobody out.\n",
)
