"""Calls the API of a code host. The token is sent to that host only.

Before a retry it waits at least as long as the host asks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import urlsplit

from holdfast.kernel.secret import Secret
from holdfast.kernel.text import json_object
from holdfast.system import clock, http
from holdfast.system.environment import Environment
from holdfast.system.http import HttpError, Response

MAX_TRIES = 6
_LIMITED = frozenset({403, 429})
_SECONDARY_PAUSE = 60.0
"""If the host does not say how long: at least one minute, as GitHub asks, and longer each time."""
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
    after = headers.get("retry-after")
    reset = headers.get("x-ratelimit-reset") or headers.get("ratelimit-reset")
    remaining = headers.get("x-ratelimit-remaining") or headers.get("ratelimit-remaining")
    if after is not None and after.strip().isdecimal():
        return float(after)
    if remaining == "0" and reset is not None and reset.strip().isdecimal():
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


_MAX_PAGES = 100
_MAX_PAGE_BYTES = 64 * 1024 * 1024
_SECONDS = 20.0
_NEXT = re.compile(r'<([^<>]+)>\s*;[^,]*rel="?next"?')
_SUCCESS = frozenset(range(200, 300)) - {203}
"""Azure DevOps answers 203, with a page to sign in, if it does not accept the token."""


class HostError(Exception):
    """The host rejected a request, or returned an unexpected response."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class HostClient:
    """One API: its address, and the headers of every request, of which one holds the token."""

    def __init__(
        self,
        api: str,
        headers: Mapping[str, str],
        authorization: tuple[str, str, Secret],
        environment: Environment,
        limits: RetryLimits,
    ) -> None:
        self.api = api
        self._headers, self._authorization = headers, authorization
        self._environment, self._limits = environment, limits
        self.last_answer = "none"
        """A summary, for the error after the last try."""

    def pages(self, url: str) -> Iterator[object]:
        """The items of all pages of a list. A link to another host is an error."""
        following: str | None = url
        for _ in range(_MAX_PAGES):
            if following is None:
                return
            answer = self._request("GET", following)
            page = _read(answer)
            if not isinstance(page, list):
                raise HostError(0, "the response is not a list")
            yield from page
            following = self._next(answer)
        raise HostError(0, "the list has too many pages")

    def create(self, url: str, document: object) -> bool:
        """True if it was certainly created. False if that is unknown: look before the next try."""
        answer = self._send("POST", url, document)
        if answer is not None and answer.status in _SUCCESS:
            return True
        if not self._limits.wait(answer):
            raise _refusal(answer)
        return False

    def request(self, method: str, url: str, document: object | None = None) -> object:
        """For requests that may be repeated."""
        return _read(self._request(method, url, document))

    def field(self, url: str, name: str) -> object:
        """A field of a document; None if it has none."""
        document = self.request("GET", url)
        return document.get(name) if isinstance(document, dict) else None

    def _next(self, answer: Response) -> str | None:
        link = _NEXT.search(answer.headers.get("link", ""))
        if link is None:
            return None
        if not same_origin(link[1], self.api):
            raise HostError(0, "the next page of the list is on another host")
        return link[1]

    def _request(self, method: str, url: str, document: object | None = None) -> Response:
        while True:
            answer = self._send(method, url, document)
            if answer is not None and answer.status in _SUCCESS:
                return answer
            if not self._limits.wait(answer):
                raise _refusal(answer)

    def _send(self, method: str, url: str, document: object | None = None) -> Response | None:
        """None: no response."""
        name, scheme, token = self._authorization
        headers = {**self._headers, name: f"{scheme}{token.reveal()}"}
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


def same_origin(url: str, api: str) -> bool:
    """Whether a token for one may be sent to the other."""
    try:
        sides = [(side.scheme, side.hostname, side.port) for side in (urlsplit(url), urlsplit(api))]
    except ValueError:
        return False
    return sides[0] == sides[1]


def _read(answer: Response) -> object:
    try:
        document: object = json.loads(answer.body)
    except (ValueError, RecursionError):
        raise HostError(answer.status, "the response is not JSON") from None
    return document


def _refusal(answer: Response | None) -> HostError:
    return HostError(answer.status, _message(answer)) if answer else HostError(0, "no response")


def _message(answer: Response) -> str:
    """The host's message for a failed request."""
    if answer.status in _SUCCESS:
        return "done"
    document = json_object(answer.body)
    message = document.get("message") or document.get("error_description") or document.get("error")
    return message if isinstance(message, str) else json.dumps(message) if message else "no reason given"
