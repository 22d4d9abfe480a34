"""The current GitHub Actions job, from the variables of the runner. Values of another form are ignored."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from holdfast.kernel.errors import Problem
from holdfast.kernel.secret import Secret
from holdfast.kernel.values import MaskedStruct
from holdfast.system.environment import Environment

API = "https://api.github.com"
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}\Z")
_SERVER = re.compile(r"https://[A-Za-z0-9.-]+(:[0-9]+)?\Z")
_SHA = re.compile(r"[0-9a-f]{40,64}\Z")
_LARGEST_EVENT = 32 * 1024 * 1024


class PullRequest(Struct, frozen=True, kw_only=True):
    number: int
    head: str | None = None
    """The commit under review. GITHUB_SHA is a temporary merge commit."""
    fork: bool = False


class ActionsRun(MaskedStruct, frozen=True, kw_only=True):
    """One run of a job."""

    repository: str | None
    api: str
    token: Secret | None
    pull_request: PullRequest | None
    name: str
    """Identifies the report: each has its own comment."""
    number: int
    attempt: int
    link: str | None
    commit: str | None
    summary: Path | None
    outputs: Path | None
    temporary: Path | None
    workspace: Path | None
    artifact: str | None

    @property
    def age(self) -> tuple[int, int]:
        """Increases with every run of the workflow and every attempt."""
        return self.number, self.attempt


def in_actions(environment: Environment) -> bool:
    return environment.get("GITHUB_ACTIONS") == "true"


def read_run(environment: Environment) -> tuple[ActionsRun, tuple[Problem, ...]]:
    """The run, and problems in reading it."""
    event, problems = _read_event(_path(environment, "GITHUB_EVENT_PATH"))
    pull_request = pull_request_of(event)
    repository = _matching(_REPOSITORY, environment.get("GITHUB_REPOSITORY"))
    token = environment.get("GITHUB_TOKEN")
    return (
        ActionsRun(
            repository=repository,
            api=(environment.get("GITHUB_API_URL") or API).rstrip("/"),
            token=Secret(token) if token is not None else None,
            pull_request=pull_request,
            name=_name(environment),
            number=_number(environment.get("GITHUB_RUN_NUMBER")),
            attempt=_number(environment.get("GITHUB_RUN_ATTEMPT")),
            link=_link(environment, repository),
            commit=(pull_request.head if pull_request else None)
            or _matching(_SHA, environment.get("GITHUB_SHA")),
            summary=_path(environment, "GITHUB_STEP_SUMMARY"),
            outputs=_path(environment, "GITHUB_OUTPUT"),
            temporary=_path(environment, "RUNNER_TEMP"),
            workspace=_path(environment, "GITHUB_WORKSPACE"),
            artifact=environment.get("HOLDFAST_ARTIFACT"),
        ),
        problems,
    )


def default_branch(environment: Environment) -> str | None:
    """Its name in the event that started the job."""
    event, _ = _read_event(_path(environment, "GITHUB_EVENT_PATH"))
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
        number=number, head=_matching(_SHA, head[0]), fork=head[1] is not None and head[1] != base[1]
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


def _name(environment: Environment) -> str:
    """One report per job. Jobs of a matrix share their name and need HOLDFAST_COMMENT."""
    named = environment.get("HOLDFAST_COMMENT")
    return named or f"{environment.get('GITHUB_WORKFLOW') or ''}/{environment.get('GITHUB_JOB') or ''}"


def _link(environment: Environment, repository: str | None) -> str | None:
    server = _matching(_SERVER, environment.get("GITHUB_SERVER_URL"))
    run = _number(environment.get("GITHUB_RUN_ID"))
    return f"{server}/{repository}/actions/runs/{run}" if server and repository and run else None


def _matching(pattern: re.Pattern[str], text: str | None) -> str | None:
    return text if text is not None and pattern.match(text) else None


def _number(text: str | None) -> int:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,18}", text) else 0


def _path(environment: Environment, name: str) -> Path | None:
    path = environment.get(name)
    return Path(path) if path is not None else None


def same_origin(url: str, api: str) -> bool:
    """Whether a token for one may be sent to the other."""
    try:
        sides = [(side.scheme, side.hostname, side.port) for side in (urlsplit(url), urlsplit(api))]
    except ValueError:
        return False
    return sides[0] == sides[1]
