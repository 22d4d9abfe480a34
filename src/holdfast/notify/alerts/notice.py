"""What one message says, whatever the channel: from the alerts that it is about. Pure.

Nothing here is quoted for a markup: every channel does that itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct, structs

from holdfast.config.notify import SEVERITIES
from holdfast.kernel.text import plural
from holdfast.kernel.values import MaskedStruct
from holdfast.notify.alerts.alert import Alert, AlertKind, Severity
from holdfast.system.markup import one_line

TITLE: Final = 250
LINE: Final = 500
LINES: Final = 20
_NAMES: Final = {
    AlertKind.DRIFT: ("stack drifted", "stacks drifted"),
    AlertKind.FAILED: ("run failed", "runs failed"),
    AlertKind.WAITING: ("plan waits for approval", "plans wait for approval"),
    AlertKind.BREAK_GLASS: ("break-glass act", "break-glass acts"),
    AlertKind.UNKNOWN: ("run has an unknown outcome", "runs have an unknown outcome"),
    AlertKind.GATE_FAILED: ("gate failed", "gates failed"),
    AlertKind.BUDGET_EXCEEDED: ("budget exceeded", "budgets exceeded"),
    AlertKind.CHANNEL_BROKEN: ("channel broken", "channels broken"),
}


class Notice(MaskedStruct, frozen=True, kw_only=True):
    id: str
    """Of the message, in every attempt: receivers recognise a repeated one by it."""
    kind: AlertKind
    severity: Severity
    resolved: bool = False
    test: bool = False
    title: str
    """What happened, where."""
    facts: tuple[tuple[str, str], ...] = ()
    """Where: names and values."""
    lines: tuple[str, ...] = ()
    """Evidence."""
    next_step: str | None = None
    link: str | None = None
    since: datetime
    until: datetime | None = None

    @property
    def status(self) -> str:
        return "Test" if self.test else "Resolved" if self.resolved else "Open"

    @property
    def headline(self) -> str:
        prefix = "Test: " if self.test else "Resolved: " if self.resolved else ""
        return f"{prefix}{self.title}"

    @property
    def times(self) -> str:
        until = f", resolved {_minute(self.until)}" if self.until is not None else ""
        return f"since {_minute(self.since)}{until}"


class Member(Struct, frozen=True, kw_only=True):
    """An alert of a message, and when it ended."""

    alert: Alert
    ended: datetime | None = None


def notice_of(id_: str, members: Sequence[Member]) -> Notice:
    if len(members) == 1:
        return _single(id_, members[0])
    return _group(id_, members)


def _single(id_: str, member: Member) -> Notice:
    alert = member.alert
    return Notice(
        id=id_,
        kind=alert.kind,
        severity=alert.severity,
        resolved=member.ended is not None,
        title=alert.title,
        facts=_facts(alert),
        lines=alert.details[:LINES] if len(alert.details) <= LINES else _cut(alert.details),
        next_step=None if member.ended is not None else alert.next_step,
        link=alert.link,
        since=alert.since,
        until=member.ended,
    )


def _facts(alert: Alert) -> tuple[tuple[str, str], ...]:
    environment = alert.environment
    if alert.production and environment is not None:
        environment = f"{environment} (production)"
    facts = (
        ("Stack", alert.stack),
        ("Environment", environment),
        ("Target", alert.target),
        ("Tenant", alert.tenant),
        ("Run", alert.run),
    )
    return tuple((name, value) for name, value in facts if value)


def _cut(lines: Sequence[str]) -> tuple[str, ...]:
    return (*lines[: LINES - 1], f"… {plural(len(lines) - LINES + 1, 'more line')}")


def _group(id_: str, members: Sequence[Member]) -> Notice:
    """Those that go on come first."""
    going_on = [member for member in members if member.ended is None]
    ended = [member for member in members if member.ended is not None]
    kind = members[0].alert.kind
    lines = (
        *(member.alert.title for member in going_on),
        *(f"resolved: {member.alert.title}" for member in ended),
    )
    resolved = f", {len(ended)} resolved" if ended and going_on else ""
    return Notice(
        id=id_,
        kind=kind,
        severity=max((member.alert.severity for member in members), key=SEVERITIES.index),
        resolved=not going_on,
        title=f"{plural(len(members), *_NAMES[kind])}{resolved}",
        lines=_cut(lines) if len(lines) > LINES else lines,
        next_step=going_on[0].alert.next_step if going_on else None,
        link=next((member.alert.link for member in (*going_on, *ended) if member.alert.link), None),
        since=min(member.alert.since for member in members),
        until=None if going_on else max(member.ended for member in members if member.ended is not None),
    )


def fingerprint(notice: Notice) -> str:
    """Equal, if a reader learns nothing new."""
    told = structs.replace(notice, until=None)
    return hashlib.sha256(msgspec.json.encode(told)).hexdigest()


def clean_notice(notice: Notice, clean: Callable[[str], str]) -> Notice:
    """Redacted once more, on single lines, with every character visible, cut to a length."""

    def text(value: str, width: int = LINE) -> str:
        return one_line(clean(value), width)

    return structs.replace(
        notice,
        title=text(notice.title, TITLE),
        facts=tuple((name, text(value, TITLE)) for name, value in notice.facts),
        lines=tuple(map(text, notice.lines)),
        next_step=text(notice.next_step) if notice.next_step is not None else None,
        link=_link(clean(notice.link)) if notice.link is not None else None,
    )


def _link(link: str) -> str | None:
    """An address that ends no link of any markup."""
    allowed = set("-._~:/?#@!&=+,;%")
    right = link.startswith(("https://", "http://")) and len(link) <= LINE
    return (
        link
        if right and all(char.isascii() and (char.isalnum() or char in allowed) for char in link)
        else None
    )


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
