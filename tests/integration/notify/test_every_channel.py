"""Every channel, against a server on loopback that speaks its vendor's API, with its limits and errors."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

import pytest
from alerts_made import MadeOutbox, made_alert
from answering import Answer
from channel_servers import FACES, Face, GithubIssues, PagerDuty, Service

from holdfast.notify.alerts.alert import AlertKind, Severity

ALL = pytest.mark.parametrize("face", FACES, ids=[face.name for face in FACES])


class Channel(NamedTuple):
    face: Face
    service: Service
    made: MadeOutbox


@pytest.fixture
def channel(request: pytest.FixtureRequest) -> Iterator[Channel]:
    face: Face = request.param
    with (service := face.make()).http:
        notify = f"{{ channels: {{ ops: {face.settings(service)} }}, routes: [ {{ channel: ops }} ] }}"
        yield Channel(face, service, MadeOutbox(notify, face.secrets(service)))


EVERY = pytest.mark.parametrize("channel", FACES, indirect=True, ids=[face.name for face in FACES])


@EVERY
def test_an_alert_is_opened_updated_and_closed(channel: Channel) -> None:
    """Its receiver sees what, where, since when, what to do and a link; then what changed; then the end."""
    face, service, made = channel
    made.raise_(made_alert())
    made.deliver()
    (opened,) = service.texts
    for part in (
        "the apply failed",
        "prod/network",
        "prod (production)",
        "aws",
        "quota exceeded",
        "holdfast runs log 01JD",
    ):
        assert part in opened.replace("`", ""), part
    assert "https://ci.example/runs/1" in service.raw
    assert len(service.open) == 1

    made.raise_(made_alert())
    made.deliver(1000)
    assert len(service.http.asked) == 1, "nothing changed for its reader"

    made.raise_(made_alert(details=("HF-TF-1: aws_eip.b: denied",)))
    made.deliver(1000)
    assert "aws_eip.b: denied" in service.texts[-1] or "aws_eip.b: denied" in service.raw
    made.raise_(made_alert(resolved=True, details=()))
    made.deliver(1)
    if face.updates:
        assert service.open == []
    assert "Resolved: " in service.raw or face.name in {"pagerduty", "webhook"}
    assert made.deliver(100_000) is None
    assert made.outbox.messages == {}, "what is over is removed"


@EVERY
def test_a_receiver_sees_one_alert_although_the_answer_was_lost(channel: Channel) -> None:
    """The service acted and its answer was lost: the next attempt is recognised, where the service can."""
    face, service, made = channel
    service.lose = 1
    made.raise_(made_alert())
    made.deliver()
    assert [attempt.error for attempt in made.attempts] == ["the receiver answered 502"]
    made.deliver(10)
    assert [attempt.error for attempt in made.attempts][1:] == [None]
    if face.deduplicates:
        assert len(service.open) == 1
    made.raise_(made_alert(resolved=True))
    made.deliver(10)
    if face.updates and face.deduplicates:
        assert service.open == []


@EVERY
def test_a_channel_that_asks_to_wait_is_left_alone(channel: Channel) -> None:
    """429 with `Retry-After`: nothing is sent until then, and it is no failed attempt."""
    _, service, made = channel
    service.next_ = [Answer(status=429, headers={"Retry-After": "30"})]
    made.raise_(made_alert("a"), made_alert("b"))
    next_ = made.deliver()
    assert next_ == made.now + timedelta(seconds=30)
    asked = len(service.http.asked)
    made.deliver(29)
    assert len(service.http.asked) == asked
    made.deliver(1)
    assert len(service.open) == 2
    assert not any(message.attempts for message in made.outbox.messages.values())


@EVERY
def test_a_service_that_fails_is_tried_again_later_each_time(channel: Channel) -> None:
    """Answers of 500 are retried with growing pauses; after the last one the message is dead and shown."""
    _, service, made = channel
    made.raise_(made_alert())
    pauses = []
    for _ in range(9):
        service.next_ = [Answer(status=500)]
        before = made.now
        next_ = made.deliver()
        if next_ is not None:
            pauses.append((next_ - before).total_seconds())
            made.now = next_
    assert pauses == [5.0 * 4**number for number in range(8)]
    (message,) = [m for m in made.outbox.messages.values() if m.kind is AlertKind.FAILED]
    assert message.dead is not None
    assert message.error == "the receiver answered 500"
    assert service.texts == []


@EVERY
def test_untrusted_text_means_nothing_to_a_channel(channel: Channel) -> None:
    """A name or value makes no mention, link or formatting, breaks no message and exceeds no limit."""
    _, service, made = channel
    mentions = "<!channel> @here @everyone <https://evil.example|click> [x](https://evil.example)"
    evil = f"{mentions} **b** `c` \x1b[31m\u202e &"
    made.raise_(
        made_alert(
            evil,
            title=f"{evil}: {'x' * 5000}",
            details=tuple(f"{evil} {'y' * 5000}" for _ in range(200)),
            next_step=f"{evil}{'z' * 5000}",
            link='https://evil.example/"><script>|x',
            environment=evil * 100,
        )
    )
    made.deliver()
    assert [attempt.error for attempt in made.attempts] == [None]
    assert len(service.open) == 1
    assert "\\u001b" not in service.raw
    assert "<script" not in service.raw, "an address that is none of ours is left out"


@EVERY
def test_a_secret_reaches_no_receiver(channel: Channel) -> None:
    """Neither what a channel is configured with nor what has the format of a secret."""
    _, service, made = channel
    secret = "AKIAIOSFODNN7CANARY1"
    credentials = list(made.environment.variables.values())
    made.raise_(made_alert(details=(f"access key {secret}", f"sent with {' and '.join(credentials)}")))
    made.deliver()
    made.deliver(1)
    shown = "\n".join(service.texts)
    assert secret not in shown
    for credential in credentials:
        assert credential not in shown
    errors = "".join(attempt.error or "" for attempt in made.attempts)
    assert not any(credential in errors for credential in credentials)


@EVERY
def test_wrong_credentials_are_a_broken_channel(channel: Channel) -> None:
    """The error says so without the credential, and attempts go on: it may be corrected meanwhile."""
    face, service, _ = channel
    wrong = {
        name: value.replace("canary", "other").replace("0", "f") + "f"
        for name, value in face.secrets(service).items()
    }
    if face.name == "slack-webhook":
        wrong = {"HOOK": f"{service.url}/services/none"}
    if face.name == "teams":
        wrong = {"FLOW": f"{service.url}/workflows/1?sig=wrong"}
    if face.name == "webhook":
        wrong = {"WHSEC": "whsec_" + "A" * 43 + "="}
    notify = f"{{ channels: {{ ops: {face.settings(service)} }}, routes: [ {{ channel: ops }} ] }}"
    made = MadeOutbox(notify, wrong)
    made.raise_(made_alert())
    for _ in range(3):
        made.deliver(1000)
    assert len(made.attempts) == 3
    assert all(attempt.error for attempt in made.attempts)
    assert not any(value in str(made.attempts) for value in wrong.values())
    (broken,) = [issue for issue in made.outbox.open if issue.alert.kind is AlertKind.CHANNEL_BROKEN]
    assert broken.alert.severity is Severity.ERROR
    assert "ops" in broken.alert.title


@ALL
def test_a_broken_channel_is_reported_on_another(face: Face) -> None:
    """And the report ends when the channel works again."""
    with (broken := face.make()).http, (other := PagerDuty()).http:
        pager = f'{{ pagerduty: {{ routing_key: {{ secret: "env:PAGER" }}, url: "{other.url}" }} }}'
        notify = (
            f"{{ channels: {{ ops: {face.settings(broken)}, pager: {pager} }}, "
            "routes: [ { what: [failed], channel: ops }, { what: [drift], channel: pager } ] }"
        )
        secrets = {**face.secrets(broken), "PAGER": "0123456789abcdef0123456789abcdef"}
        made = MadeOutbox(notify, secrets)
        broken.next_ = [Answer(status=503) for _ in range(3)]
        made.raise_(made_alert())
        for _ in range(3):
            made.deliver(1000)
        assert len(other.open) == 1
        assert "The channel ops is broken" in other.texts[0]
        assert "holdfast notify test ops" in other.texts[0]
        made.deliver(1000)
        assert len(broken.open) == 1
        made.deliver(1)
        assert other.open == []


def test_an_issue_of_somebody_else_is_left_alone() -> None:
    """GitHub: issues without the marker of this message are never changed."""
    with (service := GithubIssues()).http:
        service.issues = [
            {"number": 1, "state": "open", "title": "mine", "body": "prod/network: the apply failed"}
        ]
        face = next(face for face in FACES if face.name == "github")
        notify = f"{{ channels: {{ ops: {face.settings(service)} }}, routes: [ {{ channel: ops }} ] }}"
        made = MadeOutbox(notify, face.secrets(service))
        service.next_ = [Answer(status=500)]
        made.raise_(made_alert())
        made.deliver()
        made.deliver(10)
        assert service.issues[0]["title"] == "mine"
        assert service.open == ["1", "2"]
