"""Slack: an incoming webhook, which only posts, or a bot, which changes its message.

All texts are `plain_text`: Slack makes no mention, link or formatting of them.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.config.notify import SlackSettings
from holdfast.kernel.text import cut
from holdfast.notify.alerts.notice import Notice
from holdfast.notify.channels.interface import (
    Access,
    ChannelError,
    ChannelKind,
    Sent,
    document_of,
    post,
    secret_text,
)

_HEADER: Final = 150
_SECTION: Final = 3000
_TOGETHER: Final = 10_000
"""Characters of a message; beyond about 13,000 Slack refuses it."""
_LOST: Final = frozenset({"message_not_found", "cant_update_message", "edit_window_closed"})
_SIGNS: Final = {"critical": "🔴", "error": "🔴", "warning": "🟠", "info": "🔵"}
_FAULTS: Final = frozenset({"internal_error", "fatal_error", "request_timeout", "service_unavailable"})


def message_of(notice: Notice) -> dict[str, Any]:
    sign = "✅" if notice.resolved else _SIGNS[notice.severity]
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": _plain(f"{sign} {notice.headline}", _HEADER)},
    ]
    if len(f"{sign} {notice.headline}") > _HEADER:
        blocks.append({"type": "section", "text": _plain(notice.title, _SECTION)})
    about = "\n".join((*(f"{name}: {value}" for name, value in notice.facts), notice.times))
    left = _TOGETHER
    for text in (about, "\n".join(notice.lines), f"Next: {notice.next_step}" if notice.next_step else ""):
        if text:
            blocks.append({"type": "section", "text": _plain(text, min(_SECTION, left))})
            left -= min(_SECTION, len(text))
    if notice.link is not None:
        url = notice.link.replace("&", "&amp;")
        link = {"type": "mrkdwn", "text": f"<{url}|Open>", "verbatim": True}
        blocks.append({"type": "context", "elements": [link]})
    fallback = _escaped(cut(f"{sign} {notice.headline}", _HEADER))
    return {
        "text": fallback, "mrkdwn": False, "blocks": blocks, "unfurl_links": False, "unfurl_media": False,
    }  # fmt: skip


def _plain(text: str, width: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": cut(text, width), "emoji": False}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class SlackWebhook:
    def __init__(self, settings: SlackSettings, access: Access) -> None:
        assert settings.webhook is not None  # noqa: S101 - `open_slack`
        self._address, self._access = settings.webhook, access

    def send(self, notice: Notice, handle: str | None, *, again: bool) -> Sent:  # noqa: ARG002 - it only posts
        url = secret_text(self._access, self._address)
        answer = post(self._access, "POST", url, body=message_of(notice))
        return Sent(answer=f"{answer.status} {answer.body[:50].decode(errors='replace')}")


class SlackBot:
    def __init__(self, settings: SlackSettings, access: Access) -> None:
        assert settings.token is not None  # noqa: S101 - `open_slack`
        self._settings, self._token, self._access = settings, settings.token, access

    def send(self, notice: Notice, handle: str | None, *, again: bool) -> Sent:  # noqa: ARG002 - Slack knows no key
        message = {"channel": self._settings.channel, **message_of(notice)}
        if handle is not None:
            answer = self._call("chat.update", {**message, "ts": handle})
            if answer.get("ok") is True:
                return Sent(answer="updated", handle=handle)
            if answer.get("error") not in _LOST:
                raise _refused(answer)
        answer = self._call("chat.postMessage", message)
        ts = answer.get("ts")
        if answer.get("ok") is not True or not isinstance(ts, str):
            raise _refused(answer)
        return Sent(answer=f"posted as {ts}", handle=ts)

    def _call(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {
            "authorization": f"Bearer {secret_text(self._access, self._token)}",
            "content-type": "application/json; charset=utf-8",
        }
        url = f"{self._settings.url.rstrip('/')}/{method}"
        return document_of(post(self._access, "POST", url, body=body, headers=headers))


def _refused(answer: dict[str, Any]) -> ChannelError:
    """Slack refuses with a status of 200 and a name."""
    name = answer.get("error")
    known = name if isinstance(name, str) and name.replace("_", "").isalnum() else "no reason given"
    return ChannelError(f"Slack refused the message: {known}", final=known not in _FAULTS)


def open_slack(settings: SlackSettings, access: Access) -> SlackWebhook | SlackBot:
    return SlackWebhook(settings, access) if settings.webhook is not None else SlackBot(settings, access)


def _is_bot(settings: SlackSettings) -> bool:
    return settings.token is not None


SLACK: Final = ChannelKind(name="slack", title="Slack", in_place=_is_bot, open=open_slack)
