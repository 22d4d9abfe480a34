"""What the runner of a code host says is believed only in the form it has."""

from __future__ import annotations

import pytest

from holdfast.kernel.errors import UsageError
from holdfast.notify.hosts.azure import AZURE
from holdfast.notify.hosts.catalogue import HOSTS, current_host, host_named
from holdfast.notify.hosts.client import same_origin
from holdfast.notify.hosts.github import GITHUB, pull_request_of, read_run
from holdfast.notify.hosts.gitlab import GITLAB
from holdfast.notify.hosts.interface import Annotation, PullRequest
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


def test_a_job_knows_its_host() -> None:
    """By the variable that the runner sets, in the form it sets it."""
    for variables, host in (
        ({"GITHUB_ACTIONS": "true"}, GITHUB),
        ({"GITLAB_CI": "true", "CI": "true"}, GITLAB),
        ({"TF_BUILD": "True"}, AZURE),
        ({"CI": "true"}, None),
    ):
        assert current_host(Environment(variables=variables)) is host
        assert host_named("auto", Environment(variables=variables)) is host
    assert host_named("azure", Environment(variables={})) is AZURE
    with pytest.raises(UsageError, match="HF-TELL-11"):
        host_named("gitea", Environment(variables={}))
    assert len({host.name for host in HOSTS}) == len(HOSTS)


def test_a_merge_request_of_gitlab() -> None:
    """The commit under review is that of the source branch, where GitLab made a temporary merge commit."""
    variables = {
        "CI_MERGE_REQUEST_IID": "7",
        "CI_MERGE_REQUEST_PROJECT_ID": "42",
        "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "43",
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": SHA,
        "CI_COMMIT_SHA": "c" * 40,
        "CI_PROJECT_ID": "42",
        "CI_PIPELINE_ID": "9",
        "CI_JOB_ID": "10",
        "CI_JOB_NAME": "plan",
        "CI_JOB_URL": "https://gitlab.example/acme/infra/-/jobs/10",
        "GITLAB_TOKEN": "glpat-x",
    }
    run, problems = GITLAB.read_run(Environment(variables=variables))
    assert problems == ()
    assert run.pull_request == PullRequest(number=7, head=SHA, fork=True)
    assert (run.repository, run.base, run.age, run.commit) == ("42", "main", (9, 10), SHA)
    assert run.link == "https://gitlab.example/acme/infra/-/jobs/10"
    for name, bad in (("CI_PROJECT_ID", "42/../1"), ("CI_JOB_URL", "https://x/) [y](z")):
        changed, _ = GITLAB.read_run(Environment(variables={**variables, name: bad}))
        assert None in (changed.repository, changed.link)
    assert GITLAB.read_run(Environment(variables={}))[0].pull_request is None


def test_a_pull_request_of_azure() -> None:
    """In Azure Repos; a pipeline of a GitHub repository has no thread to write to, and says so."""
    variables = {
        "SYSTEM_COLLECTIONURI": "https://dev.azure.com/acme/",
        "SYSTEM_TEAMPROJECT": "My Project",
        "SYSTEM_PULLREQUEST_PULLREQUESTID": "7",
        "SYSTEM_PULLREQUEST_SOURCECOMMITID": SHA,
        "SYSTEM_PULLREQUEST_TARGETBRANCH": "refs/heads/release/1",
        "SYSTEM_PULLREQUEST_ISFORK": "False",
        "BUILD_REPOSITORY_ID": "0a1b-2c",
        "BUILD_REPOSITORY_PROVIDER": "TfsGit",
        "BUILD_BUILDID": "9",
        "SYSTEM_JOBATTEMPT": "2",
    }
    run, problems = AZURE.read_run(Environment(variables=variables))
    assert problems == ()
    assert run.pull_request == PullRequest(number=7, head=SHA)
    assert (run.base, run.age) == ("release/1", (9, 2))
    assert run.link == "https://dev.azure.com/acme/My%20Project/_build/results?buildId=9"
    other, (problem,) = AZURE.read_run(
        Environment(variables={**variables, "BUILD_REPOSITORY_PROVIDER": "GitHub"})
    )
    assert (other.pull_request, problem.code) == (None, "HF-TELL-6")


def test_an_annotation_of_azure_cannot_be_left() -> None:
    """Neither a property nor the message ends early, and none becomes another command."""
    assert AZURE.annotation is not None
    line = AZURE.annotation(
        Annotation(level="error", title="db", message="50%\n##vso[task.complete]x", file="a;b]c", line=3)
    )
    assert line == (
        "##vso[task.logissue type=error;sourcepath=a%3Bb%5Dc;linenumber=3]db: 50%AZP25 ## vso[task.complete]x"
    )
