"""Subjects of GitHub's tokens, in both formats."""

from __future__ import annotations

import pytest

from holdfast.checks.iam.document import HOLE
from holdfast.checks.iam.github import HOST, SubjectScope, github_host, subject_scope

FINE = (
    "repo:octo/app:environment:production",
    "repo:octo/app:environment:prod%3Aeu",
    "repo:octo/app:pull_request",
    "repo:octo/app:ref:refs/heads/main",
    "repo:octo/app:ref:refs/tags/v1",
    "repo:octo@123/app@456:environment:production",
    "repo:octo@123/app@456:ref:refs/heads/main",
    "repository_id:456:environment:production",
    "repository_owner:octo:environment:production",
    "environment:production:repository_owner:octo",
    "job_workflow_ref:octo/flows/.github/workflows/a.yml@refs/heads/main",
    "repo:octo/app:job_workflow_ref:octo/flows/.github/workflows/a.yml@refs/heads/main",
)


@pytest.mark.parametrize("subject", FINE)
def test_a_subject_that_names_one_repository_is_fine(subject: str) -> None:
    """Both formats, with an environment, a branch, a tag or a pull request; and claims of one's own."""
    assert subject_scope(subject, patterns=False) == SubjectScope()


@pytest.mark.parametrize("subject", ["repo:octo/app:ref:refs/heads/*", "repo:octo@1/app@2:ref:refs/tags/v*"])
def test_wildcards_in_a_branch_are_fine(subject: str) -> None:
    """The repository is still one."""
    assert subject_scope(subject, patterns=True) == SubjectScope()


GRAVE = (
    ("*", "every repository"),
    ("repo:*", "other owners"),
    ("repo:*/*:*", "other owners"),
    ("repo:octo*", "other owners"),
    ("repo:octo*/app:environment:production", "other owners"),
    ("repo:octo-*@1/app@2:pull_request", "other owners"),
    ("rep*", "any repository"),
    ("*:environment:production", "any repository"),
    ("environment:production", "the owner of the repository"),
    ("repository_owner:*:environment:production", "the owner of the repository"),
    ("repository_owner:octo*", "the owner of the repository"),
    ("job_workflow_ref:*/flows/.github/workflows/a.yml@refs/heads/main", "the owner of the repository"),
    ("repo:octo", "names no repository"),
    ("repo:octo/:pull_request", "names no repository"),
    ("octo/app:ref:refs/heads/main", "starts with `repo:`"),
    ("repo:octo/app", "it has no branch"),
    ("repo:octo/app:refs/heads/main", "after the repository"),
    ("repo:octo/app:ref:main", "after the repository"),
    ("repo:octo/app:branch:main", "after the repository"),
    ("repo:octo/app:environment:", "after the repository"),
    ("repo:octo/app:pull_request:1", "after the repository"),
    ("repo:octo@123/app:pull_request", "both names"),
    ("repo:octo/app@456:pull_request", "both names"),
    ("repo:octo@me/app@456:pull_request", "not an owner id"),
    ("repo:octo@1/app@x:pull_request", "not a repository id"),
)


@pytest.mark.parametrize(("subject", "words"), GRAVE)
def test_a_subject_that_matches_strangers_or_no_job_is_severe(subject: str, words: str) -> None:
    """Too far to the left, or of a form that no job has."""
    found = subject_scope(subject, patterns=True)
    assert words in f"{found.severe} {found.never}"


HOLES = (
    (f"repo:*/{HOLE}:*", "allows repositories of other owners"),
    (f"*{HOLE}", "starts with a wildcard"),
    (f"repo:{HOLE}:*", "`repo:…:*` allows every branch"),
    (f"repo:octo/{HOLE}*", "more than one repository"),
)


@pytest.mark.parametrize(("subject", "words"), HOLES)
def test_a_wildcard_next_to_an_unknown_part_is_reported(subject: str, words: str) -> None:
    """Whatever the name will be, the wildcard stands where it stands."""
    found = subject_scope(subject, patterns=True)
    assert words in f"{found.severe} {found.mild}"


@pytest.mark.parametrize(
    "subject", [f"repo:{HOLE}", f"{HOLE}", f"repo:octo/{HOLE}", f"repo:{HOLE}/app:ref:x"]
)
def test_an_unknown_subject_is_not_reported(subject: str) -> None:
    """It may hold what is missing."""
    assert subject_scope(subject, patterns=False) == SubjectScope()


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        ("repo:octo/*", "more than one repository"),
        ("repo:octo@1/*", "more than one repository"),
        ("repo:octo/app-*:environment:production", "more than one repository"),
        ("repo:octo/app:*", "every branch"),
        ("repo:octo@1/app@2:*", "every branch"),
    ],
)
def test_a_subject_that_is_wide_at_home_is_mild(subject: str, words: str) -> None:
    """One's own repositories, but more of them than needed."""
    found = subject_scope(subject, patterns=True)
    assert found.severe is None
    assert words in (found.mild or "")


def test_a_wildcard_needs_a_pattern() -> None:
    """StringEquals compares the star itself."""
    assert "only StringLike" in (subject_scope("repo:octo/app:*", patterns=False).never or "")


def test_the_provider_is_recognized_by_its_suffix() -> None:
    """Whatever stands before it: an account, a hole, nothing; by its conditions where it is a reference."""
    provider = f"arn:aws:iam::111122223333:oidc-provider/{HOST}"
    assert github_host([provider], []) == HOST
    assert github_host([HOST], []) == HOST
    assert github_host([f"{provider}/octo"], []) == f"{HOST}/octo"
    assert github_host([HOLE], [f"{HOST}:aud"]) == HOST
    assert github_host(["arn:aws:iam::111122223333:oidc-provider/gitlab.com"], ["gitlab.com:sub"]) is None
