"""Events, tokens and signatures of GitLab and Azure DevOps."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from host_server import MadeRequest
from hypothesis import given
from hypothesis import strategies as st
from webhook_hosts import HOOKS, AzureHooks, GitlabHooks, Hooks, Sent

from holdfast.notify.webhooks import azure_events, gitlab
from holdfast.notify.webhooks.catalogue import webhook_host
from holdfast.notify.webhooks.interface import EventKind, WebhookEvent

AT = "2026-11-18T12:00:00Z"
SECRET = f"whsec_{base64.b64encode(bytes(range(32))).decode()}"


def read(hooks: Hooks, sent: Sent, **changes: Any) -> WebhookEvent | None:
    document = json.loads(sent.body)
    for path, value in changes.items():
        place = document
        *parents, name = path.split("__")
        for parent in parents:
            place = place[parent]
        place[name] = value
    return webhook_host(hooks.name).read_event(sent.headers, json.dumps(document).encode())


@pytest.mark.parametrize("name", ["gitlab", "azure"])
def test_events_of_a_request_have_their_kind(name: str) -> None:
    hooks = HOOKS[name]()
    for action, open_, merged, kind in (
        ("opened", True, False, EventKind.OPENED),
        ("synchronize", True, False, EventKind.UPDATED),
        ("closed", False, False, EventKind.CLOSED),
        ("closed", False, True, EventKind.MERGED),
    ):
        request = MadeRequest(open=open_, merged=merged)
        event = read(hooks, hooks.about_request(request, action, at=AT))
        assert event is not None
        assert (event.kind, event.number, event.sender, event.head) == (kind, 7, "ada", "a" * 40)
        assert event.project == hooks.project


@pytest.mark.parametrize("name", ["gitlab", "azure"])
def test_a_comment_is_read_only_if_it_is_a_command_and_new(name: str) -> None:
    hooks = HOOKS[name]()
    event = read(hooks, hooks.about_comment("holdfast apply prod/db", at=AT, id_=5))
    assert event is not None
    assert event.command is not None
    assert (event.kind, event.command.arguments) == (EventKind.COMMENT, ("prod/db",))
    assert read(hooks, hooks.about_comment("looks good", at=AT)) is None


def test_what_gitlab_says_about_notes_and_updates() -> None:
    hooks = GitlabHooks()
    note = hooks.about_comment("holdfast plan", at="2026-11-18 12:00:00 UTC")
    event = read(hooks, note)
    assert event is not None
    assert event.at.isoformat() == "2026-11-18T12:00:00+00:00"
    assert read(hooks, note, object_attributes__action="update") is None
    assert read(hooks, note, object_attributes__updated_at=AT) is None
    assert read(hooks, note, object_attributes__system=True) is None
    assert read(hooks, note, merge_request=None) is None  # On an issue.
    push = hooks.about_request(MadeRequest(), "synchronize", at=AT)
    assert read(hooks, push, object_attributes__oldrev=None) is None  # Such as a new title.
    moved = read(hooks, push, object_attributes__oldrev=None, changes={"target_branch": {}})
    assert moved is not None
    assert moved.kind is EventKind.UPDATED
    assert read(hooks, push, object_attributes__action="approved") is None
    assert gitlab.delivery_of({"webhook-id": "a", "idempotency-key": "b"}, b"") == "a"
    assert gitlab.delivery_of({"x-gitlab-event-uuid": "c"}, b"") == "c"
    assert len(gitlab.delivery_of({}, b"x") or "") == 64


def test_what_azure_devops_says_about_comments_and_merges() -> None:
    hooks = AzureHooks()
    comment = hooks.about_comment("holdfast plan", at=AT, id_=5)
    event = read(hooks, comment)
    assert event is not None
    assert (event.comment, event.thread, event.sender_id) == (1, 5, b"ada".hex())
    assert read(hooks, comment, resource__comment__lastContentUpdatedDate="2026-11-18T12:00:01Z") is None
    assert read(hooks, comment, resource__comment__isDeleted=True) is None
    with pytest.raises(ValueError, match=r"version 2\.0"):
        read(hooks, comment, resource={"id": 1, "content": "holdfast plan"})
    merged = hooks.about_request(MadeRequest(open=False, merged=True), "closed", at=AT)
    closer = {"id": "bb", "uniqueName": "bob@acme.example"}
    event = read(hooks, merged, resource__closedBy=closer)
    assert event is not None
    assert (event.sender, event.sender_id) == ("bob@acme.example", "bb")
    trial = hooks.about_request(MadeRequest(), "synchronize", at=AT)
    assert read(hooks, trial, eventType="git.pullrequest.merged") is None  # Merged on trial only.
    assert read(hooks, trial, eventType="git.push") is None
    odd = read(hooks, trial, resource__createdBy={"id": "../x", "uniqueName": "ada"})
    assert odd is not None
    assert odd.sender_id is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b"\xff",
        b'{"eventType": "git.pullrequest.created"}',
        b'{"object_kind": "note"}',
    ],
)
@pytest.mark.parametrize("name", ["gitlab", "azure"])
def test_what_a_host_does_not_send_is_an_error(name: str, body: bytes) -> None:
    event = HOOKS[name]().about_comment("holdfast plan", at=AT)
    try:
        read_ = webhook_host(name).read_event(event.headers, body)
    except ValueError:
        return
    assert read_ is None


@given(body=st.binary(max_size=100), other=st.binary(max_size=100))
def test_gitlab_signs_the_body(body: bytes, other: bytes) -> None:
    sent = Sent(body=body, headers={"webhook-id": "1", "webhook-timestamp": "2"})
    headers = GitlabHooks().sign(sent, SECRET)
    assert gitlab.is_signed(headers, body, SECRET)
    assert gitlab.is_signed(
        {**headers, "webhook-signature": f"v1,x {headers['webhook-signature']}"}, body, SECRET
    )
    assert gitlab.is_signed(headers, other, SECRET) == (other == body)
    assert not gitlab.is_signed(headers, body, SECRET.removeprefix("whsec_"))


@given(text=st.text(max_size=60))
def test_no_other_password_is_accepted(text: str) -> None:
    for header in (text, f"Basic {text}", f"Basic {base64.b64encode(text.encode()).decode()}"):
        assert not azure_events.is_signed({"authorization": header}, b"", SECRET)
    if text != SECRET:
        assert not gitlab.is_signed({"x-gitlab-token": text}, b"", SECRET)
