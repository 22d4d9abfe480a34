"""Whatever happens to alerts and channels: each reader learns the newest state once, and nothing is lost."""

from __future__ import annotations

from datetime import timedelta

from alerts_made import START, made_alert, settings_of
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec import structs

from holdfast.notify.alerts import outbox as steps
from holdfast.notify.alerts.alert import AlertKind
from holdfast.notify.alerts.notice import fingerprint
from holdfast.notify.alerts.outbox import Failure, Message, Outbox
from holdfast.notify.alerts.routing import rules_from_settings

KINDS = st.sampled_from([AlertKind.FAILED, AlertKind.WAITING, AlertKind.BREAK_GLASS])
STACKS = st.sampled_from([f"prod/{name}" for name in "abcdefgh"])
SETTINGS = settings_of(
    """{ channels: { log: { console: true }, other: { console: true, per_minute: 2 } },
         routes: [ { channel: log }, { what: [failed, break_glass], channel: other, severity: error } ] }"""
)


class NotificationMachine(RuleBasedStateMachine):
    """`seen` is what the receivers know: by message, the fingerprint that arrived last."""

    def __init__(self) -> None:
        super().__init__()
        self.outbox, self.now, self.count = Outbox(), START, 0
        self.routing = rules_from_settings(SETTINGS, {"log"})
        self.seen: dict[str, str] = {}
        self.sending: list[Message] = []
        self.arrivals: list[tuple[str, str]] = []
        self.sends: list[float] = []

    def new_id(self) -> str:
        self.count += 1
        return f"{self.count:08}"

    def route(self) -> None:
        self.outbox = steps.with_messages(self.outbox, self.routing, self.now, self.new_id)

    @rule(stack=STACKS, kind=KINDS, detail=st.sampled_from(["x", "y"]), ends=st.booleans())
    def raise_(self, stack: str, kind: AlertKind, detail: str, *, ends: bool) -> None:
        alert = made_alert(
            stack, kind=kind, key=f"{kind}:{stack}", details=(detail,), resolved=ends, since=self.now
        )
        self.outbox = steps.with_alert(self.outbox, alert, self.now, self.new_id)
        again = steps.with_alert(self.outbox, alert, self.now, self.new_id)
        assert again == self.outbox, "the same alert again changes nothing"
        self.route()

    @rule(seconds=st.sampled_from([0, 1, 30, 61, 700]))
    def wait(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)
        self.route()

    @rule(channel=st.sampled_from(["log", "other"]))
    def take(self, channel: str) -> None:
        self.outbox, taken = steps.take(self.outbox, channel, self.routing, self.now)
        if taken is None:
            return
        assert taken.dead is None
        if channel == "other":
            self.sends.append(self.now.timestamp())
        self.sending.append(taken)

    @rule(arrives=st.booleans(), recorded=st.booleans(), last=st.booleans())
    def end(self, *, arrives: bool, recorded: bool, last: bool) -> None:
        """A sender ends; it may die between the answer and its record, and then it is late."""
        if not self.sending:
            return
        taken = self.sending.pop(0)
        known = self.outbox.messages.get(taken.id)
        if known is None:
            return
        notice = self.outbox.notice(taken)
        if arrives:
            self.arrivals.append((taken.id, fingerprint(notice)))
            self.seen[taken.id] = fingerprint(notice)
        if not recorded:
            return
        if arrives:
            self.outbox = steps.finish(self.outbox, taken, notice, taken.id, self.now)
        else:
            failure = Failure(error="no answer", delay=None if last else 5.0)
            self.outbox = steps.fail(self.outbox, taken, failure, self.now, self.new_id)
            self.route()

    @rule()
    def retry_the_dead(self) -> None:
        for message in list(self.outbox.messages.values()):
            if message.dead is not None:
                self.outbox = steps.retry(self.outbox, message.id, self.now) or self.outbox

    @invariant()
    def each_open_alert_is_told_or_will_be(self) -> None:
        """On every channel that it belongs to there is one message about it, and one only."""
        for channel in ("log", "other"):
            told = [id_ for m in self.outbox.messages.values() if m.channel == channel for id_ in m.issues]
            assert len(told) == len(set(told))
        on_log = {id_ for m in self.outbox.messages.values() if m.channel == "log" for id_ in m.issues}
        for issue in self.outbox.open:
            if issue.alert.kind is not AlertKind.CHANNEL_BROKEN:
                assert issue.id in on_log

    @invariant()
    def what_is_recorded_as_sent_was_seen(self) -> None:
        for message in self.outbox.messages.values():
            if message.sent is not None:
                assert (message.id, message.sent) in self.arrivals

    @invariant()
    def one_alert_per_key_is_open(self) -> None:
        keys = [issue.alert.key for issue in self.outbox.open]
        assert len(keys) == len(set(keys))

    @invariant()
    def one_message_of_a_channel_is_sent_at_a_time(self) -> None:
        for channel in ("log", "other"):
            taken = [
                m
                for m in self.outbox.messages.values()
                if m.channel == channel and m.taken_until is not None and m.taken_until > self.now
            ]
            assert len(taken) <= 1

    @invariant()
    def no_more_than_allowed_in_any_minute(self) -> None:
        """Two at once, and then one each half minute: never more than four within one minute."""
        for start in self.sends:
            assert len([at for at in self.sends if start <= at < start + 60]) <= 4

    def teardown(self) -> None:
        """If from now on everything arrives, every reader knows everything, and what is over is removed."""
        self.sending.clear()
        for message in list(self.outbox.messages.values()):
            self.outbox = steps.retry(self.outbox, message.id, self.now) or self.outbox
        self.deliver_all(rounds=60, seconds=61)
        for message in self.outbox.messages.values():
            if not message.closed:
                assert self.seen[message.id] == fingerprint(self.outbox.notice(message))
        ends = [structs.replace(issue.alert, resolved=True) for issue in self.outbox.open]
        self.outbox = steps.with_alerts(self.outbox, tuple(ends), self.now, self.new_id)
        self.deliver_all(rounds=40, seconds=700)
        assert self.outbox.issues == {}
        assert self.outbox.messages == {}

    def deliver_all(self, *, rounds: int, seconds: int) -> None:
        for _ in range(rounds):
            self.now += timedelta(seconds=seconds)
            self.route()
            for channel in ("log", "other"):
                self.outbox, taken = steps.take(self.outbox, channel, self.routing, self.now)
                if taken is not None:
                    notice = self.outbox.notice(taken)
                    self.seen[taken.id] = fingerprint(notice)
                    self.outbox = steps.finish(self.outbox, taken, notice, taken.id, self.now)


NotificationMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestNotifications = NotificationMachine.TestCase
