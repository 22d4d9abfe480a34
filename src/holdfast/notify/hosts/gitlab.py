"""GitLab: the current job of GitLab CI, and notes on its merge requests."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.kernel.errors import Problem
from holdfast.notify.hosts.client import HostClient, RetryLimits
from holdfast.notify.hosts.interface import (
    CiRun,
    CodeHost,
    Comment,
    LogLine,
    PullRequest,
    commit_of,
    first_number,
    link_of,
    matching,
    name_of,
    number_of,
    path_of,
    secret_of,
    token_of,
    user_name,
)
from holdfast.notify.size_budget import SizeBudget, characters
from holdfast.system import clock
from holdfast.system.environment import Environment
from holdfast.system.markup import WIDEST, one_line

API = "https://gitlab.com/api/v4"
NOTE_SIZE = 990_000
"""The limit is 1,000,000 characters."""
_PROJECT = re.compile(r"[0-9]{1,18}\Z")
_ERASE = "\x1b[0K"


def read_run(environment: Environment) -> tuple[CiRun, tuple[Problem, ...]]:
    get = environment.get
    number = number_of(get("CI_MERGE_REQUEST_IID"))
    # Set for merged results, where CI_COMMIT_SHA is a temporary merge commit.
    head = commit_of(get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA")) or commit_of(get("CI_COMMIT_SHA"))
    fork = get("CI_MERGE_REQUEST_SOURCE_PROJECT_ID") not in {None, get("CI_MERGE_REQUEST_PROJECT_ID")}
    run = CiRun(
        host="gitlab",
        repository=matching(_PROJECT, get("CI_PROJECT_ID")),
        api=(get("CI_API_V4_URL") or API).rstrip("/"),
        token=secret_of(environment, "GITLAB_TOKEN"),
        pull_request=PullRequest(number=number, head=head, fork=fork) if number else None,
        base=get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME"),
        name=name_of(environment, "CI_JOB_NAME"),
        number=number_of(get("CI_PIPELINE_ID")),
        attempt=number_of(get("CI_JOB_ID")),
        link=link_of(get("CI_JOB_URL")),
        commit=head,
        who=get("GITLAB_USER_LOGIN") or "",
        workspace=path_of(environment, "CI_PROJECT_DIR"),
    )
    return run, ()


class GitlabApi:
    def __init__(self, run: CiRun, environment: Environment, limits: RetryLimits) -> None:
        self.client = HostClient(run.api, {}, ("PRIVATE-TOKEN", "", token_of(run)), environment, limits)
        self._project = f"{run.api}/projects/{run.repository}"

    def author(self) -> str:
        return user_name(self.client.field(f"{self.client.api}/user", "username"))

    def comments(self, pull_request: int) -> Iterator[Comment]:
        for item in self.client.pages(f"{self._notes(pull_request)}?per_page=100&sort=asc"):
            match item:
                case {"id": int(id_), "body": str(body), "author": {"username": str(name)}, "system": False}:
                    yield Comment(id=id_, author=name, body=body)

    def create(self, pull_request: int, body: str) -> bool:
        return self.client.create(self._notes(pull_request), {"body": body})

    def update(self, pull_request: int, comment: int, body: str) -> None:
        self.client.request("PUT", f"{self._notes(pull_request)}/{comment}", {"body": body})

    def is_open(self, pull_request: int) -> bool:
        return self.client.field(f"{self._project}/merge_requests/{pull_request}", "state") == "opened"

    def merged_with(self, commit: str) -> int | None:
        url = f"{self._project}/repository/commits/{commit}/merge_requests"
        return first_number(self.client.request("GET", url), "iid")

    def _notes(self, pull_request: int) -> str:
        return f"{self._project}/merge_requests/{pull_request}/notes"


def fold(title: str, token: str) -> tuple[tuple[LogLine, ...], tuple[LogLine, ...]]:
    """A section. Only a line with control characters begins or ends one."""
    now, name = int(clock.now().timestamp()), f"holdfast_{token}"
    begin = f"{_ERASE}section_start:{now}:{name}[collapsed=true]\r{_ERASE}"
    end = f"{_ERASE}section_end:{now}:{name}\r{_ERASE}"
    return (LogLine(one_line(title, WIDEST), begin),), (LogLine("", end),)


GITLAB = CodeHost(
    name="gitlab",
    title="GitLab",
    job="GitLab CI",
    flag=("GITLAB_CI", "true"),
    reference="!",
    budget=SizeBudget(size=NOTE_SIZE, measure=characters),
    token="GITLAB_TOKEN",  # noqa: S106 - the name of a variable
    token_hint="Add a project access token with the scope `api` as a masked CI/CD variable; CI_JOB_TOKEN "  # noqa: S106
    "cannot write notes.",
    permission_hint="GITLAB_TOKEN needs the scope `api` and at least the role Reporter in this project.",
    api="CI_API_V4_URL",
    full_report="the job log",
    read_run=read_run,
    open_api=GitlabApi,
    fold=fold,
)
