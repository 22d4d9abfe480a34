"""Azure DevOps: the current job of Azure Pipelines, and comment threads of its pull requests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote

from msgspec import structs

from holdfast.kernel.errors import Problem
from holdfast.kernel.secret import Secret
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
from holdfast.system.environment import Environment
from holdfast.system.markup import WIDEST, escape_line, one_line

COMMENT_SIZE = 149_000
"""The limit is 150,000 characters."""
VERSION = "api-version=7.1"
_REPOSITORY = re.compile(r"[0-9A-Za-z-]{1,100}\Z")
_CLOSED = 4
"""The status of the thread: a report needs no answer, so it must not block a merge."""
_FIRST = 1
"""The id of the first comment of every thread."""


def read_run(environment: Environment) -> tuple[CiRun, tuple[Problem, ...]]:
    get = environment.get
    collection = (get("SYSTEM_COLLECTIONURI") or "").rstrip("/")
    project = f"{collection}/{quote(get('SYSTEM_TEAMPROJECT') or '')}"
    number, build = number_of(get("SYSTEM_PULLREQUEST_PULLREQUESTID")), number_of(get("BUILD_BUILDID"))
    head = commit_of(get("SYSTEM_PULLREQUEST_SOURCECOMMITID"))
    fork = (get("SYSTEM_PULLREQUEST_ISFORK") or "").lower() == "true"
    run = CiRun(
        host="azure",
        repository=matching(_REPOSITORY, get("BUILD_REPOSITORY_ID")),
        api=project,
        token=secret_of(environment, "SYSTEM_ACCESSTOKEN"),
        pull_request=PullRequest(number=number, head=head, fork=fork) if number else None,
        base=(get("SYSTEM_PULLREQUEST_TARGETBRANCH") or "").removeprefix("refs/heads/") or None,
        name=name_of(environment, "BUILD_DEFINITIONNAME", "SYSTEM_JOBNAME"),
        number=build,
        attempt=number_of(get("SYSTEM_JOBATTEMPT")),
        link=link_of(f"{project}/_build/results?buildId={build}"),
        commit=head or commit_of(get("BUILD_SOURCEVERSION")),
        who=get("BUILD_REQUESTEDFOR") or "",
        temporary=path_of(environment, "AGENT_TEMPDIRECTORY"),
        workspace=path_of(environment, "BUILD_SOURCESDIRECTORY"),
    )
    if get("BUILD_REPOSITORY_PROVIDER") in {None, "TfsGit"}:
        return run, ()
    problem = Problem(
        code="HF-TELL-6",
        message="the repository of this pipeline is not in Azure Repos, so no comment was written",
        hint="Plan in a job of the code host that has the pull request.",
    )
    return structs.replace(run, pull_request=None), (problem,)


class AzureApi:
    def __init__(self, run: CiRun, environment: Environment, limits: RetryLimits) -> None:
        self.client = HostClient(run.api, {}, self.authorization(token_of(run)), environment, limits)
        self.collection = run.api.rpartition("/")[0]
        self.repository = f"{run.api}/_apis/git/repositories/{run.repository}"

    def authorization(self, token: Secret) -> tuple[str, str, Secret]:
        """Of the job's own token."""
        return "Authorization", "Bearer ", token

    def author(self) -> str:
        url = f"{self.collection}/_apis/connectionData?{VERSION}-preview"
        user = self.client.field(url, "authenticatedUser")
        return user_name(user.get("id") if isinstance(user, dict) else None)

    def comments(self, pull_request: int) -> Iterator[Comment]:
        """The first comment of each thread. The list has no pages."""
        match self.client.request("GET", f"{self._threads(pull_request)}?{VERSION}"):
            case {"value": list(threads)}:
                yield from (comment for thread in threads if (comment := _comment(thread)) is not None)
            case _:
                raise HostError(0, "the response is not a list")

    def create(self, pull_request: int, body: str) -> bool:
        comment = {"parentCommentId": 0, "content": body, "commentType": "text"}
        thread = {"comments": [comment], "status": _CLOSED}
        return self.client.create(f"{self._threads(pull_request)}?{VERSION}", thread)

    def update(self, pull_request: int, comment: int, body: str) -> None:
        url = f"{self._threads(pull_request)}/{comment}/comments/{_FIRST}?{VERSION}"
        self.client.request("PATCH", url, {"content": body})

    def is_open(self, pull_request: int) -> bool:
        url = f"{self.repository}/pullRequests/{pull_request}?{VERSION}"
        return self.client.field(url, "status") == "active"

    def merged_with(self, commit: str) -> int | None:
        query = {"queries": [{"type": "lastMergeCommit", "items": [commit]}]}
        match self.client.request("POST", f"{self.repository}/pullrequestquery?{VERSION}", query):
            case {"results": [dict(by_commit)]}:
                return first_number(by_commit.get(commit), "pullRequestId")
            case _:
                return None

    def _threads(self, pull_request: int) -> str:
        return f"{self.repository}/pullRequests/{pull_request}/threads"


def _comment(thread: object) -> Comment | None:
    match thread:
        case {"isDeleted": True}:
            return None
        case {
            "id": int(id_),
            "comments": [{"id": 1, "content": str(body), "author": {"id": str(author)}}, *_],
        }:
            return Comment(id=id_, author=author, body=body)
        case _:
            return None


def fold(title: str, token: str) -> tuple[tuple[LogLine, ...], tuple[LogLine, ...]]:  # noqa: ARG001
    head = escape_line(one_line(title, WIDEST))
    return (LogLine(f"##[group]{head}"),), (LogLine("##[endgroup]"),)


def _annotation(given: Annotation) -> str:
    place = {"sourcepath": given.file, "linenumber": given.line if given.file is not None else None}
    properties = {"type": given.level, **{name: value for name, value in place.items() if value is not None}}
    shown = ";".join(f"{name}={_property(str(value))}" for name, value in properties.items())
    return f"##vso[task.logissue {shown}]{_text(f'{given.title}: {given.message}')}"


def _text(text: str) -> str:
    return escape_line(one_line(text, WIDEST)).replace("%", "%AZP25")


def _property(text: str) -> str:
    return _text(text).replace(";", "%3B").replace("]", "%5D")


AZURE = CodeHost(
    name="azure",
    title="Azure DevOps",
    job="Azure Pipelines",
    flag=("TF_BUILD", "true"),
    reference="!",
    budget=SizeBudget(size=COMMENT_SIZE, measure=characters),
    token="SYSTEM_ACCESSTOKEN",  # noqa: S106 - the name of a variable
    token_hint="Add to the step: env: SYSTEM_ACCESSTOKEN: $(System.AccessToken)",  # noqa: S106
    permission_hint="Grant the build service `Contribute to pull requests` in the repository's settings.",
    api="SYSTEM_COLLECTIONURI",
    full_report="the summary of the run",
    read_run=read_run,
    open_api=AzureApi,
    fold=fold,
    annotation=_annotation,
    upload_summary="##vso[task.uploadsummary]",
)
