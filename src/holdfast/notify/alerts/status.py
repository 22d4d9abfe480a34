"""What an outbox shows: open alerts, how each channel is, and what has not arrived. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec
from msgspec import Struct

from holdfast.notify.alerts.alert import AlertKind, Severity
from holdfast.notify.alerts.limits import ChannelState
from holdfast.notify.alerts.notice import Notice, fingerprint
from holdfast.notify.alerts.outbox import Message, Outbox, due_at
from holdfast.notify.alerts.routing import Rules


class AlertStatus(Struct, frozen=True, kw_only=True):
    id: str
    kind: str
    key: str
    severity: str
    title: str
    stack: str | None
    environment: str | None
    target: str | None
    since: str
    channels: tuple[str, ...]
    """Those that were told, or are to be."""


class ChannelStatus(Struct, frozen=True, kw_only=True):
    name: str
    state: str
    """`ok` (all arrived), `unused` (none was sent yet), `waiting` (some are to be sent) or `failing`."""
    pending: int
    dead: int
    error: str | None
    """Of the last attempt, if it failed."""


class MessageStatus(Struct, frozen=True, kw_only=True):
    id: str
    channel: str
    title: str
    attempts: int
    next_try: str | None
    dead: str | None
    error: str | None


class NotifyStatus(Struct, frozen=True, kw_only=True):
    version: int = 1
    alerts: tuple[AlertStatus, ...]
    channels: tuple[ChannelStatus, ...]
    messages: tuple[MessageStatus, ...]
    """Those that have not arrived."""

    def document(self) -> dict[str, object]:
        document: dict[str, object] = msgspec.to_builtins(self)
        return document


def status_of(outbox: Outbox, rules: Rules, now: datetime) -> NotifyStatus:
    left = [message for message in outbox.messages.values() if _is_left(outbox, message)]
    by_channel: Mapping[str, list[Message]] = {
        name: [message for message in left if message.channel == name] for name in rules.channels
    }
    return NotifyStatus(
        alerts=tuple(
            AlertStatus(
                id=issue.id,
                kind=issue.alert.kind.value,
                key=issue.alert.key,
                severity=issue.alert.severity.value,
                title=issue.alert.title,
                stack=issue.alert.stack,
                environment=issue.alert.environment,
                target=issue.alert.target,
                since=issue.alert.since.isoformat(),
                channels=issue.channels,
            )
            for issue in sorted(outbox.open, key=lambda issue: issue.opened)
        ),
        channels=tuple(
            _channel(name, messages, outbox.channels.get(name, ChannelState()))
            for name, messages in by_channel.items()
        ),
        messages=tuple(_message(outbox, message, rules, now) for message in left),
    )


def _is_left(outbox: Outbox, message: Message) -> bool:
    return not message.closed and fingerprint(outbox.notice(message)) != message.sent


def _channel(name: str, messages: list[Message], state: ChannelState) -> ChannelStatus:
    dead = sum(message.dead is not None for message in messages)
    failing = bool(state.failures) or dead > 0
    return ChannelStatus(
        name=name,
        state="failing"
        if failing
        else "waiting"
        if messages
        else "unused"
        if state.delivered is None
        else "ok",
        pending=len(messages) - dead,
        dead=dead,
        error=state.error,
    )


def _message(outbox: Outbox, message: Message, rules: Rules, now: datetime) -> MessageStatus:
    due = due_at(outbox, message, rules)
    return MessageStatus(
        id=message.id,
        channel=message.channel,
        title=outbox.notice(message).headline,
        attempts=message.attempts,
        next_try=None if due is None else max(due, now).isoformat(),
        dead=None if message.dead is None else message.dead.isoformat(),
        error=message.error,
    )


def notice_of_a_test(id_: str, now: datetime, channel: str) -> Notice:
    """Marked as a test, and closed by the same request where the channel has something to close."""
    return Notice(
        id=id_,
        kind=AlertKind.CHANNEL_BROKEN,
        severity=Severity.INFO,
        test=True,
        title=f"the channel {channel} works",
        facts=(("Stack", "example/stack"), ("Environment", "example")),
        lines=("This is a test of Holdfast. Nothing happened, and nothing is to be done.",),
        next_step="nothing",
        since=now,
    )
