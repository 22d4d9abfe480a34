"""Outgoing webhooks: what happened in a committed transaction arrives, signed, whatever fails in between."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from answering import Answer, Answering
from msgspec.structs import replace
from program import eventually
from server_made import KEY, ListLog, MadeServer, made_server
from webhook_receiver import Receiver, is_signed

from holdfast.config.server import OutgoingWebhookSettings, default_settings
from holdfast.config.settings import BackupSettings
from holdfast.database.database import Database
from holdfast.identity.principal import DEFAULT_TENANT
from holdfast.identity.roles import Role
from holdfast.server.audit_log import TenantStores
from holdfast.server.outgoing_webhooks import DocumentOf, OutgoingWork, hold_outgoing_webhooks
from holdfast.server.upkeep import Upkeep
from holdfast.store.outgoing_webhooks import OutgoingWebhookRows, enqueue
from holdfast.store.server_states.cipher import StateCipher
from holdfast.store.server_states.rows import StateRows
from holdfast.system.addresses import AddressRules
from holdfast.system.environment import Environment

OTHER = "other"
LOOPBACK = ("127.0.0.0/8",)
WEBHOOKS = "/api/v1/webhooks"
DOCUMENTS: Mapping[str, DocumentOf] = {"event": lambda tenant, id_: {"tenant": tenant, "id": id_}}


class Made:
    """A server, whose deliveries are sent while `sending` is held."""

    def __init__(self, server: MadeServer) -> None:
        self.server, self.database, self.log = server, server.database, ListLog()

    def work(self, **given: Any) -> OutgoingWork:
        known: dict[str, Any] = {
            "rows": OutgoingWebhookRows(self.database),
            "stores": TenantStores(self.database, KEY),
            "rules": AddressRules(LOOPBACK),
            "environment": Environment({}),
            "log": self.log,
            "documents": DOCUMENTS,
            "delay": lambda attempts: 0.0 if attempts < 3 else None,
        }
        return OutgoingWork(**{**known, **given})

    @contextmanager
    def sending(self, **given: Any) -> Iterator[None]:
        with hold_outgoing_webhooks(self.work(**given), interval=0.02):
            yield

    def create(self, url: str, *events: str, token: str = "") -> dict[str, Any]:
        document = {"url": url, "events": events or ["event.*"]}
        answer = self.server.send("POST", WEBHOOKS, document, token=token)
        assert answer.status == 201, answer
        assert answer.headers["location"] == f"{WEBHOOKS}/{answer.document['id']}"
        created: dict[str, Any] = answer.document
        return created

    def happen(self, subject: str, *, kind: str = "event.succeeded", tenant: str = DEFAULT_TENANT) -> None:
        with self.database.transaction() as connection:
            enqueue(connection, tenant, kind, subject)

    def deliveries(
        self, webhook: dict[str, Any], state: str = "", *, token: str = ""
    ) -> list[dict[str, Any]]:
        query = f"?state={state}" if state else ""
        answer = self.server.send("GET", f"{WEBHOOKS}/{webhook['id']}/deliveries{query}", token=token)
        assert answer.status == 200, answer
        listed: list[dict[str, Any]] = answer.document["deliveries"]
        return listed

    def wait(self, webhook: dict[str, Any], state: str, count: int = 1) -> list[dict[str, Any]]:
        eventually(lambda: len(self.deliveries(webhook, state)) == count, what=f"{count} {state}")
        return self.deliveries(webhook, state)


@pytest.fixture
def made(database: Database) -> Iterator[Made]:
    allowed = OutgoingWebhookSettings(private_addresses=LOOPBACK)
    settings = replace(default_settings(Path("/nowhere")), webhooks=allowed)
    with made_server(database, settings=settings) as server:
        yield Made(server)


def free_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


def test_an_event_is_delivered_once_with_a_valid_signature(made: Made) -> None:
    with Receiver() as receiver, made.sending():
        webhook = made.create(f"{receiver.url}/hook?a=b")
        made.happen("one")
        made.happen("one")
        (delivery,) = made.wait(webhook, "delivered")
        made.happen("one")
        made.happen("two", kind="event.failed")
        made.wait(webhook, "delivered", 2)
    first, second = receiver.asked
    assert (first.method, first.path, first.query) == ("POST", "/hook", {"a": "b"})
    assert is_signed(first, webhook["secret"])
    assert not is_signed(first, made.create("https://example.com/")["secret"])
    assert first.headers["webhook-id"] == delivery["id"] != second.headers["webhook-id"]
    assert first.headers["content-type"] == "application/json"
    succeeded, failed = receiver.documents
    data = {"tenant": "default", "id": "one"}
    assert succeeded == {"type": "event.succeeded", "timestamp": delivery["created"], "data": data}
    assert (failed["type"], failed["data"]["id"]) == ("event.failed", "two")
    assert (delivery["attempts"], delivery["error"], delivery["next_try"]) == (1, None, None)


def test_a_webhook_gets_only_the_events_it_is_for(made: Made) -> None:
    with Receiver() as receiver, made.sending():
        some = made.create(f"{receiver.url}/failed", "event.failed")
        every = made.create(f"{receiver.url}/all", "event.*")
        made.happen("good")
        made.happen("bad", kind="event.failed")
        made.wait(every, "delivered", 2)
        made.wait(some, "delivered")
    assert sorted((asked.path, json.loads(asked.body)["data"]["id"]) for asked in receiver.asked) == [
        ("/all", "bad"),
        ("/all", "good"),
        ("/failed", "bad"),
    ]


def test_what_was_rolled_back_is_not_sent(made: Made) -> None:
    with Receiver() as receiver, made.sending():
        webhook = made.create(receiver.url)
        with made.database.transaction() as connection:
            enqueue(connection, DEFAULT_TENANT, "event.succeeded", "never")
            connection.rollback()
        made.happen("after")
        made.wait(webhook, "delivered")
        assert len(made.deliveries(webhook)) == 1
    assert [document["data"]["id"] for document in receiver.documents] == ["after"]


def test_a_receiver_that_was_down_gets_it_later_under_the_same_id(made: Made) -> None:
    """Not reachable at first, then failing, then well."""
    port, statuses = free_port(), iter([500, 302, 200])
    with made.sending(delay=lambda _: 0.05):
        webhook = made.create(f"http://127.0.0.1:{port}/")
        made.happen("one")
        eventually(lambda: made.deliveries(webhook)[0]["error"] is not None, what="a failure")
        (pending,) = made.deliveries(webhook, "pending")
        assert pending["error"] == "Connection refused"
        with Receiver(lambda _: next(statuses), port=port) as receiver:
            (delivery,) = made.wait(webhook, "delivered")
    assert receiver.ids == [pending["id"]] * 3
    assert [asked.path for asked in receiver.asked] == ["/"] * 3  # A redirect is not followed.
    assert all(is_signed(asked, webhook["secret"]) for asked in receiver.asked)
    assert delivery["attempts"] >= 4


def test_a_delivery_is_dead_after_the_last_attempt_and_can_be_retried(made: Made) -> None:
    statuses = iter([500, 503, 429, 200])
    with Receiver(lambda _: next(statuses)) as receiver, made.sending():
        webhook = made.create(receiver.url)
        made.happen("one")
        (dead,) = made.wait(webhook, "dead")
        assert (dead["attempts"], dead["error"]) == (3, "the receiver answered 429")
        assert (
            'holdfast_webhook_deliveries{state="dead"} 1.0'
            in made.server.send("GET", "/metrics").body.decode()
        )
        retry = f"{WEBHOOKS}/{webhook['id']}/deliveries/{dead['id']}/retry"
        answer = made.server.send("POST", retry)
        assert (answer.status, answer.document["state"], answer.document["attempts"]) == (202, "pending", 0)
        made.wait(webhook, "delivered")
        assert made.server.send("POST", retry).problem["code"] == "HF-WEBHOOK-8"
        text = made.server.send("GET", "/metrics").body.decode()
        assert 'holdfast_webhook_deliveries{state="dead"} 0.0' in text
        assert 'holdfast_webhook_deliveries{state="pending"} 0.0' in text
    assert receiver.ids == [dead["id"]] * 4


def test_a_restart_loses_nothing(made: Made) -> None:
    """Neither what waits, nor what a server had taken when it was killed."""
    with Receiver() as receiver:
        webhook = made.create(receiver.url)
        made.happen("taken")
        taken = made.work().take()
        assert taken is not None
        made.happen("waiting")
        with Database.open(made.database.address) as database:
            rows = OutgoingWebhookRows(database)
            with made.sending(rows=rows):
                assert made.work().take() is None  # Its lease is not over.
                with database.transaction() as connection:
                    connection.execute("update outgoing_webhooks set busy_until = clock_timestamp()")
                made.wait(webhook, "delivered", 2)
    assert receiver.ids[0] == taken.id
    assert [document["data"]["id"] for document in receiver.documents] == ["taken", "waiting"]


def test_servers_at_once_send_each_delivery_once(made: Made) -> None:
    """And never two at a time to one webhook."""
    with Receiver() as receiver, ExitStack() as servers:
        webhooks = [made.create(f"{receiver.url}/{number}") for number in range(3)]
        for _ in range(4):
            database = servers.enter_context(Database.open(made.database.address))
            servers.enter_context(made.sending(rows=OutgoingWebhookRows(database)))
        for number in range(20):
            made.happen(f"event-{number}")
        for webhook in webhooks:
            made.wait(webhook, "delivered", 20)
    assert len(receiver.ids) == len(set(receiver.ids)) == 60
    assert set(receiver.most_at_once.values()) == {1}


def test_a_slow_receiver_delays_no_other(made: Made) -> None:
    with Receiver() as receiver, Receiver() as slow:
        slow.hold()
        with made.sending(seconds=1.0):
            stuck, webhook = made.create(slow.url), made.create(receiver.url)
            for number in range(5):
                made.happen(f"event-{number}")
            made.wait(webhook, "delivered", 5)
            assert len(made.deliveries(stuck, "pending")) == 5
            failed = "no complete response within 1 seconds"
            eventually(lambda: failed in str(made.deliveries(stuck)), what="a time limit")


def test_a_receiver_that_is_gone_is_not_asked_again(made: Made) -> None:
    with Receiver(lambda _: 410) as receiver:
        webhook = made.create(receiver.url)
        made.happen("one")
        made.happen("two")
        with made.sending():
            dead = made.wait(webhook, "dead", 2)
        assert {delivery["error"] for delivery in dead} == {"410: the receiver is gone"}
        made.happen("three")
        assert len(made.deliveries(webhook)) == len(receiver.asked) + 1 == 2
        assert made.server.send("GET", f"{WEBHOOKS}/{webhook['id']}").document["disabled"] is not None
        retry = f"{WEBHOOKS}/{webhook['id']}/deliveries/{dead[0]['id']}/retry"
        for path in (retry, f"{WEBHOOKS}/{webhook['id']}/test"):
            assert made.server.send("POST", path).problem["code"] == "HF-WEBHOOK-9"


def test_a_test_is_sent_on_request(made: Made) -> None:
    with Receiver() as receiver, made.sending(documents={}):
        webhook = made.create(receiver.url, "event.failed")
        answer = made.server.send("POST", f"{WEBHOOKS}/{webhook['id']}/test")
        assert (answer.status, answer.document["kind"]) == (202, "webhook.test")
        made.wait(webhook, "delivered")
        made.happen("one", kind="event.failed")  # This server has no documents of events: it leaves it.
        assert made.server.send("POST", f"{WEBHOOKS}/{webhook['id']}/test").status == 202
        made.wait(webhook, "delivered", 2)
        assert [delivery["kind"] for delivery in made.deliveries(webhook, "pending")] == ["event.failed"]
    assert receiver.documents[0]["data"] == {"webhook": webhook["id"]}


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"rules": AddressRules()}, "its address is not allowed"),
        ({"documents": {"event": lambda _, __: None}}, "what it is about was removed"),
        ({"documents": {"event": lambda _, __: 1 / 0}}, "ZeroDivisionError"),
    ],
)
def test_what_cannot_be_sent_fails(made: Made, given: dict[str, Any], error: str) -> None:
    """Such as to a name that has become one of an internal address."""
    with Receiver() as receiver, made.sending(**given):
        webhook = made.create(f"http://localhost:{receiver.port}/")
        made.happen("one")
        (dead,) = made.wait(webhook, "dead")
    assert (dead["error"], receiver.asked) == (error, [])


def test_a_large_answer_is_not_read(made: Made) -> None:
    with Answering(lambda _: Answer(body=b"x" * 100_000)) as receiver, made.sending():
        webhook = made.create(receiver.url)
        made.happen("one")
        assert made.wait(webhook, "dead")[0]["error"] == "the response is larger than 65536 bytes"


def test_another_tenant_sees_and_gets_nothing(made: Made) -> None:
    stranger = made.server.token(Role.ADMIN, tenant=OTHER)
    with Receiver() as receiver, made.sending():
        mine = made.create(f"{receiver.url}/mine")
        theirs = made.create(f"{receiver.url}/theirs", token=stranger)
        made.happen("secret")
        (delivery,) = made.wait(mine, "delivered")
        for method, path in (
            ("GET", ""), ("GET", "/deliveries"), ("POST", "/test"), ("DELETE", ""),
            ("POST", f"/deliveries/{delivery['id']}/retry"),
        ):  # fmt: skip
            answer = made.server.send(method, f"{WEBHOOKS}/{mine['id']}{path}", token=stranger)
            assert answer.problem["code"] == "HF-WEBHOOK-6", path
        retry = f"{WEBHOOKS}/{theirs['id']}/deliveries/{delivery['id']}/retry"
        assert made.server.send("POST", retry, token=stranger).status == 404
        listed = made.server.send("GET", WEBHOOKS, token=stranger).document["webhooks"]
        assert [webhook["id"] for webhook in listed] == [theirs["id"]]
        assert made.deliveries(theirs, token=stranger) == []
        text = made.server.send("GET", "/metrics", token=stranger).body.decode()
        assert 'holdfast_webhook_deliveries{state="pending"} 0.0' in text
    assert [asked.path for asked in receiver.asked] == ["/mine"]


def test_webhooks_are_created_listed_and_deleted_and_recorded(made: Made) -> None:
    with Receiver() as receiver:
        first = made.create("https://example.com/hooks/hunter2", "event.failed", "event.failed")
        second = made.create(receiver.url)
        assert first["secret"].startswith("whsec_")
        assert first["events"] == ["event.failed"]
        page = made.server.send("GET", f"{WEBHOOKS}?limit=1").document
        rest = made.server.send("GET", f"{WEBHOOKS}?limit=1&cursor={page['next']}").document
        shown = made.server.send("GET", f"{WEBHOOKS}/{first['id']}").document
        assert [*page["webhooks"], *rest["webhooks"]] == [
            {**first, "secret": None},
            {**second, "secret": None},
        ]
        assert shown == page["webhooks"][0]
        for number in range(3):
            made.happen(f"{number}")
        page = made.server.send("GET", f"{WEBHOOKS}/{second['id']}/deliveries?limit=2").document
        assert [delivery["subject"] for delivery in page["deliveries"]] == ["2", "1"]
        query = f"limit=2&cursor={page['next']}"
        rest = made.server.send("GET", f"{WEBHOOKS}/{second['id']}/deliveries?{query}").document
        assert [delivery["subject"] for delivery in rest["deliveries"]] == ["0"]
        assert made.server.send("DELETE", f"{WEBHOOKS}/{second['id']}").status == 204
        assert made.server.send("GET", f"{WEBHOOKS}/{second['id']}").status == 404
        assert made.work().take() is None
        assert receiver.asked == []
    audit = made.server.send("GET", "/api/v1/audit").document["entries"]
    acts = [entry for entry in audit if entry["what"].startswith("outgoing-webhook")]
    assert [entry["what"].rpartition("-")[2] for entry in acts] == ["remove", "add", "add"]
    assert "hunter2" not in json.dumps(audit)
    assert "example.com" in json.dumps(acts)


def test_nothing_secret_is_stored_or_logged(made: Made) -> None:
    """The address, the secret and the body are in no row, before and after it is sent."""
    with Receiver() as receiver:
        webhook = made.create(f"{receiver.url}/token-in-the-path")
        made.happen("one")
        hidden = ("token-in-the-path", webhook["secret"], webhook["secret"].removeprefix("whsec_"))
        assert not any(text in _all_rows(made.database) for text in hidden)
        with made.sending(documents={"event": lambda _, __: {"password": "hunter2"}}):
            made.wait(webhook, "delivered")
        assert not any(text in _all_rows(made.database) for text in (*hidden, "hunter2"))
        assert not any(text in str(made.log.lines) for text in (*hidden, "hunter2"))
        assert receiver.documents[0]["data"] == {"password": "hunter2"}
        made.server.send("DELETE", f"{WEBHOOKS}/{webhook['id']}")
        assert webhook["id"] not in _all_rows(
            made.database, "outgoing_deliveries", "outgoing_webhooks", "blobs"
        )


def _all_rows(database: Database, *tables: str) -> str:
    with database.transaction() as connection:
        names = tables or [
            name
            for (name,) in connection.execute(
                "select table_name from information_schema.tables where table_schema = 'holdfast'"
            ).fetchall()
        ]
        return str([connection.execute(f"select * from {name}".encode()).fetchall() for name in names])  # noqa: S608


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"url": "http://example.com/", "events": ["event.*"]}, "/url"),
        ({"url": "https://10.0.0.1/", "events": ["event.*"]}, "/url"),
        ({"url": "https://169.254.169.254/", "events": ["event.*"]}, "/url"),
        ({"url": "https://example.com/", "events": ["event.*", "event.done"]}, "/events/1"),
        ({"url": "https://example.com/", "events": []}, "/events"),
        ({"url": "https://example.com/"}, "/events"),
    ],
)
def test_what_is_not_valid_is_refused(made: Made, document: dict[str, Any], path: str) -> None:
    answer = made.server.send("POST", WEBHOOKS, document)
    assert answer.status == 422
    assert [error["path"] for error in answer.problem["errors"]] == [path]


def test_an_admin_of_some_stacks_cannot_have_what_happens_sent(made: Made) -> None:
    limited = made.server.token(Role.ADMIN, name="ada", stacks=("dev/*",), states=("dev/*",))
    document = {"url": "https://example.com/", "events": ["event.*"]}
    assert made.server.send("POST", WEBHOOKS, document, token=limited).status == 403


def test_a_tenant_has_a_limited_number(made: Made) -> None:
    for number in range(50):
        made.create(f"https://example.com/{number}")
    document = {"url": "https://example.com/", "events": ["event.*"]}
    assert made.server.send("POST", WEBHOOKS, document).problem["code"] == "HF-WEBHOOK-7"


def test_old_deliveries_are_removed(made: Made) -> None:
    with Receiver() as receiver, made.sending():
        webhook = made.create(receiver.url)
        made.happen("old")
        made.wait(webhook, "delivered")
        with made.database.transaction() as connection:
            connection.execute("update outgoing_deliveries set delivered = delivered - interval '31 days'")
        made.happen("new")
        made.wait(webhook, "delivered", 2)
    upkeep = Upkeep(
        rows=StateRows(made.database, StateCipher([KEY])),
        tokens=made.server.tokens,
        backups=BackupSettings(keep=1, max_age=0.0),
        log=ListLog(),
    )
    assert upkeep.run() == {"webhook_deliveries_removed": 1}
    assert [delivery["subject"] for delivery in made.deliveries(webhook)] == ["new"]
