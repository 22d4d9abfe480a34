"""What the runner says is believed only in the form it has."""

from __future__ import annotations

import pytest

from holdfast.notify.actions import PullRequest, in_actions, pull_request_of, read_run, same_origin
from holdfast.system.environment import Environment

SHA = "a1" * 20
BASE = {"sha": "b" * 40, "repo": {"full_name": "acme/infra"}}


def environment(**variables: str) -> Environment:
    return Environment(variables={"GITHUB_ACTIONS": "true", **variables})


@pytest.mark.parametrize(
    ("event", "found"),
    [
        (
            {
                "pull_request": {
                    "number": 7,
                    "head": {"sha": SHA, "repo": {"full_name": "acme/infra"}},
                    "base": BASE,
                }
            },
            PullRequest(number=7, head=SHA),
        ),
        (
            {
                "pull_request": {
                    "number": 7,
                    "head": {"sha": SHA, "repo": {"full_name": "ann/infra"}},
                    "base": BASE,
                }
            },
            PullRequest(number=7, head=SHA, fork=True),
        ),
        (
            {"pull_request": {"number": 7, "head": {"sha": SHA, "repo": None}, "base": BASE}},
            PullRequest(number=7, head=SHA),
        ),
        ({"issue": {"number": 9, "pull_request": {"url": "x"}}}, PullRequest(number=9)),
        ({"issue": {"number": 9}}, None),
        (
            {"workflow_run": {"pull_requests": [{"number": 4, "head": {"sha": SHA}}]}},
            PullRequest(number=4, head=SHA),
        ),
        ({"workflow_run": {"pull_requests": []}}, None),
        ({"pull_request": {"number": True}}, None),
        ({"pull_request": {"number": -1}}, None),
        ({"ref": "refs/heads/main"}, None),
        ([], None),
        (None, None),
    ],
)
def test_the_pull_request_of_an_event(event: object, found: PullRequest | None) -> None:
    """By what the event says, whatever kind of event it is; a push has none."""
    assert pull_request_of(event) == found


def test_a_run_is_named_by_its_workflow_and_job() -> None:
    """Each job has a report of its own; jobs of a matrix are named by hand."""
    run, problems = read_run(environment(GITHUB_WORKFLOW="Plan", GITHUB_JOB="aws"))
    assert (run.name, problems) == ("Plan/aws", ())
    assert read_run(environment(HOLDFAST_COMMENT="eu"))[0].name == "eu"


def test_a_link_is_made_of_what_looks_right_only() -> None:
    """It stands in Markdown as it is."""
    good = environment(
        GITHUB_SERVER_URL="https://github.com", GITHUB_REPOSITORY="acme/infra", GITHUB_RUN_ID="12"
    )
    assert read_run(good)[0].link == "https://github.com/acme/infra/actions/runs/12"
    for name, bad in (
        ("GITHUB_REPOSITORY", "acme/infra) [x](y"),
        ("GITHUB_SERVER_URL", "http://github.com"),
        ("GITHUB_RUN_ID", "1 2"),
    ):
        assert read_run(environment(**{**good.variables, name: bad}))[0].link is None


def test_the_token_is_not_shown() -> None:
    """Not by its value, and not by that of the run."""
    run, _ = read_run(environment(GITHUB_TOKEN="ghs_secret"))
    assert run.token is not None
    assert "ghs_secret" not in f"{run!r} {run.token!r}"


def test_where_a_token_may_go() -> None:
    """The same scheme, host and port, or not at all."""
    api = "https://api.github.com"
    assert same_origin("https://api.github.com/repositories/1?page=2", api)
    for other in ("https://api.github.com.evil.example/", "http://api.github.com/", "https://x@evil/", "//["):
        assert not same_origin(other, api)


def test_only_actions_is_actions() -> None:
    """As the runner says it."""
    assert in_actions(environment())
    assert not in_actions(Environment(variables={"CI": "true"}))
