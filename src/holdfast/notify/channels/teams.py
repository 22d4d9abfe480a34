"""Microsoft Teams, through the webhook of a workflow, which posts an Adaptive Card.

Untrusted texts are runs of a `RichTextBlock`, which know no Markdown: no link, no mention.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.config.notify import TeamsSettings
from holdfast.kernel.text import cut
from holdfast.notify.alerts.notice import Notice
from holdfast.notify.channels.interface import Access, ChannelKind, Sent, post, secret_text

LARGEST: Final = 28_000
"""Bytes of a message: Teams refuses more than 28 KB."""
_COLORS: Final = {"critical": "Attention", "error": "Attention", "warning": "Warning", "info": "Accent"}


def message_of(notice: Notice) -> dict[str, Any]:
    lines = list(notice.lines)
    while True:
        message = _message(notice, lines)
        if len(msgspec.json.encode(message)) <= LARGEST or not lines:
            return message
        lines = lines[: len(lines) // 2]


def _message(notice: Notice, lines: list[str]) -> dict[str, Any]:
    color = "Good" if notice.resolved else _COLORS[notice.severity]
    body = [_text(notice.headline, weight="Bolder", size="Medium", color=color)]
    body += [_text(f"{name}: {value}") for name, value in notice.facts]
    body.append(_text(notice.times, isSubtle=True))
    body += [_text(line, fontType="Monospace") for line in lines]
    if left := len(notice.lines) - len(lines):
        body.append(_text(f"… {left} more lines"))
    if notice.next_step is not None:
        body.append(_text(f"Next: {notice.next_step}", weight="Bolder"))
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "fallbackText": cut(notice.headline, 100),
        "body": body,
    }
    if notice.link is not None:
        card["actions"] = [{"type": "Action.OpenUrl", "title": "Open", "url": notice.link}]
    attachment = {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": None,
        "content": card,
    }
    return {"type": "message", "attachments": [attachment]}


def _text(text: str, **style: Any) -> dict[str, Any]:
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **style}]}


class Teams:
    def __init__(self, settings: TeamsSettings, access: Access) -> None:
        self._settings, self._access = settings, access

    def send(self, notice: Notice, handle: str | None, *, again: bool) -> Sent:  # noqa: ARG002 - it only posts
        url = secret_text(self._access, self._settings.webhook)
        answer = post(self._access, "POST", url, body=message_of(notice))
        return Sent(answer=f"{answer.status}: the workflow was started")


TEAMS: Final = ChannelKind(name="teams", title="Microsoft Teams", open=Teams)
