"""Signatures of outgoing webhooks, and how long they are tried."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from holdfast.notify.outgoing_webhooks import (
    KINDS,
    body_of,
    event_patterns,
    new_secret,
    retry_delay,
    signed_headers,
)

AT = datetime.fromtimestamp(1_700_000_000, tz=UTC)
DAY = 24 * 3600


def test_a_signature_is_that_of_another_implementation() -> None:
    """The expected one is from OpenSSL: `openssl dgst -sha256 -mac HMAC` of `id.timestamp.body`."""
    secret = new_secret(bytes(range(32)))
    assert secret == "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
    assert signed_headers(secret, "msg_1", AT, b'{"type":"webhook.test"}') == {
        "content-type": "application/json",
        "webhook-id": "msg_1",
        "webhook-timestamp": "1700000000",
        "webhook-signature": "v1,xxZtt7j7yM1ifYrYyXeSlFsSXiLDory+irN4YhasdnI=",
    }


@given(st.binary(max_size=50), st.binary(max_size=50), st.sampled_from(("msg_1", "msg_2")), st.integers(0, 1))
def test_a_signature_covers_id_time_and_body(one: bytes, other: bytes, id_: str, later: int) -> None:
    secret, at = new_secret(bytes(32)), datetime.fromtimestamp(1_700_000_000 + later, tz=UTC)
    first, second = signed_headers(secret, "msg_1", AT, one), signed_headers(secret, id_, at, other)
    same = (one, "msg_1", 0) == (other, id_, later)
    assert (first["webhook-signature"] == second["webhook-signature"]) == same
    stranger = signed_headers(new_secret(bytes([1] * 32)), "msg_1", AT, one)
    assert stranger["webhook-signature"] != first["webhook-signature"]
    assert len(base64.b64decode(first["webhook-signature"].removeprefix("v1,"))) == 32


def test_the_body_has_a_type_a_time_and_data() -> None:
    document = json.loads(body_of("event.failed", AT, {"id": "7"}))
    assert document == {"type": "event.failed", "timestamp": "2023-11-14T22:13:20Z", "data": {"id": "7"}}


@given(st.floats(0, 1, exclude_max=True))
def test_attempts_end_after_about_a_day(chance: float) -> None:
    """Each waits at least three times as long as the one before; the last is a day after the first."""
    delays: list[float] = []
    while (delay := retry_delay(len(delays) + 1, chance)) is not None:
        delays.append(delay)
    assert len(delays) == 8
    assert 4 <= delays[0] <= 5
    assert all(later >= 3 * delay for delay, later in pairwise(delays))
    assert DAY <= sum(delays) <= 1.3 * DAY


def test_receivers_that_failed_together_are_not_tried_together() -> None:
    assert len({retry_delay(5, chance / 10) for chance in range(10)}) == 10


def test_events_can_be_kinds_or_all_of_a_source() -> None:
    assert {*KINDS, "event.*"} == set(event_patterns())
