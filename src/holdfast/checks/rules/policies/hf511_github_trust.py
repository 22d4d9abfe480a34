from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.checks.iam.arns import has_wildcard
from holdfast.checks.iam.collect import policy_rule
from holdfast.checks.iam.document import HOLE, Issue, Node
from holdfast.checks.iam.github import ASSUMES, AUDIENCES, HOST, github_host, subject_scope
from holdfast.checks.iam.policies import IamPolicy
from holdfast.checks.iam.policy_types import PolicyKind
from holdfast.checks.iam.statements import Conditions, ConditionTest, Statement
from holdfast.checks.model.interface import Rule, Severity
from holdfast.kernel.text import plural

_REPOSITORY: Final = ("repository", "repository_id", "job_workflow_ref")
_OWNER: Final = ("repository_owner", "repository_owner_id", "enterprise", "enterprise_id")

_ALWAYS: Final = ("aud", "iss", "sub", "repository", "repository_id", *_OWNER)
"""Every token of GitHub has them."""


def _check(policy: IamPolicy) -> Iterator[Issue]:
    if policy.kind not in (PolicyKind.TRUST, PolicyKind.UNCLEAR):
        return
    for statement in policy.allowing:
        host = _host(statement)
        if host is not None:
            yield from _check_statement(statement, host)


def _host(statement: Statement) -> str | None:
    named = (principal.name for principal in statement.principals if principal.type == "Federated")
    return github_host(named, (test.key for test in statement.conditions.tests))


def _check_statement(statement: Statement, host: str) -> Iterator[Issue]:
    actions = statement.actions
    if actions.known and not actions.unsure and statement.matching_action(ASSUMES) is None:
        message = f"GitHub jobs need `{ASSUMES}`, which is not allowed"
        yield Issue(message, actions.known[0], severe=False)
    tests = _claims(statement.conditions, host)
    for claim, test in tests:
        if test.holds_without:
            message = f"`{test.operator}` on `{host}:{claim}` is also true if the token has no such claim"
            yield Issue(message, test.at, is_note=claim in _ALWAYS)
    yield from _check_audience(statement, tests, host)
    yield from _check_subject(statement, tests, host)


def _claims(conditions: Conditions, host: str) -> list[tuple[str, ConditionTest]]:
    """The conditions on the token; a key with an unknown prefix (`${local.host}:sub`) counts too."""
    keys = ((*test.key.rpartition(":"), test) for test in conditions.tests)
    return [(claim, test) for start, _, claim, test in keys if start == host or HOLE in start]


Claims = list[tuple[str, ConditionTest]]


def _check_audience(statement: Statement, tests: Claims, host: str) -> Iterator[Issue]:
    audience_tests = [test for claim, test in tests if claim == "aud"]
    if not audience_tests and not statement.conditions.unsure:
        yield Issue(f"no condition on `{host}:aud`", statement.at, is_note=True)
    for test in audience_tests:
        for value in test.values.known if test.demands else ():
            text = str(value.content)
            if text not in AUDIENCES and not ("://" in text and "*" not in text):
                yield Issue(f"the audience is `{text}`, not `sts.amazonaws.com`", value, severe=False)


def _check_subject(statement: Statement, tests: Claims, host: str) -> Iterator[Issue]:
    subject_tests = [test for claim, test in tests if claim == "sub"]
    demanded = [test for test in subject_tests if test.demands or (test.holds_without and not test.negative)]
    by_repository = any(claim in _REPOSITORY and _is_bound(test) for claim, test in tests)
    if not demanded and not by_repository and not statement.conditions.unsure:
        by_owner = any(claim in _OWNER and _is_bound(test) for claim, test in tests)
        yield _unrestricted_issue(statement, subject_tests, host, by_owner=by_owner)
    for test in demanded:
        broad: list[tuple[str, Node]] = []
        for value in test.values.all:
            severe, mild, never = subject_scope(str(value.content), patterns=test.patterns)
            if severe is not None or never is not None:
                yield Issue(severe or never or "", value, severe=severe is not None)
            elif mild is not None and not by_repository:
                broad.append((mild, value))
        if broad:
            (mild, value), others = broad[0], len(broad) - 1
            more = f" (and {plural(others, 'subject')} like it)" if others else ""
            yield Issue(mild + more, value, severe=False, group="subjects")


def _unrestricted_issue(
    statement: Statement, subject_tests: list[ConditionTest], host: str, *, by_owner: bool
) -> Issue:
    if by_owner:
        return Issue("every repository of the owner can assume this role", statement.at, severe=False)
    if host != HOST:
        whose = f"every repository of the enterprise {host.rpartition('/')[2]}"
        return Issue(
            f"no condition on `{host}:sub`: {whose} can assume this role", statement.at, severe=False
        )
    if subject_tests:
        test = subject_tests[0]
        why = f"`{test.operator}` on `{host}:sub` restricts nothing"
        return Issue(f"{why}: any repository can assume this role", test.at)
    return Issue(f"no condition on `{host}:sub`: any GitHub repository can assume this role", statement.at)


def _is_bound(test: ConditionTest) -> bool:
    """Whether it must be true and names the owner of the repository."""
    whose = (word.partition("/")[0] for word in test.values.words)
    return test.demands and not (test.patterns and any(has_wildcard(owner) for owner in whose))


RULE = Rule(
    id="HF511",
    title="GitHub Actions trust that is too broad",
    fix="Add `StringEquals` on `token.actions.githubusercontent.com:aud` (`sts.amazonaws.com`) and `…:sub` "
    "(`repo:OWNER/REPO:environment:NAME`, for newer repositories `repo:OWNER@ID/REPO@ID:…`).",
    **policy_rule(_check, Severity.ERROR),
)
