from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from typing import Final

from holdfast.checks.iam.arns import wild
from holdfast.checks.iam.condition_scope import narrow
from holdfast.checks.iam.document import HOLE
from holdfast.checks.iam.github import host_of
from holdfast.checks.iam.issue import Said
from holdfast.checks.iam.policies import Policy
from holdfast.checks.iam.policy_types import Kind
from holdfast.checks.iam.statements import Comparison, Conditions, Who
from holdfast.checks.iam.to_findings import for_policies
from holdfast.checks.model.interface import Rule, Severity

_MULTI_TENANT: Final = ("agent.buildkite.com", "app.terraform.io", "gitlab.com")
"""Providers that sign tokens for the pipelines of all companies, with any audience."""
_APPLICATIONS: Final = (
    *("accounts.google.com", "cognito-identity.amazonaws.com", "graph.facebook.com", "www.amazon.com"),
)
"""Providers for the applications of all companies: only the audience tells them apart."""
_WHICH: Final = frozenset(("aud", "oaud", "azp", "app_id", "sub"))
_OF_ONE: Final = (
    ("oidc.eks.*", "every pod of the cluster"),
    ("oidc.circleci.com/*", "every pipeline of the organization"),
    ("api.bitbucket.org/*", "every pipeline of the workspace"),
    ("*/_services/token", "every repository of the server"),
)
_ANONYMOUS: Final = (
    *("aws:securetransport", "aws:requestedregion", "aws:currenttime", "aws:epochtime"),
    *("aws:tokenissuetime", "sts:rolesessionname", "aws:useragent", "aws:referer"),
)
"""Keys that do not identify the caller."""
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
                yield from _allowed(who, statement.conditions)


def _allowed(who: Who, conditions: Conditions) -> Iterator[Said]:
    demands = [
        test
        for test in conditions.tests
        if test.demands and test.key not in _ANONYMOUS and narrow(test.key, test.bare, test.values.words)
    ]
    host = who.name.rpartition("oidc-provider/")[2].lower()
    by_others = [test for test in demands if test.key.rpartition(":")[2] != "aud"]
    if not demands:
        yield Said("everyone known to this provider is allowed: no condition restricts it", who.at)
    elif host in _MULTI_TENANT and not any(_names_owner(test) for test in by_others):
        yield Said(
            f"every pipeline of {host}, of any company, is allowed: no condition names the owner", who.at
        )
    elif host in _APPLICATIONS and not any(test.key.rpartition(":")[2] in _WHICH for test in demands):
        yield Said(f"the users of any application of {host} are allowed: restrict `aud` to yours", who.at)
    else:
        yield from _single_tenant(who, host, by_others)


def _names_owner(test: Comparison) -> bool:
    """`project_path:acme/*` does, `project_path:*` and `organization:*:project:infra` do not."""
    return not any(wild(word.partition(":")[2][:1]) for word in test.values.words)


def _single_tenant(who: Who, host: str, by_others: list[Comparison]) -> Iterator[Said]:
    whole = next((whom for pattern, whom in _OF_ONE if fnmatch.fnmatchcase(host, pattern)), None)
    if whole is not None and not by_others:
        yield Said(f"{whole} is allowed: the audience does not restrict it", who.at, grave=False)
    for test in by_others:
        for value in test.values.known:
            namespace = str(value.content).removeprefix(_PODS)
            if test.patterns and namespace != value.content and wild(namespace[:1]):
                yield Said(f"`{value.content}`: pods of every namespace are allowed", value, grave=False)


_BAD = """\
data "aws_iam_policy_document" "trust" {
  statement {
    actions = ["sts:AssumeRoleWithWebIdentity"]
    principals {
      type        = "Federated"
      identifiers = ["arn:aws:iam::111122223333:oidc-provider/gitlab.com"]
    }
  }
}
"""

RULE = Rule(
    id="HF512",
    title="Identity provider trusted without conditions",
    why="A provider issues tokens for all its users, pods or pipelines, often also for other companies.",
    fix="Add a condition on its claims: `…:aud` and `…:sub` (OpenID Connect), or `SAML:aud`.",
    severity=Severity.ERROR,
    **for_policies(_judge, Severity.ERROR),
    bad=_BAD,
    good=_BAD.replace(
        "    }\n  }\n",
        '    }\n    condition {\n      test     = "StringEquals"\n      variable = "gitlab.com:sub"\n'
        '      values   = ["project_path:acme/infrastructure:ref_type:branch:ref:main"]\n    }\n  }\n',
    ),
    more="""\
A condition counts if it must be true, identifies the caller, and does not match everything. How narrow it is
is only checked for GitHub ([HF511](HF511.md)) and these providers:

- GitLab, Terraform Cloud and Buildkite sign tokens for all companies: an audience alone, or a subject that
  starts with a wildcard (`project_path:*`), restricts nothing.
- Cognito and Google sign tokens for the applications of all companies: without an audience (or a subject)
  all of them are allowed.
- EKS, CircleCI, Bitbucket and a GitHub Enterprise Server sign tokens for one cluster, organization, workspace
  or server. An audience alone allows all of it, and `system:serviceaccount:*:deploy` allows every namespace:
  a warning.
""",
)
