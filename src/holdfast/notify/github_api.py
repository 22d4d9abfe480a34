"""The few calls of GitHub's REST API that a comment needs. Its token goes to that host and no other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from holdfast.kernel.secret import Secret
from holdfast.notify.actions import same_origin
from holdfast.notify.comment import Comment
from holdfast.notify.retry import RetryLimits
from holdfast.system import http
from holdfast.system.environment import Environment
from holdfast.system.http import HttpError, Response

WORKFLOW_AUTHOR = "github-actions[bot]"
"""Who writes with the token that a workflow has by itself."""
_VERSION = "2022-11-28"
_PAGE = 100
_MOST_PAGES = 100
_LARGEST_PAGE = 64 * 1024 * 1024
_SECONDS = 20.0
_NEXT = re.compile(r'<([^<>]+)>\s*;[^,]*rel="?next"?')
_GOOD = range(200, 300)


class NotTakenError(Exception):
    """GitHub said no, or nothing that can be understood."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.words = words


class GithubApi:
    def __init__(
        self, api: str, token: Secret, repository: str, environment: Environment, patience: RetryLimits
    ) -> None:
        self._api, self._token, self._repository = api, token, repository
        self._environment, self.patience = environment, patience
        self.last = "nothing was asked"
        """What came of the last request, in a few words: for whoever must say why it was given up."""

    def author(self) -> str:
        """Who we are. A workflow's token cannot ask `/user`; it can ask who looks."""
        base = self._api.removesuffix("/v3")
        try:
            answer = self._asked("POST", f"{base}/graphql", {"query": "query{viewer{login}}"})
        except NotTakenError:
            return WORKFLOW_AUTHOR
        match answer:
            case {"data": {"viewer": {"login": str(login)}}} if login:
                return login
            case _:
                return WORKFLOW_AUTHOR

    def comments(self, pull_request: int) -> Iterator[Comment]:
        """All of them, page by page. A page that lies elsewhere is not followed."""
        url: str | None = f"{self._issues}/{pull_request}/comments?per_page={_PAGE}"
        for _ in range(_MOST_PAGES):
            if url is None:
                return
            answer = self._answer("GET", url)
            yield from _comments(_read(answer))
            url = self._next(answer)
        raise NotTakenError(0, "the list of comments has no end")

    def create(self, pull_request: int, body: str) -> bool:
        """True when it is there for certain. False: nobody knows, so look before another try."""
        answer = self._once("POST", f"{self._issues}/{pull_request}/comments", {"body": body})
        if answer is not None and answer.status in _GOOD:
            return True
        if not self.patience.again(answer):
            raise _refusal(answer)
        return False

    def update(self, comment: int, body: str) -> None:
        self._asked("PATCH", f"{self._issues}/comments/{comment}", {"body": body})

    @property
    def _issues(self) -> str:
        return f"{self._api}/repos/{self._repository}/issues"

    def _next(self, answer: Response) -> str | None:
        found = _NEXT.search(answer.headers.get("link", ""))
        if found is None:
            return None
        if not same_origin(found[1], self._api):
            raise NotTakenError(0, "the next page of comments is said to lie on another host")
        return found[1]

    def _asked(self, method: str, url: str, document: object) -> object:
        return _read(self._answer(method, url, document))

    def _answer(self, method: str, url: str, document: object | None = None) -> Response:
        """What may be done twice is tried again, as long as there is patience."""
        while True:
            answer = self._once(method, url, document)
            if answer is not None and answer.status in _GOOD:
                return answer
            if not self.patience.again(answer):
                raise _refusal(answer)

    def _once(self, method: str, url: str, document: object | None = None) -> Response | None:
        """None: no answer came."""
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
                seconds=max(0.1, min(_SECONDS, self.patience.left)),
                max_bytes=_LARGEST_PAGE,
            )
        except HttpError as error:
            self.last = str(error)
            return None
        self.last = f"{answer.status} {_words(answer)}"
        return answer


def _read(answer: Response) -> object:
    try:
        found: object = json.loads(answer.body)
    except (ValueError, RecursionError):
        raise NotTakenError(answer.status, "the answer is not JSON") from None
    return found


def _comments(page: object) -> Iterator[Comment]:
    """What is no comment by anybody, as after a user was deleted, is nobody's."""
    if not isinstance(page, list):
        raise NotTakenError(0, "the list of comments is no list")
    for one in page:
        match one:
            case {"id": int(id_), "body": str(body), "user": {"login": str(login)}}:
                yield Comment(id=id_, author=login, body=body)
            case _:
                continue


def _refusal(answer: Response | None) -> NotTakenError:
    return NotTakenError(answer.status, _words(answer)) if answer else NotTakenError(0, "no answer")


def _words(answer: Response) -> str:
    """What GitHub says about an answer that is no success."""
    if answer.status in _GOOD:
        return "done"
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        found = None
    return str(found.get("message") or "") if isinstance(found, dict) else "no reason given"
