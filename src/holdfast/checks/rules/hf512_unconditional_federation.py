"""HF512: everyone whom an identity provider knows is let in."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from typing import Final

from holdfast.checks.iam.arns import wild
from holdfast.checks.iam.collect import files_beside
from holdfast.checks.iam.condition_scope import narrow
from holdfast.checks.iam.document import HOLE
from holdfast.checks.iam.github import host_of
from holdfast.checks.iam.issue import Said
from holdfast.checks.iam.policies import Policy
from holdfast.checks.iam.policy_types import Kind
from holdfast.checks.iam.statements import Comparison, Conditions, Who
from holdfast.checks.iam.to_findings import in_code, in_variables
from holdfast.checks.model.interface import Rule, Severity

_EVERYBODYS: Final = ("agent.buildkite.com", "app.terraform.io", "gitlab.com")
"""Providers that sign for the pipelines of all companies, for whatever audience these ask."""
_APPLICATIONS: Final = (
    *("accounts.google.com", "cognito-identity.amazonaws.com", "graph.facebook.com", "www.amazon.com"),
)
"""Providers of all companies' applications: which one, only the audience says."""
_WHICH: Final = frozenset(("aud", "oaud", "azp", "app_id", "sub"))
_OF_ONE: Final = (
    ("oidc.eks.*", "every pod of the cluster"),
    ("oidc.circleci.com/*", "every pipeline of the organization"),
    ("api.bitbucket.org/*", "every pipeline of the workspace"),
    ("*/_services/token", "every repository of the server"),
)
_NOBODY: Final = (
    *("aws:securetransport", "aws:requestedregion", "aws:currenttime", "aws:epochtime"),
    *("aws:tokenissuetime", "sts:rolesessionname", "aws:useragent", "aws:referer"),
)
"""Keys that do not say who asks."""
_PODS: Final = "system:serviceaccount:"


def _judge(policy: Policy) -> Iterator[Said]:
    if policy.kind not in (Kind.TRUST, Kind.UNCLEAR):
        return
    for statement in policy.statements:
        if not statement.allows or statement.conditions.unsure:
            continue
        keys = [test.key for test in statement.conditions.tests]
        for who in statement.principals:
            of_github = host_of((who.name,), keys if HOLE in who.name else ()) is not None
            if who.type == "Federated" and not of_github:
                yield from _let_in(who, statement.conditions)


def _let_in(who: Who, conditions: Conditions) -> Iterator[Said]:
    demands = [
        test
        for test in conditions.tests
        if test.demands and test.key not in _NOBODY and narrow(test.key, test.bare, test.values.words)
    ]
    host = who.name.rpartition("oidc-provider/")[2].lower()
    by_others = [test for test in demands if test.key.rpartition(":")[2] != "aud"]
    if not demands:
        yield Said("everyone whom this provider knows is let in: no condition says who", who.at)
    elif host in _EVERYBODYS and not any(_names_owner(test) for test in by_others):
        yield Said(f"every pipeline of {host}, anybody's, is let in: no condition says whose", who.at)
    elif host in _APPLICATIONS and not any(test.key.rpartition(":")[2] in _WHICH for test in demands):
        yield Said(f"the users of anybody's application of {host} are let in: name yours in `aud`", who.at)
    else:
        yield from _all_of_one(who, host, by_others)


def _names_owner(test: Comparison) -> bool:
    """`project_path:acme/*` does, `project_path:*` and `organization:*:project:infra` do not."""
    return not any(wild(word.partition(":")[2][:1]) for word in test.values.words)


def _all_of_one(who: Who, host: str, by_others: list[Comparison]) -> Iterator[Said]:
    whole = next((whom for pattern, whom in _OF_ONE if fnmatch.fnmatchcase(host, pattern)), None)
    if whole is not None and not by_others:
        yield Said(f"{whole} is let in: the audience does not say who", who.at, grave=False)
    for test in by_others:
        for value in test.values.known:
            namespace = str(value.content).removeprefix(_PODS)
            if test.patterns and namespace != value.content and wild(namespace[:1]):
                yield Said(f"`{value.content}`: the pods of every namespace are let in", value, grave=False)


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
    more="""\
A condition counts if it must hold, says who asks, and does not match everything. How narrow it is, is only
judged for GitHub (HF511); of some others it is known:

- GitLab, Terraform Cloud and Buildkite sign for all companies: an audience alone, or a subject that begins
  with a wildcard (`project_path:*`), keeps nobody out.
- Cognito and Google sign for all companies' applications: without an audience (or a subject) every one of
  them is let in.
- EKS, CircleCI, Bitbucket and a GitHub Enterprise Server sign for one cluster, organization, workspace or
  server. An audience alone lets in all of that, and `system:serviceaccount:*:deploy` whoever has a namespace:
  a warning.
""",
)
