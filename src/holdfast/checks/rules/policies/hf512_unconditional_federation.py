from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from typing import Final

from holdfast.checks.iam.arns import has_wildcard
from holdfast.checks.iam.collect import policy_rule
from holdfast.checks.iam.conditions import is_narrow
from holdfast.checks.iam.document import HOLE, Issue
from holdfast.checks.iam.github import github_host
from holdfast.checks.iam.policies import IamPolicy
from holdfast.checks.iam.policy_types import PolicyKind
from holdfast.checks.iam.statements import Conditions, ConditionTest, PrincipalName
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
_ASSUMES: Final = ("sts:AssumeRoleWithWebIdentity", "sts:AssumeRoleWithSAML", "sts:AssumeRole")
"""`sts:TagSession` alone gives no access."""
_PODS: Final = "system:serviceaccount:"


def _check(policy: IamPolicy) -> Iterator[Issue]:
    if policy.kind not in (PolicyKind.TRUST, PolicyKind.UNCLEAR):
        return
    for statement in policy.allowing:
        if statement.conditions.unsure or not any(map(statement.matching_action, _ASSUMES)):
            continue
        keys = [test.key for test in statement.conditions.tests]
        for principal in statement.principals:
            of_github = github_host((principal.name,), keys if HOLE in principal.name else ()) is not None
            if principal.type == "Federated" and not of_github:
                yield from _check_principal(principal, statement.conditions)


def _check_principal(principal: PrincipalName, conditions: Conditions) -> Iterator[Issue]:
    demands = [
        test
        for test in conditions.tests
        if test.demands
        and test.key not in _ANONYMOUS
        and is_narrow(test.key, test.base_operator, test.values.words)
    ]
    host = principal.name.rpartition("oidc-provider/")[2].lower()
    by_others = [test for test in demands if test.key.rpartition(":")[2] != "aud"]
    if not demands:
        yield Issue("everyone known to this provider is allowed: no condition restricts it", principal.at)
    elif host in _MULTI_TENANT and not any(_names_owner(test) for test in by_others):
        yield Issue(
            f"every pipeline of {host}, of any company, is allowed: no condition names the owner",
            principal.at,
        )
    elif host in _APPLICATIONS and not any(test.key.rpartition(":")[2] in _WHICH for test in demands):
        yield Issue(
            f"the users of any application of {host} are allowed: restrict `aud` to yours", principal.at
        )
    else:
        yield from _check_single_tenant(principal, host, by_others)


def _names_owner(test: ConditionTest) -> bool:
    """`project_path:acme/*` does, `project_path:*` and `organization:*:project:infra` do not."""
    return not any(has_wildcard(word.partition(":")[2][:1]) for word in test.values.words)


def _check_single_tenant(
    principal: PrincipalName, host: str, by_others: list[ConditionTest]
) -> Iterator[Issue]:
    whole = next((users for pattern, users in _OF_ONE if fnmatch.fnmatchcase(host, pattern)), None)
    if whole is not None and not by_others:
        yield Issue(f"{whole} is allowed: the audience does not restrict it", principal.at, severe=False)
    for test in by_others:
        for value in test.values.known:
            namespace = str(value.content).removeprefix(_PODS)
            if test.patterns and namespace != value.content and has_wildcard(namespace[:1]):
                yield Issue(f"`{value.content}`: pods of every namespace are allowed", value, severe=False)


RULE = Rule(
    id="HF512",
    title="Identity provider trusted without conditions",
    fix="Add a condition on its claims: `…:aud` and `…:sub` (OpenID Connect), or `SAML:aud`.",
    **policy_rule(_check, Severity.ERROR),
)
