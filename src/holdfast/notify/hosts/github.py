"""GitHub: the current job of GitHub Actions, and comments on its pull requests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from holdfast.kernel.errors import Problem
from holdfast.notify.hosts.client import HostClient, HostError, RetryLimits
from holdfast.notify.hosts.interface import (
    Annotation,
    CiRun,
    CodeHost,
    Comment,
    LogLine,
    PullRequest,
    commit_of,
    first_number,
    matching,
    name_of,
    number_of,
    path_of,
    secret_of,
    token_of,
)
from holdfast.notify.size_budget import SizeBudget, characters
from holdfast.system.environment import Environment
from holdfast.system.markup import WIDEST, command, data, one_line

API = "https://api.github.com"
COMMENT_SIZE = 65_000
"""The limit is 65,536 characters; they are counted in the way that gives the largest number."""
WORKFLOW_AUTHOR = "github-actions[bot]"
"""The author for the default token of a workflow."""
_VERSION = "2022-11-28"
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}\Z")
_SERVER = re.compile(r"https://[A-Za-z0-9.-]+(:[0-9]+)?\Z")
_LARGEST_EVENT = 32 * 1024 * 1024


def read_run(environment: Environment) -> tuple[CiRun, tuple[Problem, ...]]:
    """The run, and problems in reading it."""
    event, problems = _read_event(path_of(environment, "GITHUB_EVENT_PATH"))
    pull_request = pull_request_of(event)
    repository = matching(_REPOSITORY, environment.get("GITHUB_REPOSITORY"))
    return (
        CiRun(
            host="github",
            repository=repository,
            api=(environment.get("GITHUB_API_URL") or API).rstrip("/"),
            token=secret_of(environment, "GITHUB_TOKEN"),
            pull_request=pull_request,
            base=environment.get("GITHUB_BASE_REF"),
            name=name_of(environment, "GITHUB_WORKFLOW", "GITHUB_JOB"),
            number=number_of(environment.get("GITHUB_RUN_NUMBER")),
            attempt=number_of(environment.get("GITHUB_RUN_ATTEMPT")),
            link=_link(environment, repository),
            commit=(pull_request.head if pull_request else None) or commit_of(environment.get("GITHUB_SHA")),
            who=environment.get("GITHUB_ACTOR") or "",
            summary=path_of(environment, "GITHUB_STEP_SUMMARY"),
            outputs=path_of(environment, "GITHUB_OUTPUT"),
            temporary=path_of(environment, "RUNNER_TEMP"),
            workspace=path_of(environment, "GITHUB_WORKSPACE"),
            artifact=environment.get("HOLDFAST_ARTIFACT"),
        ),
        problems,
    )


def default_branch(environment: Environment) -> str | None:
    """Its name in the event that started the job."""
    event, _ = _read_event(path_of(environment, "GITHUB_EVENT_PATH"))
    match event:
        case {"repository": {"default_branch": str(name)}}:
            return name
        case _:
            return None


def pull_request_of(event: object) -> PullRequest | None:
    """The pull request of an event: opened or changed, commented on, or with finished checks."""
    match event:
        case {"pull_request": {"number": int(number)} as details}:
            return _pull_request(number, details)
        case {"issue": {"number": int(number), "pull_request": dict()}} if number > 0:
            return PullRequest(number=number)
        case {"workflow_run": {"pull_requests": [{"number": int(number)} as details, *_]}}:
            return _pull_request(number, details)
        case _:
            return None


def _pull_request(number: int, details: dict[str, object]) -> PullRequest | None:
    if isinstance(number, bool) or number <= 0:
        return None
    head, base = _side(details.get("head")), _side(details.get("base"))
    return PullRequest(
        number=number, head=commit_of(head[0]), fork=head[1] is not None and head[1] != base[1]
    )


def _side(side: object) -> tuple[str | None, str | None]:
    """The commit and the repository's name or id."""
    match side:
        case {"sha": str(sha), "repo": {"full_name": str(name)}}:
            return sha, name
        case {"sha": str(sha), "repo": {"id": int(number)}}:
            return sha, str(number)
        case {"sha": str(sha)}:
            return sha, None
        case _:
            return None, None


