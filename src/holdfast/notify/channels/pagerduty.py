"""PagerDuty, Events API v2. The id of a message is its `dedup_key`: repeated events join one incident."""

from __future__ import annotations

from typing import Any, Final

from holdfast.config.notify import PagerDutySettings
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

_SUMMARY: Final = 1024
_SOURCE: Final = 255


def event_of(notice: Notice, routing_key: str, *, resolve: bool) -> dict[str, Any]:
    event: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": "resolve" if resolve else "trigger",
        "dedup_key": notice.id,
    }
    if resolve:
        return event
    facts = dict(notice.facts)
    event["payload"] = {
        "summary": cut(notice.headline, _SUMMARY),
        "source": cut(facts.get("Stack") or "holdfast", _SOURCE),
        "severity": notice.severity.value,
        "timestamp": notice.since.isoformat(),
        "component": facts.get("Target"),
        "group": facts.get("Environment"),
        "class": notice.kind.value,
        "custom_details": {**facts, "next_step": notice.next_step, "details": "\n".join(notice.lines)},
    }
    event["client"] = "Holdfast"
    if notice.link is not None:
        event["links"] = [{"href": notice.link, "text": "Open"}]
        event["client_url"] = notice.link
    return event


class PagerDuty:
    def __init__(self, settings: PagerDutySettings, access: Access) -> None:
        self._settings, self._access = settings, access

    def send(self, notice: Notice, handle: str | None, *, again: bool) -> Sent:  # noqa: ARG002 - by `dedup_key`
        if notice.test:
            self._enqueue(notice, resolve=False)
            answer = self._enqueue(notice, resolve=True)
            return Sent(answer=f"{answer} (triggered and resolved)")
        if notice.resolved and handle is None:
            # It began and ended before it could be told: an incident that shows it.
            self._enqueue(notice, resolve=False)
        return Sent(answer=self._enqueue(notice, resolve=notice.resolved), handle=notice.id)

    def _enqueue(self, notice: Notice, *, resolve: bool) -> str:
        key = secret_text(self._access, self._settings.routing_key)
        url = f"{self._settings.url.rstrip('/')}/v2/enqueue"
        answer = document_of(post(self._access, "POST", url, body=event_of(notice, key, resolve=resolve)))
        return f"{answer.get('status')}: {answer.get('message')}"[:100]


PAGERDUTY: Final = ChannelKind(name="pagerduty", title="PagerDuty", in_place=always, open=PagerDuty)
