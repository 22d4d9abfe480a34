"""Sends what is due of one outbox, over the channels of one configuration.

At least once: a process can die between the answer of a receiver and its record here. Every attempt has the
id of its message, by which receivers recognise a repeated one where they can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from typing import Final

from msgspec import Struct

from holdfast.config.notify import ChannelEntry, NotifySettings
from holdfast.config.secret_refs import SecretRef
from holdfast.kernel.errors import HoldfastError
from holdfast.notify.alerts import outbox as transitions
from holdfast.notify.alerts.alert import Alert
from holdfast.notify.alerts.notice import Notice, clean_notice
from holdfast.notify.alerts.outbox import Failure, Message
from holdfast.notify.alerts.routing import Rules, rules_from_settings
from holdfast.notify.alerts.stored_outbox import StoredOutbox
from holdfast.notify.channels.catalogue import changing_channels, kind_named
from holdfast.notify.channels.interface import Access, Channel, ChannelError, Sent
from holdfast.notify.outgoing_webhooks import retry_delay
from holdfast.system import clock

_THREADS: Final = 8


class Attempt(Struct, frozen=True, kw_only=True):
    message: str
    channel: str
    error: str | None
    dead: bool = False


class Delivery(Struct, frozen=True, kw_only=True):
    outbox: StoredOutbox
    settings: NotifySettings
    access: Access
    clean: Callable[[str], str]
    """The redactor."""
    new_id: Callable[[], str] = clock.new_id
    delay: Callable[[int], float | None] = lambda attempts: retry_delay(attempts, clock.chance())
    report: Callable[[Attempt], None] = lambda _: None

    @property
    def rules(self) -> Rules:
        return rules_from_settings(self.settings, changing_channels(self.settings))

    def raise_alerts(self, alerts: tuple[Alert, ...]) -> None:
        """Into the outbox, and to the channels with the next `deliver`."""
        now, rules = self.access.now(), self.rules

        def step(outbox: transitions.Outbox) -> tuple[transitions.Outbox, None]:
            with_all = transitions.with_alerts(outbox, alerts, now, self.new_id)
            return transitions.with_messages(with_all, rules, now, self.new_id), None

        self.outbox.change(step)

    def deliver(self, until: float | None = None) -> datetime | None:
        """What is due now, and on the command line until this time of the monotonic clock what becomes due.

        Returns when there is something to do next.
        """
        entries = {entry.name: entry for entry in self.settings.channels}
        rules = self.rules
        while True:
            now = self.access.now()
            outbox = self.outbox.change(partial(self._routed, rules, now))
            due = {
                message.channel
                for message in outbox.messages.values()
                if (at := transitions.due_at(outbox, message, rules)) is not None and at <= now
            }
            if due:
                with ThreadPoolExecutor(_THREADS, thread_name_prefix="holdfast-notify") as pool:
                    list(pool.map(lambda name: self._drain(entries[name], rules, until), sorted(due)))
                # A channel may be broken now, which others are to tell.
                outbox = self.outbox.change(partial(self._routed, rules, self.access.now()))
            next_ = transitions.next_due(outbox, rules, now)
            if until is None or next_ is None:
                return next_
            pause = (next_ - self.access.now()).total_seconds()
            if clock.monotonic() + max(0.0, pause) >= until:
                return next_
            if pause > 0:
                clock.pause(pause)

    def _routed(
        self, rules: Rules, now: datetime, outbox: transitions.Outbox
    ) -> tuple[transitions.Outbox, transitions.Outbox]:
        routed = transitions.with_messages(outbox, rules, now, self.new_id)
        return routed, routed

    def _drain(self, entry: ChannelEntry, rules: Rules, until: float | None) -> None:
        """One after the other, as long as the channel takes them."""
        while until is None or clock.monotonic() < until:
            now = self.access.now()
            taken = self.outbox.change(partial(transitions.take, channel=entry.name, rules=rules, now=now))
            if taken is None or not self._send(entry, taken):
                return

    def _send(self, entry: ChannelEntry, taken: Message) -> bool:
        """One attempt, and what became of it. False: it was not delivered."""
        notice = self.outbox.read().notice(taken)
        try:
            sent = self._attempt(entry, notice, taken)
        except ChannelError as error:
            self._failed(taken, error.reason, wait=error.wait)
        except HoldfastError as error:
            self._failed(taken, f"{error.problem.code}: {error.problem.message}"[:300])
        except Exception as error:  # noqa: BLE001 - a channel never stops the others
            self._failed(taken, type(error).__name__)
        else:
            self._finish(taken, notice, sent.handle)
            return True
        return False

    def _finish(self, taken: Message, notice: Notice, handle: str | None) -> None:
        now = self.access.now()
        self.outbox.change(
            lambda outbox: (transitions.finish(outbox, taken, notice, handle or taken.handle, now), None)
        )
        self.report(Attempt(message=taken.id, channel=taken.channel, error=None))

    def _attempt(self, entry: ChannelEntry, notice: Notice, taken: Message) -> Sent:
        channel = _open_channel(entry, self.access)
        return channel.send(clean_notice(notice, self.clean), taken.handle, again=taken.attempts > 1)

    def _failed(self, taken: Message, error: str, *, wait: float | None = None) -> None:
        delay = self.delay(taken.attempts)
        failure = Failure(error=self.clean(error), delay=delay, pause=wait or 0.0, limited=wait is not None)
        now = self.access.now()
        self.outbox.change(lambda outbox: (transitions.fail(outbox, taken, failure, now, self.new_id), None))
        dead = delay is None and wait is None
        self.report(Attempt(message=taken.id, channel=taken.channel, error=failure.error, dead=dead))


def _open_channel(entry: ChannelEntry, access: Access) -> Channel:
    """Its secrets are read first, so that the redactor knows them."""
    for name in getattr(entry.settings, "__struct_fields__", ()):
        if isinstance(ref := getattr(entry.settings, name), SecretRef):
            access.secret(ref)
    return kind_named(entry.kind).open(entry.settings, access)


def send_test(entry: ChannelEntry, notice: Notice, access: Access, clean: Callable[[str], str]) -> Sent:
    """Past the outbox: its answer is what the caller wants to see."""
    channel = _open_channel(entry, access)
    return channel.send(clean_notice(notice, clean), None, again=False)


def channels_of(settings: NotifySettings) -> Mapping[str, ChannelEntry]:
    return {entry.name: entry for entry in settings.channels}
