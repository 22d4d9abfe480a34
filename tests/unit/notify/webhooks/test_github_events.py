"""GitHub's signatures and events."""

from __future__ import annotations

import json
from typing import Any

import pytest
from github_server import MadeRequest, comment_event, event_headers, request_event
from hypothesis import given
from hypothesis import strategies as st

from holdfast.notify.webhooks.github import delivery_of, is_signed, read_event
from holdfast.notify.webhooks.interface import EventKind

SECRET = "0123456789abcdef"
AT = "2026-11-18T12:00:00Z"


def _read(body: bytes, event: str = "pull_request") -> Any:
    return read_event(event_headers(body, SECRET, event=event, delivery="1"), body)


@given(body=st.binary(max_size=100), other=st.binary(max_size=100))
def test_only_the_signed_body_with_this_secret_is_accepted(body: bytes, other: bytes) -> None:
    headers = event_headers(body, SECRET, event="ping", delivery="1")
    assert is_signed(headers, body, SECRET)
    assert is_signed(headers, other, SECRET) == (other == body)
    assert not is_signed(headers, body, SECRET + "0")


@pytest.mark.parametrize("signature", [None, "", "sha256=", "sha256=" + "0" * 64, "sha1=" + "0" * 40, "é"])
def test_a_missing_or_malformed_signature_is_refused(signature: str | None) -> None:
    headers = {} if signature is None else {"x-hub-signature-256": signature}
    assert not is_signed(headers, b"{}", SECRET)


def test_events_of_a_pull_request() -> None:
    kinds = {
        action: event.kind if (event := _read(request_event(MadeRequest(), 7, action, at=AT))) else None
        for action in ("opened", "reopened", "synchronize", "closed", "labeled", "edited")
    }
    assert kinds == {
        "opened": EventKind.OPENED,
        "reopened": EventKind.OPENED,
        "synchronize": EventKind.UPDATED,
        "closed": EventKind.CLOSED,
        "labeled": None,
        "edited": None,
    }
    merged = _read(request_event(MadeRequest(merged=True), 7, "closed", at=AT))
    assert (merged.kind, merged.number, merged.sender, merged.head) == (EventKind.MERGED, 7, "ada", "a" * 40)
    moved = json.loads(request_event(MadeRequest(), 7, "edited", at=AT)) | {"changes": {"base": {}}}
    assert _read(json.dumps(moved).encode()).kind is EventKind.UPDATED


def test_comments_are_read_only_if_they_are_commands_of_people() -> None:
    event = _read(comment_event(7, "holdfast apply prod/db", at=AT), "issue_comment")
    assert (event.kind, event.comment, event.command.arguments) == (EventKind.COMMENT, 99, ("prod/db",))
    assert _read(comment_event(7, "nice", at=AT), "issue_comment") is None
    for change in ({"action": "edited"}, {"issue": {"number": 7}}):
        edited = json.loads(comment_event(7, "holdfast plan", at=AT)) | change
        assert _read(json.dumps(edited).encode(), "issue_comment") is None
    bot = json.loads(comment_event(7, "holdfast plan", at=AT))
    bot["comment"]["user"]["type"] = "Bot"
    assert _read(json.dumps(bot).encode(), "issue_comment") is None


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{}", b"[" * 100_000, b'{"action":"opened"}', b"\xff",
        request_event(MadeRequest(), 0, "opened", at=AT),
        request_event(MadeRequest(), 7, "opened", at="yesterday"),
        request_event(MadeRequest(), 7, "opened", at="2026-11-18T12:00:00"),
    ],
)  # fmt: skip
def test_what_github_does_not_send_is_an_error(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        _read(body)


def test_other_events_and_delivery_ids() -> None:
    assert _read(b"not even JSON", "ping") is None
    assert delivery_of({"x-github-delivery": "72d3162e-cc78-11e3"}, b"") == "72d3162e-cc78-11e3"
    assert delivery_of({}, b"") is delivery_of({"x-github-delivery": "a b"}, b"") is None
