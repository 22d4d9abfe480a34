"""Issues on GitHub: opened, changed and commented on, closed. Found again by a marker in the body.

A comment is an e-mail to everyone who watches the repository, so updates come at most every ten minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from holdfast.config.notify import GithubSettings
from holdfast.kernel.text import cut
from holdfast.notify.alerts.notice import Notice, fingerprint
from holdfast.notify.channels.interface import (
    Access,
    ChannelError,
    ChannelKind,
    Sent,
    post,
    secret_text,
)
from holdfast.system.http import Response
from holdfast.system.markup import code, fenced, prose

_TITLE: Final = 256
_BODY: Final = 60_000
"""The limit is 65,536 characters."""
_PAGES: Final = 3
_PER_PAGE: Final = 100
_VERSION: Final = "2022-11-28"


def marker(notice: Notice) -> str:
    return f"<!-- holdfast alert {notice.id} -->"


def _comment_marker(notice: Notice) -> str:
    return f"<!-- holdfast alert {notice.id} {fingerprint(notice)[:12]} -->"


def body_of(notice: Notice) -> str:
    parts = (
        prose(notice.headline),
        "\n".join((*(f"- {name}: {code(value)}" for name, value in notice.facts), f"- {notice.times}")),
        fenced(list(notice.lines), "") if notice.lines else "",
        f"Next: {prose(notice.next_step)}" if notice.next_step else "",
        f"[Open]({notice.link})" if notice.link else "",
    )
    return f"{cut(_joined(parts), _BODY)}\n\n{marker(notice)}"


def _joined(parts: tuple[str, ...]) -> str:
    return "\n\n".join(filter(None, parts))


class Github:
    def __init__(self, settings: GithubSettings, access: Access) -> None:
        self._settings, self._access = settings, access
        self._issues = f"{settings.url.rstrip('/')}/repos/{settings.repository}/issues"

    def send(self, notice: Notice, handle: str | None, *, again: bool) -> Sent:
        known = handle if handle is not None and handle.isdecimal() else None
        number = known or (self._find(notice) if again else None)
        if number is None:
            number = self._create(notice)
            if not notice.resolved and not notice.test:
                return Sent(answer=f"opened issue #{number}", handle=number)
        closing = notice.resolved or notice.test
        self._comment(number, notice, again=again)
        change: dict[str, Any] = {"title": self._title(notice), "body": body_of(notice)}
        if closing:
            change |= {"state": "closed", "state_reason": "completed"}
        self._call("PATCH", f"{self._issues}/{number}", change)
        return Sent(answer=f"{'closed' if closing else 'updated'} issue #{number}", handle=number)

    def _create(self, notice: Notice) -> str:
        new = {"title": self._title(notice), "body": body_of(notice), "labels": list(self._settings.labels)}
        match msgspec.json.decode(self._call("POST", self._issues, new).body):
            case {"number": int(number)}:
                return str(number)
        raise ChannelError("GitHub did not return the number of the issue")

    def _title(self, notice: Notice) -> str:
        return cut(notice.title, _TITLE)

    def _find(self, notice: Notice) -> str | None:
        """The issue that an earlier attempt opened, whose answer was lost."""
        for page in range(1, _PAGES + 1):
            listed = self._list(f"{self._issues}?state=all&per_page={_PER_PAGE}&page={page}")
            for item in listed:
                match item:
                    case {"number": int(number), "body": str(body)} if marker(notice) in body:
                        return str(number)
            if len(listed) < _PER_PAGE:
                break
        return None

    def _comment(self, number: str, notice: Notice, *, again: bool) -> None:
        mark = _comment_marker(notice)
        if again and any(mark in body for body in self._comments(number)):
            return
        text = f"{prose(notice.headline)}\n\n{prose(notice.times)}\n\n{mark}"
        self._call("POST", f"{self._issues}/{number}/comments", {"body": text})

    def _comments(self, number: str) -> Iterator[str]:
        for item in self._list(f"{self._issues}/{number}/comments?per_page={_PER_PAGE}"):
            match item:
                case {"body": str(body)}:
                    yield body

    def _list(self, url: str) -> list[object]:
        found = msgspec.json.decode(self._call("GET", url).body)
        return found if isinstance(found, list) else []

    def _call(self, method: str, url: str, body: dict[str, Any] | None = None) -> Response:
        headers = {
            "authorization": f"Bearer {secret_text(self._access, self._settings.token)}",
            "accept": "application/vnd.github+json",
            "x-github-api-version": _VERSION,
        }
        return post(self._access, method, url, body=body, headers=headers)


GITHUB: Final = ChannelKind(name="github", title="GitHub issue", open=Github)
