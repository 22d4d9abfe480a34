"""Events of devices over HTTP, with workers whose runs end as a test says: what clients can rely on."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fleet_played import DIGEST, PlayedFleet, offer, offered
from msgspec.structs import replace
from postgres_made import MadePostgres
from program import eventually
from server_made import Answer, ListLog, MadeServer, made_server

from holdfast.config.server import EventLimits, FleetSettings, default_settings
from holdfast.database.database import Database
from holdfast.identity.roles import Role
from holdfast.server.fleet.keeper import FleetKeeper, hold_keeper
from holdfast.store.fleet.retention import remove_old_events
from holdfast.store.fleet.rules import DeviceStatus
from holdfast.store.run_store import RunStore
from holdfast.store.server_runs.retention import remove_expired_uploads, remove_old_changes

EVENTS = "/api/v1/events"
OTHER = "other"
KEY_HEADER = "idempotency-key"


class Client:
    def __init__(self, server: MadeServer, role: Role = Role.OPERATOR, **scope: Any) -> None:
        self.server = server
        self.token = server.token(role, **{"name": "ada", **scope})

    def get(self, path: str) -> Answer:
        return self.server.send("GET", path, token=self.token)

    def post(self, path: str, document: object = None, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.server.send(
            "POST", path, {} if document is None else document, token=self.token, headers=named
        )

    def submit(
        self,
        action: str,
        device: str,
        number: int | None = None,
        *,
        key: str | None = None,
        wait: str = "",
        **more: object,
    ) -> Answer:
        body: dict[str, object] = {
            "blueprint": "site",
            "action": action,
            "resource_id": device,
            **({} if number is None else {"payload": {"number": number}}),
            **more,
        }
        headers: Mapping[str, str] = {} if key is None else {KEY_HEADER: key}
        return self.post(f"{EVENTS}{wait}", body, **headers)

    def event(self, id_: str) -> dict[str, Any]:
        answer = self.get(f"{EVENTS}/{id_}")
        assert answer.status == 200, answer
        document: dict[str, Any] = answer.document
        return document

    def listed(self, query: str = "") -> list[str]:
        answer = self.get(f"{EVENTS}?{query}")
        assert answer.status == 200, answer
        return [event["id"] for event in answer.document["events"]]


@pytest.fixture(scope="module")
def server(postgres: MadePostgres) -> Iterator[MadeServer]:
    waiting = EventLimits(per_client=5, per_tenant=8, overall=12)
    settings = replace(default_settings(Path("/nowhere")), fleet=FleetSettings(waiting=waiting))
    with (
        postgres.new_database() as address,
        Database.open(address, size=20) as database,
        made_server(database, settings=settings) as server,
    ):
        yield server


@pytest.fixture
def fleet(server: MadeServer) -> PlayedFleet:
    """Without what other tests submitted."""
    with server.database.transaction() as connection:
        connection.execute(
            "truncate changes, runs, workers, events, devices, idempotency_keys, sources, blueprints cascade"
        )
    return PlayedFleet(server.database, offered(retries=0), offered("limited", concurrency=1))


@pytest.fixture
def client(server: MadeServer) -> Client:
    return Client(server)


def ok(answer: Answer) -> str:
    assert answer.status == 202, answer
    assert answer.headers["location"] == f"{EVENTS}/{answer.document['id']}"
    return str(answer.document["id"])


def test_a_repeated_request_is_the_same_event(fleet: PlayedFleet, client: Client, server: MadeServer) -> None:
    """By its key, within a tenant, also if it is sent many times at once; another request is 409."""
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.submit("create", "a", 1, key="k-1"), range(8)))
    assert len({ok(answer) for answer in answers}) == 1
    assert [answer.headers.get("idempotency-replayed") for answer in answers].count(None) == 1
    first = ok(answers[0])
    turned = {"resource_id": "a", "payload": {"number": 1}, "action": "create", "blueprint": "site"}
    assert ok(client.post(EVENTS, turned, **{KEY_HEADER: "k-1"})) == first
    for other in (client.submit("create", "a", 2, key="k-1"), client.submit("delete", "a", key="k-1")):
        assert (other.status, other.problem["code"]) == (409, "HF-EVENT-7")
    assert ok(Client(server, tenant=OTHER).submit("create", "a", 2, key="k-1")) != first
    fleet.work()
    fleet.work()
    again = client.submit("create", "a", 1, key="k-1", wait="?wait=5")
    assert (again.status, again.document["status"], again.document["id"]) == (200, "succeeded", first)
    # What was refused takes no key.
    assert client.submit("create", "a", 1, key="k-2").status == 409
    assert ok(client.submit("update", "a", 2, key="k-2"))
    for wrong in ("", "x" * 256, "a\tb"):
        assert client.submit("update", "a", 2, key=wrong).status in (400, 422)


def test_a_client_waits_for_the_end(fleet: PlayedFleet, client: Client) -> None:
    """200 once the event is final or waits for an approval, also after another attempt; otherwise 202."""
    early = client.submit("create", "a", 1, wait="?wait=0.05")
    assert (early.status, early.document["status"]) == (202, "queued")
    assert client.submit("update", "a", 1, wait="?wait=301").status == 422
    assert client.submit("update", "a", 1, wait="?wait=-1").status == 422
    offer(fleet.database, fleet.stores, offered(retries=1))
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(client.submit, "update", "a", 2, wait="?wait=30", requires_approval=True)
        eventually(lambda: len(client.listed()) == 2, what="the update")
        assert not waiting.done()
        followed = pool.submit(client.get, f"{EVENTS}/{early.document['id']}?wait=30")
        assert fleet.work() is not None
        assert followed.result().document["status"] == "succeeded"
        failed = fleet.work("failed")
        assert failed is not None
        assert (failed.status, failed.attempts) == ("queued", 2)
        fleet.work("waiting")
        answer = waiting.result()
    assert (answer.status, answer.document["status"], answer.document["attempts"]) == (200, "waiting", 2)


def test_pending_updates_merge_and_a_waiting_event_blocks(fleet: PlayedFleet, client: Client) -> None:
    created = ok(client.submit("create", "a", 1))
    updates = [ok(client.submit("update", "a", number)) for number in (2, 3)]
    kept = ok(client.submit("update", "a"))
    assert [client.event(id_)["status"] for id_ in updates] == ["superseded"] * 2
    assert [client.event(id_)["superseded_by"] for id_ in updates] == [updates[1], kept]
    assert fleet.payload(kept) == {"number": 3}, "an update without a payload keeps the pending one"
    assert ok(client.submit("delete", "a"))
    for _ in range(2):
        fleet.work()
    held = ok(client.submit("create", "b", 1, requires_approval=True))
    fleet.work()  # The deletion of a.
    fleet.work("waiting")
    assert client.event(held)["status"] == "waiting"
    later = [ok(client.submit("update", "b", number)) for number in (2, 3)]
    fleet.keeper.run()
    assert fleet.worker.claim() is None
    assert [client.event(id_)["status"] for id_ in later] == ["superseded", "queued"]
    assert client.post(f"{EVENTS}/{held}/cancel").document["status"] in ("running", "cancelled")
    fleet.keeper.run()
    assert client.event(held)["status"] == "cancelled"
    assert client.event(created)["status"] == "succeeded"


def test_too_many_open_events_are_refused(fleet: PlayedFleet, server: MadeServer) -> None:
    """Per client, per tenant and overall, also if they began at once; nothing is stored of those."""
    ada, bob = Client(server), Client(server, name="bob")
    ends = []
    for client, count, whose in ((ada, 5, "client"), (bob, 3, "tenant")):
        ends += [ok(client.submit("create", f"{whose}{place}", 1)) for place in range(count)]
        refused = client.submit("create", "more", 1, key="k")
        assert (refused.status, refused.problem["code"]) == (429, "HF-EVENT-6")
        assert whose in refused.problem["message"]
        assert int(refused.headers["retry-after"]) > 0
    other = Client(server, tenant=OTHER, name="eve")
    for place in range(4):
        ok(other.submit("create", f"d{place}", 1))
    assert "on this server" in other.submit("create", "more", 1).problem["message"]
    fleet.work()
    ok(ada.submit("create", "more", 1, key="k"))


def test_events_are_listed_by_filters_and_pages(fleet: PlayedFleet, client: Client) -> None:
    made = [ok(client.submit("create", name, 1)) for name in ("a", "b", "c")]
    fleet.work("failed")
    fleet.work()
    assert client.listed() == made[::-1]
    assert client.listed("status=failed") == client.listed("dead_letters=true") == made[:1]
    assert client.listed("status=queued") == made[2:]
    assert client.listed("resource_id=b&action=create&blueprint=site") == made[1:2]
    assert client.listed("blueprint=limited") == client.listed("action=delete") == []
    page = client.get(f"{EVENTS}?limit=2").document
    assert client.listed(f"limit=2&cursor={page['next']}") == made[:1]
    for wrong in ("status=over", "limit=0", "limit=201", "cursor=x", "action=destroy"):
        assert client.get(f"{EVENTS}?{wrong}").status == 422
    # Another attempt, and it is no longer among the dead letters.
    again = client.post(f"{EVENTS}/{made[0]}/retry", {"reason": "again"})
    assert (again.document["origin"], again.document["reason"]) == (made[0], "again")
    assert client.listed("dead_letters=true") == []
    fleet.work()
    fleet.work()
    devices = client.get("/api/v1/devices?limit=2").document
    assert [device["resource_id"] for device in devices["devices"]] == ["a", "b"]
    rest = client.get(f"/api/v1/devices?limit=2&cursor={devices['next']}").document
    assert [device["resource_id"] for device in rest["devices"]] == ["c"]
    assert client.get("/api/v1/devices/site/a").document["state"] == "fleet/default/site/a"
    assert client.get("/api/v1/devices/site/none").status == 404
    assert [item["name"] for item in client.get("/api/v1/blueprints").document["blueprints"]] == [
        "limited",
        "site",
    ]


def test_what_cannot_be_done_is_a_conflict(fleet: PlayedFleet, client: Client) -> None:
    """Each with the status of the event in its hint. What a failed creation left can be deleted."""
    offer(fleet.database, fleet.stores, offered(), offered("kept", deletion="deny"))
    first = ok(client.submit("create", "a", 1))
    for action in ("approve", "retry", "rollback"):
        answer = (
            client.post(f"{EVENTS}/{first}/{action}", {})
            if action != "approve"
            else Client(client.server, Role.APPROVER).post(f"{EVENTS}/{first}/approve", {"digest": DIGEST})
        )
        assert (answer.status, answer.problem["code"]) == (409, "HF-EVENT-9"), action
        assert "queued" in answer.problem["hint"]
    assert client.get(f"{EVENTS}/{first}/log").status in (200, 404)
    assert client.submit("create", "a", 2).status == 409
    assert client.submit("update", "b", 2).status == 409
    assert client.submit("delete", "b").status == 409
    assert client.submit("delete", "a", blueprint="kept").problem["code"] == "HF-EVENT-3"
    fleet.work("failed")
    assert client.post(f"{EVENTS}/{first}/cancel").status == 409
    deleted = ok(client.submit("delete", "a"))
    fleet.work()
    assert client.event(deleted)["status"] == "succeeded"
    assert fleet.payload(deleted) == {"number": 1}
    # A roll-back never leads to a life before a deletion.
    second = ok(client.submit("create", "a", 2))
    fleet.work()
    refused = client.post(f"{EVENTS}/{second}/rollback", {})
    assert (refused.status, refused.problem["code"]) == (409, "HF-EVENT-9")
    update = ok(client.submit("update", "a", 3))
    fleet.work()
    back = client.post(f"{EVENTS}/{update}/rollback", {}).document["id"]
    assert fleet.payload(back) == {"number": 2}


def test_a_cancelled_retry_leaves_a_device_that_can_be_deleted(fleet: PlayedFleet, client: Client) -> None:
    """Some of it may exist: an attempt to create it began."""
    offer(fleet.database, fleet.stores, offered(retries=3, retry_wait=3600.0))
    event = ok(client.submit("create", "a", 1))
    fleet.work("failed")
    assert client.event(event)["next_try"] is not None
    assert client.post(f"{EVENTS}/{event}/cancel").document["status"] == "cancelled"
    device = fleet.rows.device("default", "site", "a")
    assert device is not None
    assert device.status is DeviceStatus.INCOMPLETE
    assert ok(client.submit("delete", "a"))


@pytest.mark.parametrize(
    "newer", ["queued", "running", "waiting", "unknown", "applied", "failed", "cancelled"]
)
def test_an_old_event_is_not_repeated_after_a_newer_one_that_counts(
    fleet: PlayedFleet, client: Client, newer: str
) -> None:
    """Its payload would come back unnoticed. What a newer event left as it was is no reason."""
    ok(client.submit("create", "a", 1))
    fleet.work()
    old = ok(client.submit("update", "a", 2))
    fleet.work("failed")
    later = ok(client.submit("update", "a", 3))
    match newer:
        case "running":
            assert fleet.worker.claim() is not None
        case "cancelled":
            assert client.post(f"{EVENTS}/{later}/cancel").status == 202
            fleet.keeper.run()
        case "waiting" | "unknown" | "applied" | "failed":
            fleet.work(newer)
    answer = client.post(f"{EVENTS}/{old}/retry")
    if newer in {"failed", "cancelled"}:
        assert fleet.payload(ok(answer)) == {"number": 2}
        return
    assert (answer.status, answer.problem["code"]) == (409, "HF-EVENT-18")
    assert later in answer.problem["message"]
    assert later in answer.problem["hint"]
    assert "holdfast events rollback" in answer.problem["hint"]
    assert client.listed()[0] == later


def test_a_decision_names_the_plan_that_was_shown(fleet: PlayedFleet, client: Client) -> None:
    """Whichever plan waits is never approved: without a digest 422, with another one 409."""
    event = ok(client.submit("create", "a", 1, requires_approval=True))
    fleet.work("waiting")
    approver = Client(client.server, Role.APPROVER, name="bob")
    for action in ("approve", "reject"):
        path = f"{EVENTS}/{event}/{action}"
        missing = approver.post(path, {"reason": "because"})
        assert (missing.status, [error["path"] for error in missing.problem["errors"]]) == (422, ["/digest"])
        assert approver.post(path, {"digest": "e" * 64, "reason": "because"}).status == 409
    assert client.event(event)["status"] == "waiting"


def test_what_is_done_with_events_is_in_the_audit_log(
    fleet: PlayedFleet, server: MadeServer, client: Client
) -> None:
    """Who, which device, which event, why. Never the payload, and nothing that was refused."""

    def entries() -> list[dict[str, Any]]:
        lines = Client(server, Role.ADMIN, name="root").get("/api/v1/audit?limit=200").document["entries"]
        return [line for line in lines if "event" in (line["details"] or {})]

    before = len(entries())
    asked: dict[str, Any] = {"payload": {"number": 1, "text": "hush"}, "reason": "order 1", "key": "k"}
    first = ok(client.submit("create", "audited", **asked))
    assert client.submit("create", "audited", **asked).headers["idempotency-replayed"]
    assert client.submit("create", "audited", 1).status == 409
    fleet.work()
    failed = ok(client.submit("update", "audited", 2))
    fleet.work("failed")
    again = ok(client.post(f"{EVENTS}/{failed}/retry", {"reason": "once more"}))
    fleet.work()
    back = ok(client.post(f"{EVENTS}/{again}/rollback", {}))
    queued = ok(client.submit("delete", "audited"))
    assert client.post(f"{EVENTS}/{queued}/cancel", {"reason": "no"}).status == 202
    assert client.post(f"{EVENTS}/{queued}/cancel").status == 409
    running = fleet.worker.claim()
    assert running is not None
    assert client.post(f"{EVENTS}/{back}/cancel", {"reason": "stop"}).status == 202
    found = entries()
    added = sorted(found, key=lambda line: int(line["seq"]))[before:]
    shown = [
        (line["what"], line["details"]["event"], line["details"].get("origin"), line["reason"])
        for line in added
    ]
    assert shown == [
        ("event-submit", first, None, "order 1"),
        ("event-submit", failed, None, None),
        ("event-retry", again, failed, "once more"),
        ("event-rollback", back, first, f"roll back {again}"),
        ("event-submit", queued, None, None),
        ("cancel", queued, None, "no"),
        ("cancel", back, None, "stop"),
    ]
    assert {line["who"]["name"] for line in added} == {"ada"}
    assert {line["stack"] for line in added} == {"fleet/default/site/audited"}
    assert "hush" not in json.dumps(added)
    others = Client(server, Role.ADMIN, tenant=OTHER).get("/api/v1/audit?limit=200").document["entries"]
    assert "audited" not in json.dumps(others)


def test_an_unknown_outcome_blocks_its_device_until_it_is_reconciled(
    fleet: PlayedFleet, client: Client
) -> None:
    """And no other. Then the event is tried again."""
    event = ok(client.submit("create", "a", 1))
    fleet.work("unknown")
    assert client.get(f"{EVENTS}/{event}?wait=5").document["status"] == "unknown"
    update = ok(client.submit("update", "a", 2))
    ok(client.submit("create", "b", 1))
    done = fleet.work()
    assert done is not None
    assert done.resource_id == "b"
    for action in ("retry", "cancel"):
        refused = client.post(f"{EVENTS}/{event}/{action}")
        assert (refused.status, "reconcile" in refused.problem["hint"]) == (409, True)
    run = client.event(event)["run"]
    assert client.post(f"/api/v1/runs/{run}/retry", {}).status == 409
    accepted = client.post(f"/api/v1/runs/{run}/reconcile", {"reason": "looked at it"})
    assert accepted.status == 202, accepted
    fleet.work("unchanged")
    for expected in (event, update):
        done = fleet.work()
        assert done is not None
        assert (done.id, done.status) == (expected, "succeeded")


BODY: dict[str, Any] = {"blueprint": "site", "action": "create", "resource_id": "a", "payload": {"number": 1}}


def _deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no payload": ({"payload": None}, "/payload/number"),
    "type": ({"payload": {"number": "1"}}, "/payload/number"),
    "unknown": ({"payload": {"number": 1, "nunber": 1}}, "/payload/nunber"),
    "fraction": ({"payload": {"number": 1.5}}, "/payload/number"),
    "huge": ({"payload": {"number": 2**600}}, "/payload/number"),
    "deep": ({"payload": {"number": 1, "text": _deep(70)}}, "/payload/text" + "/0" * 63),
    "large": ({"payload": {"number": 1, "text": "x" * 1_000_001}}, "/payload"),
    "not NFC": ({"payload": {"number": 1, "text": "e\u0301"}}, "/payload/text"),
    "blueprint": ({"blueprint": "none"}, "/blueprint"),
    "folder": ({"resource_id": "../a"}, "/resource_id"),
    "dots": ({"resource_id": "a..b"}, "/resource_id"),
    "slash": ({"resource_id": "a/b"}, "/resource_id"),
    "line": ({"resource_id": "a\n"}, "/resource_id"),
    "glob": ({"resource_id": "a*"}, "/resource_id"),
    "action": ({"action": "destroy"}, "/action"),
    "label": ({"labels": {"a": "b\nc"}}, "/labels"),
    "field": ({"reson": ""}, ""),
    "list": ({"payload": [1]}, "/payload"),
}


@pytest.mark.parametrize("case", WRONG)
def test_every_mistake_is_named_at_its_place(fleet: PlayedFleet, client: Client, case: str) -> None:
    """And nothing is stored. A value of the payload is not repeated: it may be a secret."""
    del fleet
    change, path = WRONG[case]
    answer = client.post(EVENTS, {**BODY, **change})
    assert answer.status == 422, answer
    assert any(error["path"].startswith(path) for error in answer.problem["errors"]), answer.problem
    assert client.listed() == []


@pytest.mark.parametrize(
    "body",
    [
        b'{"blueprint": "site", ',
        b'{"blueprint": "site", "action": "create", "resource_id": "a", "payload": ' + b"[" * 100_000,
        json.dumps({**BODY, "payload": {"number": 1, "text": _deep(900)}}).encode(),
        json.dumps({**BODY, "reason": "a\0b"}).encode(),
        json.dumps({**BODY, "payload": {"number": 1, "text": "\0"}}).encode(),
        json.dumps({**BODY, "payload": {"number": 1, "text": "\ud800"}}).encode(),
        b'{"payload": {"number": NaN}}',
        b"\xff",
    ],
    ids=["cut", "brackets", "deep", "NUL", "NUL in payload", "surrogate", "NaN", "not UTF-8"],
)
def test_what_is_not_json_is_refused(
    fleet: PlayedFleet, client: Client, server: MadeServer, body: bytes
) -> None:
    del fleet
    headers = {"content-type": "application/json"}
    answer = server.send("POST", EVENTS, body=body, token=client.token, headers=headers)
    assert answer.status in (400, 422), answer
    assert answer.problem["code"]
    assert client.listed() == []


def require_hidden(answer: Answer) -> None:
    """As if it did not exist, or as the role is refused everywhere."""
    assert answer.status in (403, 404), answer
    assert b"hush" not in answer.body


def test_no_route_shows_or_changes_anything_of_another_tenant(
    fleet: PlayedFleet, server: MadeServer, client: Client
) -> None:
    """404 or empty, whatever the role: events, devices and webhooks."""
    offer(fleet.database, fleet.stores, offered(), offered("limited", concurrency=1))
    event = ok(client.submit("create", "a", 1, key="k", labels={"site": "hush"}))
    fleet.work("waiting")
    admin = Client(server, Role.ADMIN)
    webhook = admin.post("/api/v1/webhooks", {"url": "https://example.com/", "events": ["event.*"]}).document
    before = client.event(event)
    for role in (Role.VIEWER, Role.OPERATOR, Role.APPROVER, Role.ADMIN):
        stranger = Client(server, role, tenant=OTHER)
        assert stranger.listed() == stranger.listed("dead_letters=true") == []
        assert stranger.get("/api/v1/devices").document["devices"] == []
        for path in (
            *(f"{EVENTS}/{event}", f"{EVENTS}/{event}?wait=1", f"{EVENTS}/{event}/log"),
            *("/api/v1/devices/site/a", f"/api/v1/runs/{before['run']}"),
            *(f"/api/v1/webhooks/{webhook['id']}", f"/api/v1/webhooks/{webhook['id']}/deliveries"),
        ):
            require_hidden(stranger.get(path))
        for action in ("approve", "reject", "cancel", "retry", "rollback"):
            digest = {"digest": DIGEST} if action in {"approve", "reject"} else {}
            require_hidden(stranger.post(f"{EVENTS}/{event}/{action}", {"reason": "mine", **digest}))
        require_hidden(stranger.post(f"/api/v1/webhooks/{webhook['id']}/test"))
    # Within a tenant a token may be for some devices only.
    part = Client(server, stacks=("fleet/default/site/b*",))
    assert part.listed() == part.get("/api/v1/devices").document["devices"] == []
    assert part.get(f"{EVENTS}/{event}").status == part.get("/api/v1/devices/site/a").status == 404
    assert part.submit("update", "a", 2).status == 403
    assert part.submit("create", "a", 1, key="k").status in (404, 409)
    ok(part.submit("create", "b1", 2))
    # A device of the same name is another one there, and limits are its own.
    there = Client(server, tenant=OTHER)
    ok(there.submit("create", "a", 5))
    fleet.work()
    fleet.work()
    assert client.event(event) == before


def test_an_event_outlives_its_run_and_its_blueprint(fleet: PlayedFleet, client: Client) -> None:
    """Old runs are removed, with outputs and log; those of the last event of a device stay, with its payload
    and the code.
    """
    event = ok(client.submit("create", "a", 1))
    assert client.event(event)["outputs"] is None
    fleet.work()
    ok(client.submit("update", "a", 2))
    fleet.work()
    waiting = ok(client.submit("create", "b", 1))
    with fleet.database.transaction() as connection:
        connection.execute("update changes set ended = now() - interval '1 year' where phase = 'done'")
        connection.execute("update sources set created = now() - interval '1 year'")
    assert remove_old_changes(fleet.database, keep=1, max_age=60.0) == 1
    remove_expired_uploads(fleet.database)
    document = client.event(event)
    assert (document["status"], document["outputs"]) == ("succeeded", None)
    assert client.get(f"{EVENTS}/{event}/log").status == 404
    offer(fleet.database, fleet.stores, offered("limited"))
    refused = client.submit("update", "a", 3)
    assert (refused.status, refused.problem["code"]) == (422, "HF-EVENT-2")
    done = fleet.work()
    assert done is not None
    assert (done.id, done.status) == (waiting, "succeeded")
    offer(fleet.database, fleet.stores, offered())
    assert fleet.payload(ok(client.submit("update", "a"))) == {"number": 2}


def test_a_device_of_a_withdrawn_blueprint_can_be_deleted(
    fleet: PlayedFleet, server: MadeServer, client: Client
) -> None:
    """With the code of its last change, also if a later version was offered. Nothing else is possible."""
    ok(client.submit("create", "a", 1))
    fleet.work()
    assert fleet.work("failed") is None
    failed = ok(client.submit("create", "b", 1))
    fleet.work("failed")
    offer(fleet.database, fleet.stores, offered(version="2.0.0", digest="site-2"))
    offer(fleet.database, fleet.stores, offered("limited"))
    for action, device in (("create", "c"), ("update", "a"), ("delete", "c")):
        refused = client.submit(action, device, 3 if action == "create" else None)
        assert (refused.status, refused.problem["code"]) == (422, "HF-EVENT-2"), action
        assert "no longer offers the blueprint site" in refused.problem["message"]
        assert "serve --blueprints" in refused.problem["hint"]
    assert client.post(f"{EVENTS}/{failed}/retry").problem["code"] == "HF-EVENT-2"
    assert Client(server, tenant=OTHER).submit("delete", "a").problem["code"] == "HF-EVENT-2"
    deleted, cleaned = ok(client.submit("delete", "a")), ok(client.submit("delete", "b"))
    assert (fleet.event(deleted).version, fleet.event(deleted).digest) == ("1.0.0", "site-1")
    assert (fleet.event(cleaned).version, fleet.event(cleaned).digest) == ("2.0.0", "site-2")
    for expected in (deleted, cleaned):
        done = fleet.work()
        assert done is not None
        assert (done.id, done.status) == (expected, "succeeded")


def test_old_events_are_removed_and_what_devices_need_stays(fleet: PlayedFleet, client: Client) -> None:
    """With their payloads. Of a device that exists, its last two payloads stay; open events always do."""
    living = [ok(client.submit("create", "a", 1))]
    fleet.work()
    for number in (2, 3, 4):
        living.append(ok(client.submit("update", "a", number)))
        fleet.work()
    living.append(ok(client.submit("update", "a", 5)))
    fleet.work("failed")
    dropped = ok(client.submit("update", "a", 6))
    assert client.post(f"{EVENTS}/{dropped}/cancel").status == 202
    fleet.keeper.run()
    letter = ok(client.submit("update", "a", 7))
    fleet.work("failed")
    gone = [ok(client.submit("create", "b", 1))]
    fleet.work()
    gone.append(ok(client.submit("delete", "b")))
    fleet.work()
    broken = ok(client.submit("create", "c", 8))
    fleet.work("failed")
    unfinished = ok(client.submit("update", "c", 9))
    fleet.work("waiting")
    assert remove_old_events(fleet.database, max_age=60.0) == 0, "nothing is old"
    with fleet.database.transaction() as connection:
        connection.execute("update events set updated = now() - interval '1 year'")
        connection.execute("update devices set updated = now() - interval '1 year'")
    kept = {living[2], living[3], letter, broken, unfinished}
    removed = {living[0], living[1], living[4], dropped, *gone}
    assert remove_old_events(fleet.database, max_age=-60.0) == len(removed)
    assert set(client.listed()) == kept
    with fleet.database.transaction() as connection:
        rows = connection.execute("select name from blobs where name like '%/events/%'").fetchall()
        stored = {name.rpartition("/")[2] for (name,) in rows}
    assert stored >= kept
    assert not stored & removed
    assert client.get("/api/v1/devices/site/b").status == 404, "nothing is left of it"
    assert remove_old_events(fleet.database, max_age=-60.0) == 0
    # All that needs a payload works.
    back = ok(client.post(f"{EVENTS}/{living[3]}/rollback", {}))
    assert fleet.payload(back) == {"number": 3}
    assert fleet.payload(ok(client.submit("update", "a"))) == {"number": 3}
    assert ok(client.submit("create", "b", 1))


class _Failing:
    """The run stores of tenants, which cannot be read the first time."""

    def __init__(self, fleet: PlayedFleet) -> None:
        self._fleet, self.failures = fleet, 0

    def __call__(self, tenant: str) -> RunStore:
        if not self.failures:
            self.failures += 1
            raise OSError("secret text")
        return self._fleet.stores.of(tenant)


def test_an_error_does_not_stop_the_keepers(fleet: PlayedFleet, client: Client) -> None:
    """Two servers keep one fleet: every event ends once, whatever fails in one of them."""
    log, stores = ListLog(), _Failing(fleet)
    broken = FleetKeeper(database=fleet.database, store=stores, log=log)
    events = [ok(client.submit("create", f"d{place}", 1)) for place in range(5)]
    for _ in events:
        change = fleet.worker.claim()
        assert change is not None
        fleet.begin(change)
        fleet.end(change, "refused")
    with hold_keeper(broken, poll=0.05):
        eventually(lambda: stores.failures == 1, what="the failure")
        with hold_keeper(fleet.keeper, poll=0.05):
            eventually(lambda: client.listed("status=failed") == events[::-1], what="the end")
    assert {"event": "events wait", "message": "OSError"} in log.lines
    assert "secret text" not in str(log.lines)
    rows = fleet.rows.events("default", limit=10)
    assert [event.attempts for event in rows] == [1] * 5


def test_many_clients_at_once_lose_nothing(fleet: PlayedFleet, server: MadeServer) -> None:
    """More than the server has connections: the first use of a blueprint must not block them all."""
    clients = [Client(server, name=f"c{place}", tenant=f"t{place}") for place in range(4)]
    start = threading.Barrier(12)

    def send(place: int) -> int:
        start.wait()
        return clients[place % 4].submit("create", f"d{place}", 1).status

    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(send, range(12))) == [202] * 12
    assert sum(fleet.work() is not None for _ in range(12)) == 12
