"""The comment on a pull request: finds the one of a report, and calls GitHub's API to write it.

The token is sent to that host only. Before a retry it waits at least as long as GitHub asks.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from holdfast.kernel.secret import Secret
from holdfast.kernel.text import json_object
from holdfast.kernel.values import MaskedStruct
from holdfast.notify.actions import same_origin
from holdfast.system import clock, http
from holdfast.system.environment import Environment
from holdfast.system.http import HttpError, Response

MAX_TRIES = 6
_LIMITED = frozenset({403, 429})
_SECONDARY_PAUSE = 60.0
"""GitHub: "wait for at least one minute", and longer each time, if it does not say how long."""
_SERVER_FAULT = 500
_TIMED_OUT = 408


def is_rate_limited(answer: Response) -> bool:
    """As opposed to forbidden."""
    return answer.status in _LIMITED and (
        answer.status == 429  # noqa: PLR2004 - its name is Too Many Requests
        or "retry-after" in answer.headers
        or answer.headers.get("x-ratelimit-remaining") == "0"
        or b"rate limit" in answer.body.lower()
    )


def pause_after(answer: Response | None, attempt: int, *, now: float, chance: float) -> float | None:
    """Seconds before the next try (`attempt` starts at 0); None if a retry is useless.

    Server errors and missing answers are retried soon; a rate limit when it ends.
    """
    if answer is None or answer.status >= _SERVER_FAULT or answer.status == _TIMED_OUT:
        return float(2**attempt) * (0.5 + chance / 2)
    if not is_rate_limited(answer):
        return None
    return _rate_limit_pause(answer.headers, attempt, now) + chance


def _rate_limit_pause(headers: Mapping[str, str], attempt: int, now: float) -> float:
    after, reset = headers.get("retry-after"), headers.get("x-ratelimit-reset")
    if after is not None and after.strip().isdecimal():
        return float(after)
    if headers.get("x-ratelimit-remaining") == "0" and reset is not None and reset.strip().isdecimal():
        return max(0.0, float(reset) - now)
    return _SECONDARY_PAUSE * float(2**attempt)


class RetriesExhaustedError(Exception):
    def __init__(self, needed: float) -> None:
        super().__init__(f"another {needed:.0f} seconds would be needed")
        self.needed = needed


class RetryLimits:
    """Limits the time and the number of tries of one notification."""

    def __init__(
        self,
        seconds: float = 150.0,
        *,
        pause: Callable[[float], None] = clock.pause,
        monotonic: Callable[[], float] = clock.monotonic,
        now: Callable[[], float] = lambda: clock.now().timestamp(),
        chance: Callable[[], float] = clock.chance,
    ) -> None:
        self._end = monotonic() + seconds
        self._pause, self._monotonic, self._now, self._chance = pause, monotonic, now, chance
        self._attempt = 0

    @property
    def left(self) -> float:
        return max(0.0, self._end - self._monotonic())

    def wait(self, answer: Response | None) -> bool:
        """Wait before the next try; False if a retry is useless."""
        needed = pause_after(answer, self._attempt, now=self._now(), chance=self._chance())
        if needed is None:
            return False
        self._attempt += 1
        if self._attempt >= MAX_TRIES or needed >= self.left:
            raise RetriesExhaustedError(needed)
        self._pause(needed)
        return True


WORKFLOW_AUTHOR = "github-actions[bot]"
"""The author for the default token of a workflow."""
_VERSION = "2022-11-28"
_PAGE = 100
_MAX_PAGES = 100
_MAX_PAGE_BYTES = 64 * 1024 * 1024
_SECONDS = 20.0
_NEXT = re.compile(r'<([^<>]+)>\s*;[^,]*rel="?next"?')
_SUCCESS = range(200, 300)
_MARKER = re.compile(r"<!-- holdfast ([0-9a-f]{16}) ([0-9]{1,18})\.([0-9]{1,18}) -->\Z")
REPLACED = "This report was replaced by a newer one in an earlier comment."


class Comment(MaskedStruct, frozen=True, kw_only=True):
    id: int
    author: str
    body: str


class CommentPlan(Struct, frozen=True, kw_only=True):
    update: int | None = None
    """The comment to rewrite; None: create one."""
    retire: tuple[int, ...] = ()
    """Further comments of the same report, which two jobs can create at the same time: mark as replaced."""
    newer: bool = False
    """A newer run has already reported: do nothing."""


def marker(name: str, age: tuple[int, int]) -> str:
    """The invisible last line of a comment."""
    return f"<!-- holdfast {_key(name)} {age[0]}.{age[1]} -->"


def plan_comment(comments: Iterable[Comment], *, author: str, name: str, age: tuple[int, int]) -> CommentPlan:
    """Anyone can write a marker, so the author must match too. The oldest one stays: it may be linked."""
    ours = [
        (comment.id, written)
        for comment in comments
        if comment.author == author and (written := _age(comment.body, name)) is not None
    ]
    if any(written > age for _, written in ours):
        return CommentPlan(newer=True)
    ids = sorted(id_ for id_, _ in ours)
    return CommentPlan(update=ids[0] if ids else None, retire=tuple(ids[1:]))


def _age(body: str, name: str) -> tuple[int, int] | None:
    """The run that wrote it. The marker must be at the very end: the text before it may quote a plan."""
    match = _MARKER.search(body.rstrip())
    if match is None or match[1] != _key(name):
        return None
    return int(match[2]), int(match[3])


def _key(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class GithubError(Exception):
    """GitHub rejected a request, or returned an unexpected response."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class GithubApi:
    def __init__(
        self, api: str, token: Secret, repository: str, environment: Environment, limits: RetryLimits
    ) -> None:
        self._api, self._token, self._repository = api, token, repository
        self._environment, self._limits = environment, limits
        self.last_answer = "none"
        """A summary, for the error after the last try."""

    def author(self) -> str:
        """The owner of the token. A workflow's token cannot read `/user`, but can query `viewer`."""
        base = self._api.removesuffix("/v3")
        try:
            answer = self._request_json("POST", f"{base}/graphql", {"query": "query{viewer{login}}"})
        except GithubError:
            return WORKFLOW_AUTHOR
        match answer:
            case {"data": {"viewer": {"login": str(login)}}} if login:
                return login
            case _:
                return WORKFLOW_AUTHOR

    def comments(self, pull_request: int) -> Iterator[Comment]:
        """All of them, page by page. A link to another host is an error."""
        url: str | None = f"{self._issues}/{pull_request}/comments?per_page={_PAGE}"
        for _ in range(_MAX_PAGES):
            if url is None:
                return
            answer = self._request("GET", url)
            yield from _comments(_read(answer))
            url = self._next(answer)
        raise GithubError(0, "too many pages of comments")

    def create(self, pull_request: int, body: str) -> bool:
        """True if it was certainly created. False if that is unknown: look before the next try."""
        answer = self._send("POST", f"{self._issues}/{pull_request}/comments", {"body": body})
        if answer is not None and answer.status in _SUCCESS:
            return True
        if not self._limits.wait(answer):
            raise _refusal(answer)
        return False

    def update(self, comment: int, body: str) -> None:
        self._request_json("PATCH", f"{self._issues}/comments/{comment}", {"body": body})

    @property
    def _issues(self) -> str:
        return f"{self._api}/repos/{self._repository}/issues"

    def _next(self, answer: Response) -> str | None:
        link = _NEXT.search(answer.headers.get("link", ""))
        if link is None:
            return None
        if not same_origin(link[1], self._api):
            raise GithubError(0, "the next page of comments is on another host")
        return link[1]

    def _request_json(self, method: str, url: str, document: object) -> object:
        return _read(self._request(method, url, document))

    def _request(self, method: str, url: str, document: object | None = None) -> Response:
        """For requests that may be repeated."""
        while True:
            answer = self._send(method, url, document)
            if answer is not None and answer.status in _SUCCESS:
                return answer
            if not self._limits.wait(answer):
                raise _refusal(answer)

    def _send(self, method: str, url: str, document: object | None = None) -> Response | None:
        """None: no response."""
        headers = {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {self._token.reveal()}",
            "X-GitHub-Api-Version": _VERSION,
        }
        body = None if document is None else json.dumps(document).encode()
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            answer = http.request(
                method,
                url,
                environment=self._environment,
                headers=headers,
                body=body,
                seconds=max(0.1, min(_SECONDS, self._limits.left)),
                max_bytes=_MAX_PAGE_BYTES,
            )
        except HttpError as error:
            self.last_answer = str(error)
            return None
        self.last_answer = f"{answer.status} {_message(answer)}"
        return answer


def _read(answer: Response) -> object:
    try:
        document: object = json.loads(answer.body)
    except (ValueError, RecursionError):
        raise GithubError(answer.status, "the response is not JSON") from None
    return document


def _comments(page: object) -> Iterator[Comment]:
    """Skips comments without an author, whose user was deleted."""
    if not isinstance(page, list):
        raise GithubError(0, "the comments are not a list")
    for item in page:
        match item:
            case {"id": int(id_), "body": str(body), "user": {"login": str(login)}}:
                yield Comment(id=id_, author=login, body=body)
            case _:
                continue


def _refusal(answer: Response | None) -> GithubError:
    return GithubError(answer.status, _message(answer)) if answer else GithubError(0, "no response")


def _message(answer: Response) -> str:
    """GitHub's message for a failed request."""
    if answer.status in _SUCCESS:
        return "done"
    return str(json_object(answer.body).get("message") or "no reason given")
