"""HF511: a role that jobs of GitHub can take on which were not meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.checks.iam.found import Policy, files_beside
from holdfast.checks.iam.github import ASSUMES, AUDIENCES, HOST, is_github, width
from holdfast.checks.iam.judging import in_code, in_variables
from holdfast.checks.iam.kinds import Kind
from holdfast.checks.iam.said import Said
from holdfast.checks.iam.statements import Comparison, Statement
from holdfast.checks.interface import Rule, Severity

_SUBJECT: Final = f"{HOST}:sub"
_AUDIENCE: Final = f"{HOST}:aud"
_REPOSITORY: Final = (f"{HOST}:repository", f"{HOST}:repository_id", f"{HOST}:job_workflow_ref")
_OWNER: Final = (f"{HOST}:repository_owner", f"{HOST}:repository_owner_id")


def _judge(policy: Policy) -> Iterator[Said]:
    if policy.kind not in (Kind.TRUST, Kind.UNCLEAR):
        return
    for statement in policy.statements:
        if statement.allows and _is_for_github(statement):
            yield from _statement(statement)


def _is_for_github(statement: Statement) -> bool:
    """By its principal; where that is a reference, by the keys of its conditions."""
    named = any(who.type == "Federated" and is_github(who.name) for who in statement.principals)
    return named or any(test.key.startswith(f"{HOST}:") for test in statement.conditions.tests)


def _statement(statement: Statement) -> Iterator[Said]:
    actions = statement.actions
    if actions.known and not actions.unsure and statement.acts(ASSUMES) is None:
        yield Said(f"a job of GitHub comes in by `{ASSUMES}` alone, which is not allowed", actions.known[0])
    for test in statement.conditions.tests:
        if test.key.startswith(f"{HOST}:"):
            yield from _holds_without(test)
    yield from _audience(statement)
    yield from _subject(statement)


def _holds_without(test: Comparison) -> Iterator[Said]:
    for word in ("ForAllValues:", "IfExists"):
        if word in test.operator:
            yield Said(
                f"`{test.operator}` on `{test.key}` also holds where the token has no such claim", test.at
            )


def _audience(statement: Statement) -> Iterator[Said]:
    conditions = statement.conditions
    tests = [test for test in conditions.on(_AUDIENCE) if test.demands]
    if not tests and not conditions.unsure and not any(conditions.on(_AUDIENCE)):
        yield Said(f"no condition on `{_AUDIENCE}`", statement.at, grave=False)
    for test in tests:
        for value in test.values.known:
            text = str(value.content)
            if text not in AUDIENCES and not ("://" in text and "*" not in text):
                yield Said(f"the audience is `{text}`, not `sts.amazonaws.com`", value, grave=False)


def _subject(statement: Statement) -> Iterator[Said]:
    conditions = statement.conditions
    tests = [test for test in conditions.on(_SUBJECT) if test.demands]
    by_repository = conditions.narrowed(*_REPOSITORY)
    if not tests and not by_repository and not any(conditions.on(_SUBJECT)):
        if conditions.narrowed(*_OWNER):
            yield Said("every repository of the owner can take on this role", statement.at, grave=False)
        else:
            yield Said(f"no condition on `{_SUBJECT}`: any repository of GitHub can come in", statement.at)
    for test in tests:
        for value in test.values.known:
            grave, mild = width(str(value.content), patterns=test.patterns)
            if grave is not None:
                yield Said(grave, value)
            elif mild is not None and not by_repository:
                yield Said(mild, value, grave=False)


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

An error: no condition on the subject, a wildcard in the owner, a subject that no job has, `ForAllValues:`
and `…IfExists`, which hold where the claim is missing. A warning: all repositories of an owner, everything
in a repository, no condition on the audience or one for another audience. Conditions on `repository`,
`repository_id` or `job_workflow_ref` count in the place of the subject. A subject that an organization has
made of other claims cannot be judged and is passed over.
""",
)
