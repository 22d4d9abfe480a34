"""HF511: a role that jobs of GitHub can take on which were not meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.checks.iam.arns import wild
from holdfast.checks.iam.collect import files_beside
from holdfast.checks.iam.document import HOLE
from holdfast.checks.iam.github import ASSUMES, AUDIENCES, HOST, host_of, width
from holdfast.checks.iam.issue import Said
from holdfast.checks.iam.policies import Policy
from holdfast.checks.iam.policy_types import Kind
from holdfast.checks.iam.statements import Comparison, Conditions, Statement
from holdfast.checks.iam.to_findings import in_code, in_variables
from holdfast.checks.model.interface import Rule, Severity

_REPOSITORY: Final = ("repository", "repository_id", "job_workflow_ref")
_OWNER: Final = ("repository_owner", "repository_owner_id", "enterprise", "enterprise_id")

_ALWAYS: Final = ("aud", "iss")
"""Every token has them, and AWS itself compares them with the provider: such a condition adds little."""


def _judge(policy: Policy) -> Iterator[Said]:
    if policy.kind not in (Kind.TRUST, Kind.UNCLEAR):
        return
    for statement in policy.statements:
        host = _host(statement)
        if statement.allows and host is not None:
            yield from _statement(statement, host)


def _host(statement: Statement) -> str | None:
    named = (who.name for who in statement.principals if who.type == "Federated")
    return host_of(named, (test.key for test in statement.conditions.tests))


def _statement(statement: Statement, host: str) -> Iterator[Said]:
    actions = statement.actions
    if actions.known and not actions.unsure and statement.acts(ASSUMES) is None:
        yield Said(f"a job of GitHub comes in by `{ASSUMES}` alone, which is not allowed", actions.known[0])
    tests = _claims(statement.conditions, host)
    for claim, test in tests:
        if test.holds_without:
            message = f"`{test.operator}` on `{host}:{claim}` also holds where the token has no such claim"
            yield Said(message, test.at, grave=claim not in _ALWAYS)
    yield from _audience(statement, tests, host)
    yield from _subject(statement, tests, host)


def _claims(conditions: Conditions, host: str) -> list[tuple[str, Comparison]]:
    """What is asked of the token; a key whose beginning is not known (`${local.host}:sub`) counts too."""
    found = ((*test.key.rpartition(":"), test) for test in conditions.tests)
    return [(claim, test) for start, _, claim, test in found if start == host or HOLE in start]


Claims = list[tuple[str, Comparison]]


def _audience(statement: Statement, tests: Claims, host: str) -> Iterator[Said]:
    asked = [test for claim, test in tests if claim == "aud"]
    if not asked and not statement.conditions.unsure:
        yield Said(f"no condition on `{host}:aud`", statement.at, grave=False)
    for test in asked:
        for value in test.values.known if test.demands else ():
            text = str(value.content)
            if text not in AUDIENCES and not ("://" in text and "*" not in text):
                yield Said(f"the audience is `{text}`, not `sts.amazonaws.com`", value, grave=False)


def _subject(statement: Statement, tests: Claims, host: str) -> Iterator[Said]:
    asked = [test for claim, test in tests if claim == "sub"]
    demanded = [test for test in asked if test.demands]
    by_repository = any(claim in _REPOSITORY and _is_bound(test) for claim, test in tests)
    told = any(test.holds_without for test in asked)
    if not demanded and not by_repository and not told and not statement.conditions.unsure:
        by_owner = any(claim in _OWNER and _is_bound(test) for claim, test in tests)
        yield _anybody(statement, asked, host, by_owner=by_owner)
    for test in demanded:
        for value in test.values.all:
            grave, mild, never = width(str(value.content), patterns=test.patterns)
            if grave is not None or never is not None:
                yield Said(grave or never or "", value)
            elif mild is not None and not by_repository:
                yield Said(mild, value, grave=False)


def _anybody(statement: Statement, asked: list[Comparison], host: str, *, by_owner: bool) -> Said:
    if by_owner:
        return Said("every repository of the owner can take on this role", statement.at, grave=False)
    if host != HOST:
        whose = f"every repository of the enterprise {host.rpartition('/')[2]}"
        return Said(f"no condition on `{host}:sub`: {whose} can come in", statement.at, grave=False)
    if asked:
        message = f"`{asked[0].operator}` on `{host}:sub` names nobody: any repository of GitHub can come in"
        return Said(message, asked[0].at)
    return Said(f"no condition on `{host}:sub`: any repository of GitHub can come in", statement.at)


def _is_bound(test: Comparison) -> bool:
    """Whether it must hold, and says whose repository it is."""
    whose = (word.partition("/")[0] for word in test.values.words)
    return test.demands and not (test.patterns and any(wild(one) for one in whose))


RULE = Rule(
    id="HF511",
    title="A role that jobs of GitHub can take on which were not meant",
    why="Everybody's jobs get tokens from the same provider. What keeps strangers out is the condition on "
    "the subject alone; a wildcard too far to the left lets in whoever makes a repository with a name "
    "that fits.",
    fix="Add `StringEquals` on `token.actions.githubusercontent.com:aud` (`sts.amazonaws.com`) and `…:sub` "
    "(`repo:OWNER/REPO:environment:NAME`, for newer repositories `repo:OWNER@ID/REPO@ID:…`).",
    severity=Severity.ERROR,
    source=in_code(_judge, Severity.ERROR),
    variables=in_variables(_judge, Severity.ERROR),
    beside=files_beside,
    bad="""\
resource "aws_iam_role" "deploy" {
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRoleWithWebIdentity"
      Principal = {
        Federated = "arn:aws:iam::111122223333:oidc-provider/token.actions.githubusercontent.com"
      }
      Condition = {
        StringEquals = { "token.actions.githubusercontent.com:aud" = "sts.amazonaws.com" }
        StringLike   = { "token.actions.githubusercontent.com:sub" = "repo:acme*:ref:refs/heads/main" }
      }
    }]
  })
}
""",
    good="""\
resource "aws_iam_role" "deploy" {
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRoleWithWebIdentity"
      Principal = {
        Federated = "arn:aws:iam::111122223333:oidc-provider/token.actions.githubusercontent.com"
      }
      Condition = {
        StringEquals = {
          "token.actions.githubusercontent.com:aud" = "sts.amazonaws.com"
          "token.actions.githubusercontent.com:sub" = [
            "repo:acme/infrastructure:environment:production",
            "repo:acme@1234/infrastructure@5678:environment:production",
          ]
        }
      }
    }]
  })
}
""",
    more="""\
Subjects are `repo:OWNER/REPO:` or, for repositories made, renamed or moved after 15 July 2026,
`repo:OWNER@OWNER_ID/REPO@REPO_ID:`, followed by `environment:NAME`, `ref:refs/heads/BRANCH`,
`ref:refs/tags/TAG` or `pull_request`; a colon in a name is `%3A`. Both are understood.

An error: no condition on the subject, or only one that says who is not let in; a wildcard in the owner, a
subject that no job has, `ForAllValues:` and `…IfExists`, which hold where the claim is missing. A warning:
those on the audience or the issuer, which no token is without; all repositories of an owner or of an
enterprise, everything in a repository, no condition on the audience or one for another audience. Conditions
on `repository`, `repository_id` or `job_workflow_ref` count in the place of the subject, if the owner in
them has no wildcard. A subject that an organization has made of other claims must say whose repository it is
(`repository_owner:acme:…`): claims such as `environment:prod` are everybody's to choose.
""",
)
