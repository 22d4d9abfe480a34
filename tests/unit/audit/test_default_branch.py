from __future__ import annotations

import pytest
from msgspec import structs

from holdfast.audit.actor import CI, GITHUB_ACTIONS, PERSON, Actor
from holdfast.audit.default_branch import is_under_review, why_not_default_branch

WHO = Actor(kind=PERSON, name="ada", host="laptop", verified=False, because="nothing", claims={})
PUSH = {"event_name": "push", "ref": "refs/heads/main", "sha": "c0ffee"}


def why_not(kind: str, **variables: str) -> str | None:
    return why_not_default_branch(structs.replace(WHO, kind=kind), variables, default="main", commit="c0ffee")


def why_not_on_github(claims: dict[str, str]) -> str | None:
    who = structs.replace(WHO, kind=GITHUB_ACTIONS, claims=claims)
    return why_not_default_branch(who, {}, default="main", commit="c0ffee")


def test_a_person_is_outside_of_a_pull_request() -> None:
    """Whatever is checked out: who may apply there is for the guard and the target's owner to say."""
    assert why_not(PERSON) is None


@pytest.mark.parametrize("event", ["push", "workflow_dispatch", "schedule", "repository_dispatch"])
def test_a_job_for_the_default_branch_is_too(event: str) -> None:
    """With the commit that started it."""
    assert why_not_on_github({**PUSH, "event_name": event}) is None


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"event_name": "pull_request", "ref": "refs/pull/7/merge"}, "pull_request"),
        ({"event_name": "pull_request_target"}, "pull_request_target"),
        ({"event_name": "issue_comment"}, "issue_comment"),
        ({"event_name": "workflow_run"}, "workflow_run"),
        ({"event_name": "merge_group"}, "merge_group"),
        ({"event_name": ""}, "an unknown event"),
        ({"ref": "refs/heads/feature"}, "refs/heads/feature"),
        ({"ref": "refs/tags/main"}, "refs/tags/main"),
        ({"sha": "beef"}, "another commit"),
    ],
)
def test_a_job_that_may_run_code_of_a_pull_request_is_not(claims: dict[str, str], why: str) -> None:
    """Also where GitHub names the default branch for it, and where another commit is checked out."""
    assert why in str(why_not_on_github({**PUSH, **claims}))


def test_without_the_name_of_the_default_branch_nothing_is_assumed() -> None:
    """In GitHub Actions without its event, and in other CI."""
    who = structs.replace(WHO, kind=GITHUB_ACTIONS, claims=PUSH)
    assert why_not_default_branch(who, {}, default=None, commit=None) is not None
    assert why_not(CI) == "this CI does not name the default branch"
    assert why_not(CI, CI_COMMIT_BRANCH="main") == "this CI does not name the default branch"


def test_other_ci_names_the_branches_in_variables() -> None:
    """GitLab, Buildkite and Jenkins; a merge request never counts."""
    gitlab = {"CI_COMMIT_BRANCH": "main", "CI_DEFAULT_BRANCH": "main"}
    buildkite = {
        "BUILDKITE_BRANCH": "main",
        "BUILDKITE_PIPELINE_DEFAULT_BRANCH": "main",
        "BUILDKITE_PULL_REQUEST": "false",
    }
    for variables in (gitlab, buildkite, {"BRANCH_IS_PRIMARY": "true"}):
        assert why_not(CI, **variables) is None
        assert why_not(CI, **variables, CHANGE_ID="7") == "this job runs for a pull request"
    assert why_not(CI, **{**gitlab, "CI_COMMIT_BRANCH": "x"}) == "this job runs for x, not for main"
    assert why_not(CI, **gitlab, CI_MERGE_REQUEST_IID="7") is not None
    assert why_not(CI, **{**buildkite, "BUILDKITE_PULL_REQUEST": "7"}) is not None


def test_ci_without_a_default_branch_is_under_review_only_where_it_says_so() -> None:
    """Otherwise nobody there could be notified."""
    ci = structs.replace(WHO, kind=CI)
    assert not is_under_review(ci, {}, default=None, commit=None)
    assert is_under_review(ci, {"CHANGE_ID": "7"}, default=None, commit=None)
    assert is_under_review(
        ci, {"CI_COMMIT_BRANCH": "mine", "CI_DEFAULT_BRANCH": "main"}, default=None, commit=None
    )
    assert not is_under_review(WHO, {}, default=None, commit=None)
    on_github = structs.replace(WHO, kind=GITHUB_ACTIONS, claims={**PUSH, "ref": "refs/heads/mine"})
    assert is_under_review(on_github, {}, default="main", commit="c0ffee")
