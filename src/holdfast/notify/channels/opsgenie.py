"""Opsgenie, and Jira Service Management, which has its API under another address.

The id of a message is the alias of its alert: there is one open alert per alias. Both show HTML of some
fields and not of others, so look-alikes replace `<` and `>`, which read well in either.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.config.notify import OpsgenieSettings
from holdfast.kernel.text import cut
from holdfast.notify.alerts.notice import Notice
from holdfast.notify.channels.interface import (
    Access,
    ChannelKind,
    Sent,
    always,
    document_of,
    post,
    secret_text,
)

_MESSAGE: Final = 130
_DESCRIPTION: Final = 15_000
_DETAIL: Final = 500
_SOURCE: Final = "Holdfast"
_NO_TAGS: Final = str.maketrans("<>", "\u2039\u203a")
_PRIORITIES: Final = {"critical": "P1", "error": "P2", "warning": "P3", "info": "P5"}


def description_of(notice: Notice) -> str:
    parts = (
        notice.headline,
        "\n".join((*(f"{name}: {value}" for name, value in notice.facts), notice.times)),
        "\n".join(notice.lines),
        f"Next: {notice.next_step}" if notice.next_step else "",
        notice.link or "",
    )
    return _text("\n\n".join(filter(None, parts)), _DESCRIPTION)


def _text(text: str, width: int) -> str:
    return cut(text.translate(_NO_TAGS), width)


def alert_of(notice: Notice, tags: tuple[str, ...]) -> dict[str, Any]:
    facts = dict(notice.facts)
    return {
        "message": _text(notice.headline, _MESSAGE),
        "alias": notice.id,
        "description": description_of(notice),
        "priority": _PRIORITIES[notice.severity],
        "source": _SOURCE,
        "entity": _text(facts.get("Stack", ""), _DETAIL),
        "tags": ["holdfast", notice.kind.value, *tags][:20],
        "details": {name.lower(): _text(value, _DETAIL) for name, value in facts.items()},
    }


class Opsgenie:
    def __init__(self, settings: OpsgenieSettings, access: Access) -> None:
        self._settings, self._access = settings, access

    def send(self, notice: Notice, handle: str | None, *, again: bool) -> Sent:  # noqa: ARG002 - by alias
        answer = ""
        if handle is None:
            answer = self._call("POST", "", alert_of(notice, self._settings.tags))
        elif not notice.resolved:
            answer = self._update(notice)
        if notice.resolved or notice.test:
            answer = self._call(
                "POST",
                self._of(notice, "close"),
                {"source": _SOURCE, "note": _text(notice.headline, _DETAIL)},
            )
        return Sent(answer=answer, handle=notice.id)

    def _update(self, notice: Notice) -> str:
        """One field at a time: a second alert with the same alias would change nothing."""
        alert = alert_of(notice, self._settings.tags)
        answer = ""
        for field in ("message", "description", "priority"):
            answer = self._call("PUT", self._of(notice, field), {field: alert[field]})
        return answer

    def _of(self, notice: Notice, what: str) -> str:
        return f"/{notice.id}/{what}?identifierType=alias"

    def _call(self, method: str, path: str, body: dict[str, Any]) -> str:
        headers = {"authorization": f"GenieKey {secret_text(self._access, self._settings.key_)}"}
        url = f"{self._settings.url.rstrip('/')}/v2/alerts{path}"
        answer = document_of(post(self._access, method, url, body=body, headers=headers))
        return str(answer.get("result") or "accepted")[:100]


OPSGENIE: Final = ChannelKind(name="opsgenie", title="Opsgenie", in_place=always, open=Opsgenie)
JIRA: Final = ChannelKind(name="jira", title="Jira Service Management", in_place=always, open=Opsgenie)