def _read_event(path: Path | None) -> tuple[object, tuple[Problem, ...]]:
    if path is None:
        return None, ()
    try:
        with path.open("rb") as file:
            return json.loads(file.read(_LARGEST_EVENT)), ()
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not valid JSON"
        return None, (
            Problem(
                code="HF-TELL-6",
                message=f"cannot read the file of GITHUB_EVENT_PATH: {why}",
                hint="Without it the pull request is unknown, so no comment was written. The report "
                "is in the job summary.",
            ),
        )


def _link(environment: Environment, repository: str | None) -> str | None:
    server = matching(_SERVER, environment.get("GITHUB_SERVER_URL"))
    run = number_of(environment.get("GITHUB_RUN_ID"))
    return f"{server}/{repository}/actions/runs/{run}" if server and repository and run else None


class GithubApi:
    def __init__(self, run: CiRun, environment: Environment, limits: RetryLimits) -> None:
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": _VERSION}
        authorization = ("Authorization", "Bearer ", token_of(run))
        self.client = HostClient(run.api, headers, authorization, environment, limits)
        self.repository = f"{run.api}/repos/{run.repository}"

    def author(self) -> str:
        """A workflow's token cannot read `/user`, but can query `viewer`."""
        base = self.client.api.removesuffix("/v3")
        try:
            answer = self.client.request("POST", f"{base}/graphql", {"query": "query{viewer{login}}"})
        except HostError:
            return WORKFLOW_AUTHOR
        match answer:
            case {"data": {"viewer": {"login": str(login)}}} if login:
                return login
            case _:
                return WORKFLOW_AUTHOR

    def comments(self, pull_request: int) -> Iterator[Comment]:
        """Without those of deleted users, which have no author."""
        for item in self.client.pages(f"{self.repository}/issues/{pull_request}/comments?per_page=100"):
            match item:
                case {"id": int(id_), "body": str(body), "user": {"login": str(login)}}:
                    yield Comment(id=id_, author=login, body=body)

    def create(self, pull_request: int, body: str) -> bool:
        return self.client.create(f"{self.repository}/issues/{pull_request}/comments", {"body": body})

    def update(self, pull_request: int, comment: int, body: str) -> None:  # noqa: ARG002 - other hosts need it
        self.client.request("PATCH", f"{self.repository}/issues/comments/{comment}", {"body": body})

    def is_open(self, pull_request: int) -> bool:
        return self.client.field(f"{self.repository}/pulls/{pull_request}", "state") == "open"

    def merged_with(self, commit: str) -> int | None:
        requests = self.client.request("GET", f"{self.repository}/commits/{commit}/pulls")
        return first_number(requests, "number")


def fold(title: str, token: str) -> tuple[tuple[LogLine, ...], tuple[LogLine, ...]]:
    """Between the lines with the token the runner ignores commands."""
    begin = f"::group::{data(one_line(title, WIDEST))}", f"::stop-commands::{token}"
    return tuple(map(LogLine, begin)), (LogLine(f"::{token}::"), LogLine("::endgroup::"))


def _annotation(given: Annotation) -> str:
    line = given.line if given.file is not None else None
    return command(given.level, given.message, file=given.file, line=line, title=given.title)


GITHUB = CodeHost(
    name="github",
    title="GitHub",
    job="GitHub Actions",
    flag=("GITHUB_ACTIONS", "true"),
    reference="#",
    budget=SizeBudget(size=COMMENT_SIZE, measure=characters),
    token="GITHUB_TOKEN",  # noqa: S106 - the name of a variable
    token_hint="Add to the step: env: GITHUB_TOKEN: ${{ github.token }}",  # noqa: S106
    permission_hint="Add to the job: permissions: pull-requests: write",
    api="GITHUB_API_URL",
    full_report="the job summary",
    read_run=read_run,
    open_api=GithubApi,
    fold=fold,
    annotation=_annotation,
)
