"""The outbox: alerts that go on, the messages about them, and how each channel is. Pure.

A message is about one alert, or about many that began together. What it should say follows from its alerts;
what its receiver knows is `sent`. As long as the two differ, it is due: so however often an alert changes
before it is sent, its receiver sees the newest state, and a message that was delivered is not sent again.

Every function takes an outbox and returns one. Who stores it compares and swaps (`stored_outbox.py`), so a
message that is `taken` is sent by one sender; with `attempts` a late one is recognised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from msgspec import field, structs

from holdfast.kernel.values import MaskedStruct
from holdfast.notify.alerts.alert import Alert, AlertKind, Severity
from holdfast.notify.alerts.limits import ChannelState, free_at, with_one_more
from holdfast.notify.alerts.notice import LINE, LINES, TITLE, Member, Notice, fingerprint, notice_of
from holdfast.notify.alerts.routing import Rules, broken_key, channels_for, is_wanted, wants
from holdfast.system.markup import one_line

SINGLES: Final = 5
"""So many of one kind are told one by one within the window; more begin, or join, a group."""
WINDOW: Final = timedelta(minutes=10)
TAKEN: Final = timedelta(seconds=60)
"""Much longer than an attempt takes."""
BROKEN_AFTER: Final = 3
"""Failed attempts in a row."""
_KEPT: Final = timedelta(days=30)
"""Dead messages, and those of channels that are no longer configured."""
_HOURS_CHECK: Final = timedelta(minutes=1)


class Issue(MaskedStruct, frozen=True, kw_only=True):
    """An alert from its start to its end. The same key later is another issue."""

    id: str
    alert: Alert
    opened: datetime
    ended: datetime | None = None
    channels: tuple[str, ...] = ()
    """Those that have, or had, a message about it."""


class Message(MaskedStruct, frozen=True, kw_only=True):
    id: str
    channel: str
    kind: AlertKind
    issues: tuple[str, ...]
    group: bool = False
    created: datetime
    sent: str | None = None
    """The fingerprint of what was delivered."""
    sent_at: datetime | None = None
    handle: str | None = None
    """By which the channel finds it again."""
    closed: bool = False
    """Its end was delivered, or is not worth a message."""
    attempts: int = 0
    """Since it was delivered last, with the one that runs."""
    next_try: datetime | None = None
    taken_until: datetime | None = None
    error: str | None = None
    dead: datetime | None = None


class Outbox(MaskedStruct, frozen=True, kw_only=True):
    issues: Mapping[str, Issue] = field(default_factory=dict)
    messages: Mapping[str, Message] = field(default_factory=dict)
    channels: Mapping[str, ChannelState] = field(default_factory=dict)
    merged: str | None = None
    """The fingerprint of `notify`, as the default branch had it last (`review.py`)."""

    @property
    def open(self) -> Iterator[Issue]:
        return (issue for issue in self.issues.values() if issue.ended is None)

    def members(self, message: Message) -> tuple[Member, ...]:
        return tuple(
            Member(alert=self.issues[id_].alert, ended=self.issues[id_].ended) for id_ in message.issues
        )

    def notice(self, message: Message) -> Notice:
        return notice_of(message.id, self.members(message))


NewId = Callable[[], str]


# Alerts


def with_alert(outbox: Outbox, alert: Alert, now: datetime, new_id: NewId) -> Outbox:
    """A new issue, the newest state of one that goes on, or its end."""
    current = next((issue for issue in outbox.open if issue.alert.key == alert.key), None)
    if current is None:
        if alert.resolved:
            return outbox
        issue = Issue(id=new_id(), alert=_bounded(alert), opened=now)
        return structs.replace(outbox, issues={**outbox.issues, issue.id: issue})
    if alert.resolved:
        # What it was about stays; how it ended is added.
        last = _bounded(structs.replace(alert, since=current.alert.since))
        ended = structs.replace(current, ended=now, alert=_ending(current.alert, last))
        return structs.replace(outbox, issues={**outbox.issues, current.id: ended})
    newest = _bounded(structs.replace(alert, since=min(alert.since, current.alert.since)))
    return structs.replace(
        outbox, issues={**outbox.issues, current.id: structs.replace(current, alert=newest)}
    )


def with_alerts(outbox: Outbox, alerts: tuple[Alert, ...], now: datetime, new_id: NewId) -> Outbox:
    for alert in alerts:
        outbox = with_alert(outbox, alert, now, new_id)
    return outbox


def _ending(alert: Alert, last: Alert) -> Alert:
    return structs.replace(
        alert, details=last.details or alert.details, link=last.link or alert.link, resolved=True
    )


def _bounded(alert: Alert) -> Alert:
    """What is stored of an alert has a limit, whoever raised it."""

    def short(text: str | None) -> str | None:
        return one_line(text, TITLE) if text is not None else None

    details = alert.details[:LINES]
    if len(alert.details) > LINES:
        details = (*details[:-1], f"… {len(alert.details) - LINES + 1} more lines")
    return structs.replace(
        alert,
        key=alert.key[:500],
        title=one_line(alert.title, TITLE),
        details=tuple(one_line(line, LINE) for line in details),
        next_step=one_line(alert.next_step, LINE) if alert.next_step is not None else None,
        stack=short(alert.stack),
        environment=short(alert.environment),
        target=short(alert.target),
    )


# Messages


def with_messages(outbox: Outbox, rules: Rules, now: datetime, new_id: NewId) -> Outbox:
    """Every open alert has a message on each channel that it belongs to; what is over is removed."""
    outbox = _without_old(outbox, rules, now)
    pending: dict[tuple[str, AlertKind], list[str]] = {}
    for issue in sorted(outbox.issues.values(), key=lambda issue: (issue.opened, issue.id)):
        # An act is told also if it is over already.
        if issue.ended is not None and issue.alert.kind is not AlertKind.BREAK_GLASS:
            continue
        for channel in channels_for(issue.alert, rules, now):
            if channel not in issue.channels:
                pending.setdefault((channel, issue.alert.kind), []).append(issue.id)
    messages, issues = dict(outbox.messages), dict(outbox.issues)
    for (channel, kind), ids in pending.items():
        for message in _messages_for(messages, channel, kind, ids, now, new_id):
            messages[message.id] = message
        for id_ in ids:
            issues[id_] = structs.replace(issues[id_], channels=(*issues[id_].channels, channel))
    return structs.replace(outbox, messages=messages, issues=issues)


def _messages_for(
    messages: Mapping[str, Message],
    channel: str,
    kind: AlertKind,
    ids: list[str],
    now: datetime,
    new_id: NewId,
) -> Iterator[Message]:
    recent = [
        message
        for message in messages.values()
        if message.channel == channel and message.kind is kind and message.created > now - WINDOW
    ]
    group = next((m for m in recent if m.group and not m.closed and m.dead is None), None)
    if group is not None:
        yield structs.replace(group, issues=(*group.issues, *ids))
    elif (len(recent) + len(ids) > SINGLES and len(ids) > 1) or len(recent) >= SINGLES:
        yield Message(id=new_id(), channel=channel, kind=kind, issues=tuple(ids), group=True, created=now)
    else:
        for id_ in ids:
            yield Message(id=new_id(), channel=channel, kind=kind, issues=(id_,), created=now)


def _without_old(outbox: Outbox, rules: Rules, now: datetime) -> Outbox:
    messages: dict[str, Message] = {}
    for message in outbox.messages.values():
        over = all(outbox.issues[id_].ended is not None for id_ in message.issues)
        age = now - (message.dead or message.sent_at or message.created)
        forgotten = message.closed and age > WINDOW
        lost = (message.dead is not None or message.channel not in rules.channels) and over and age > _KEPT
        unsaid = over and message.sent is None and message.attempts == 0 and message.dead is None
        if unsaid and message.kind is not AlertKind.BREAK_GLASS:
            message = structs.replace(message, closed=True)  # noqa: PLW2901 - its beginning was never told
        if not forgotten and not lost:
            messages[message.id] = message
    named = {id_ for message in messages.values() for id_ in message.issues}
    issues = {
        id_: issue
        for id_, issue in outbox.issues.items()
        if id_ in named
        or issue.ended is None
        or (
            issue.alert.kind is AlertKind.BREAK_GLASS
            and not issue.channels
            and is_wanted(issue.alert, rules)
            and now - issue.ended < _KEPT
        )
    }
    return structs.replace(outbox, messages=messages, issues=issues)


# Sending


def due_at(outbox: Outbox, message: Message, rules: Rules) -> datetime | None:
    """When a message is to be sent. None: its receiver knows everything, or it is dead."""
    channel = rules.channels.get(message.channel)
    if message.closed or message.dead is not None or channel is None:
        return None
    notice = outbox.notice(message)
    if fingerprint(notice) == message.sent:
        return None
    state = outbox.channels.get(message.channel, ChannelState())
    times = [message.created, message.next_try, message.taken_until, state.paused_until]
    if message.sent_at is not None and not notice.resolved:
        times.append(message.sent_at + timedelta(seconds=channel.between_updates))
    return max(time for time in (*times, free_at(state, channel.per_minute)) if time is not None)


def spend(outbox: Outbox, channel: str, rules: Rules, now: datetime) -> Outbox | None:
    """With a message that is not in the outbox, such as a test. None: its limit is reached."""
    state, per_minute = outbox.channels.get(channel, ChannelState()), rules.channels[channel].per_minute
    free = free_at(state, per_minute)
    if free is not None and free > now:
        return None
    spent = with_one_more(state, per_minute, now)
    return structs.replace(outbox, channels={**outbox.channels, channel: spent})


def next_due(outbox: Outbox, rules: Rules, now: datetime) -> datetime | None:
    """When there is something to do next."""
    times = [
        due for message in outbox.messages.values() if (due := due_at(outbox, message, rules)) is not None
    ]
    if any(channel_left(issue, rules) for issue in outbox.open):
        times.append(now + _HOURS_CHECK)
    return min(times, default=None)


def channel_left(issue: Issue, rules: Rules) -> bool:
    """A channel gets it later, when the hours of its route begin."""
    return any(
        route.channel not in issue.channels and wants(route, issue.alert)
        for route in rules.routes
        if route.channel in rules.channels and route.hours
    )


def take(outbox: Outbox, channel: str, rules: Rules, now: datetime) -> tuple[Outbox, Message | None]:
    """The message of this channel that waited longest, if one may be sent now."""
    if channel not in rules.channels:
        return outbox, None
    if any(
        message.taken_until is not None and message.taken_until > now
        for message in outbox.messages.values()
        if message.channel == channel
    ):
        return outbox, None  # One at a time, so that they stay in order.
    due = [
        (at, message.created, message.id)
        for message in outbox.messages.values()
        if message.channel == channel and (at := due_at(outbox, message, rules)) is not None and at <= now
    ]
    if not due:
        return outbox, None
    message = outbox.messages[min(due)[2]]
    taken = structs.replace(message, attempts=message.attempts + 1, taken_until=now + TAKEN)
    state = outbox.channels.get(channel, ChannelState())
    return _with(outbox, taken, with_one_more(state, rules.channels[channel].per_minute, now)), taken


def finish(outbox: Outbox, taken: Message, notice: Notice, handle: str | None, now: datetime) -> Outbox:
    """It was delivered as this notice."""
    message = outbox.messages.get(taken.id)
    if message is None or message.attempts != taken.attempts:
        return outbox
    delivered = structs.replace(
        message,
        sent=fingerprint(notice),
        sent_at=now,
        handle=handle,
        closed=notice.resolved and fingerprint(outbox.notice(message)) == fingerprint(notice),
        attempts=0,
        next_try=None,
        taken_until=None,
        error=None,
        dead=None,
    )
    state = outbox.channels.get(message.channel, ChannelState())
    outbox = _with(
        outbox, delivered, structs.replace(state, delivered=now, failures=0, error=None, paused_until=None)
    )
    return _with_channel_issue(outbox, message.channel, None, now, lambda: "")


class Failure(MaskedStruct, frozen=True, kw_only=True):
    error: str
    """Without an address, a header or a secret."""
    delay: float | None
    """Seconds until the next attempt. None: there is none."""
    pause: float = 0.0
    """Seconds in which the channel takes nothing."""
    limited: bool = False
    """The channel asked to wait: that is no failed attempt."""


def fail(outbox: Outbox, taken: Message, failure: Failure, now: datetime, new_id: NewId) -> Outbox:
    message = outbox.messages.get(taken.id)
    if message is None or message.attempts != taken.attempts:
        return outbox
    pause = now + timedelta(seconds=failure.pause) if failure.pause else None
    state = outbox.channels.get(message.channel, ChannelState())
    if failure.limited:
        waiting = structs.replace(
            message, attempts=message.attempts - 1, taken_until=None, next_try=pause, error=failure.error
        )
        return _with(outbox, waiting, structs.replace(state, paused_until=pause))
    failed = structs.replace(
        message,
        taken_until=None,
        error=failure.error,
        next_try=None if failure.delay is None else now + timedelta(seconds=failure.delay),
        dead=now if failure.delay is None else None,
    )
    broken = structs.replace(
        state, failures=state.failures + 1, error=failure.error, paused_until=pause or state.paused_until
    )
    outbox = _with(outbox, failed, broken)
    if broken.failures < BROKEN_AFTER and failed.dead is None:
        return outbox
    return _with_channel_issue(outbox, message.channel, failure.error, now, new_id)


def retry(outbox: Outbox, id_: str, now: datetime) -> Outbox | None:
    """A message that is dead or waits is due now, also if who sent it died. None: nothing is to be sent."""
    message = outbox.messages.get(id_)
    if message is None or message.closed or fingerprint(outbox.notice(message)) == message.sent:
        return None
    again = structs.replace(
        message,
        attempts=0 if message.dead else message.attempts,
        dead=None,
        next_try=now,
        taken_until=None,
    )
    state = outbox.channels.get(message.channel, ChannelState())
    return _with(outbox, again, structs.replace(state, paused_until=None))


def _with(outbox: Outbox, message: Message, state: ChannelState) -> Outbox:
    return structs.replace(
        outbox,
        messages={**outbox.messages, message.id: message},
        channels={**outbox.channels, message.channel: state},
    )


def _with_channel_issue(
    outbox: Outbox, channel: str, error: str | None, now: datetime, new_id: NewId
) -> Outbox:
    """That a channel is broken is an alert like any other. None: it works."""
    alert = Alert(
        kind=AlertKind.CHANNEL_BROKEN,
        key=broken_key(channel),
        resolved=error is None,
        severity=Severity.ERROR,
        title=f"The channel {channel} is broken: notifications do not arrive",
        details=() if error is None else (f"the last attempt failed: {error}",),
        next_step=f"Correct the channel, then test it: holdfast notify test {channel}",
        since=now,
    )
    return with_alert(outbox, alert, now, new_id)
