"""What every code host offers: the current job, comments on pull requests, and folds in the job's log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from holdfast.kernel.errors import Problem
from holdfast.kernel.secret import Secret
from holdfast.kernel.values import MaskedStruct
from holdfast.notify.hosts.client import HostClient, HostError, RetryLimits
from holdfast.notify.size_budget import SizeBudget
from holdfast.system.addresses import is_local_address
from holdfast.system.environment import Environment

_SHA = re.compile(r"[0-9a-f]{40,64}\Z")
_URL = re.compile(r"https://[A-Za-z0-9.-]+(:[0-9]+)?(/[A-Za-z0-9._~%/-]*)?(\?[A-Za-z0-9=&]*)?\Z")


class PullRequest(Struct, frozen=True, kw_only=True):
    number: int
    head: str | None = None
    """The commit under review. The one that is checked out may be a temporary merge commit."""
    fork: bool = False


class CiRun(MaskedStruct, frozen=True, kw_only=True):
    """One run of a job. Values of an unexpected form are left out."""

    host: str
    repository: str | None
    """Its name or id in the host's API."""
    api: str
    token: Secret | None
    pull_request: PullRequest | None
    base: str | None
    """The branch that the pull request is for."""
    name: str
    """Identifies the report: each has its own comment."""
    number: int
    attempt: int
    link: str | None
    commit: str | None
    who: str
    """The user who started the run; unproved."""
    summary: Path | None = None
    outputs: Path | None = None
    temporary: Path | None = None
    workspace: Path | None = None
    artifact: str | None = None

    @property
    def age(self) -> tuple[int, int]:
        """Increases with every run of the job and every attempt."""
        return self.number, self.attempt


class Comment(MaskedStruct, frozen=True, kw_only=True):
    id: int
    author: str
    body: str


class CommentApi(Protocol):
    """May raise `HostError` and `RetriesExhaustedError`."""

    client: HostClient

    def author(self) -> str:
        """The owner of the token, as the author of comments."""
        ...

    def comments(self, pull_request: int) -> Iterator[Comment]:
        """All of them, oldest first."""
        ...

    def create(self, pull_request: int, body: str) -> bool:
        """True if it was certainly created. False if that is unknown: look before the next try."""
        ...

    def update(self, pull_request: int, comment: int, body: str) -> None: ...

    def is_open(self, pull_request: int) -> bool: ...

    def merged_with(self, commit: str) -> int | None:
        """The pull request that this commit came with."""
        ...


class LogLine(Struct, frozen=True):
    """A line for the runner: what it reads before the text, and the text."""

    text: str
    command: str = ""


class Annotation(Struct, frozen=True, kw_only=True):
    """An error or a warning, shown at its place in the code."""

    level: str
    title: str
    message: str
    file: str | None = None
    line: int | None = None


class CodeHost(Struct, frozen=True, kw_only=True):
    """One code host: texts for messages, and functions."""

    name: str
    """As in `--pull-request`."""
    title: str
    job: str
    """`GitHub Actions`"""
    flag: tuple[str, str]
    """The variable that its jobs have, and its value in lower case."""
    reference: str
    """Before the number of a pull request, where the host makes a link of it: `#12`, `!12`."""
    budget: SizeBudget
    token: str
    """The variable of the token."""
    token_hint: str
    permission_hint: str
    api: str
    """The variable of the API's address."""
    full_report: str
    """Where the full report is, if the run has no link."""
    read_run: Callable[[Environment], tuple[CiRun, tuple[Problem, ...]]]
    open_api: Callable[[CiRun, Environment, RetryLimits], CommentApi]
    fold: Callable[[str, str], tuple[tuple[LogLine, ...], tuple[LogLine, ...]]]
    """From a title and a random token: the lines that begin and end a fold in the log."""
    annotation: Callable[[Annotation], str] | None = None
    """As a command to the runner; None: it knows no such command."""
    upload_summary: str = ""
    """The command, before the path of a file, that adds it to the page of the run."""

    def is_running(self, environment: Environment) -> bool:
        return (environment.get(self.flag[0]) or "").lower() == self.flag[1]


def name_of(environment: Environment, *parts: str) -> str:
    """One report per job. Jobs of a matrix share their name and need HOLDFAST_COMMENT."""
    return environment.get("HOLDFAST_COMMENT") or "/".join(environment.get(part) or "" for part in parts)


def matching(pattern: re.Pattern[str], text: str | None) -> str | None:
    return text if text is not None and pattern.match(text) else None


def commit_of(text: str | None) -> str | None:
    return matching(_SHA, text)


def link_of(text: str | None) -> str | None:
    """An address that cannot end a Markdown link."""
    return matching(_URL, text)


def number_of(text: str | None) -> int:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,18}", text) else 0


def path_of(environment: Environment, name: str) -> Path | None:
    path = environment.get(name)
    return Path(path) if path is not None else None


def secret_of(environment: Environment, name: str) -> Secret | None:
    token = environment.get(name)
    return Secret(token) if token is not None else None


def token_of(run: CiRun) -> Secret:
    if run.token is None:
        raise ValueError("a comment needs a token")
    return run.token


def user_name(name: object) -> str:
    """The owner of the token, as a host returns it."""
    if not isinstance(name, str) or not name:
        raise HostError(0, "the response does not name the user of the token")
    return name


def first_number(requests: object, key: str) -> int | None:
    """The number of the first pull request in a list."""
    match requests:
        case [dict(request), *_] if isinstance(number := request.get(key), int):
            return number
        case _:
            return None


def is_safe(api: str) -> bool:
    """Whether a token may be sent there."""
    parts = urlsplit(api)
    return parts.scheme == "https" or is_local_address(parts.hostname or "")
