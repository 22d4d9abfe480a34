"""Notifications of a server: what happened in a committed transaction is told, whatever fails in between."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from alerts_made import made_alert, settings_of
from answering import Answer
from channel_servers import ROUTING_KEY, PagerDuty
from fleet_played import PlayedFleet
from msgspec.structs import replace
from postgres_made import made_postgres
from program import eventually
from server_made import KEY, ListLog, MadeServer, made_server

from holdfast.config.server import default_settings
from holdfast.database.database import Database
from holdfast.identity.principal import DEFAULT_TENANT, Principal
from holdfast.identity.roles import Role
from holdfast.kernel.errors import HoldfastError
from holdfast.notify.alerts.outbox import Outbox
from holdfast.notify.alerts.server_sink import raise_alert
from holdfast.server.alert_sources import AlertSources
from holdfast.server.audit_log import TenantStores
from holdfast.server.notifications import NotificationWork, ServerChannels, hold_notifications
from holdfast.store.alert_signals import AlertSignals
from holdfast.store.server_runs.phases import Operation
from holdfast.store.server_runs.rows import ChangeRows, NewChange, NewRun
from holdfast.store.server_runs.sources import SourceRows
from holdfast.system.environment import Environment

NOTIFICATIONS = "/api/v1/notifications"
SECRETS = {"PAGER": ROUTING_KEY}


class Made:
    def __init__(self, server: MadeServer, pager: PagerDuty) -> None:
        self.server, self.database, self.pager, self.log = server, server.database, pager, ListLog()
        self.stores = TenantStores(self.database, KEY)

    def work(self, routes: str = "[ { channel: pager } ]") -> NotificationWork:
        channel = f'{{ pagerduty: {{ routing_key: {{ secret: "env:PAGER" }}, url: "{self.pager.url}" }} }}'
        channels = ServerChannels(
            stores=self.stores,
            settings=settings_of(f"{{ channels: {{ pager: {channel} }}, routes: {routes} }}"),
            environment=Environment(SECRETS),
            folder=Path("/nowhere"),
            log=self.log,
        )
        sources = AlertSources(database=self.database, stores=self.stores, url="https://holdfast.example")
        return NotificationWork(signals=AlertSignals(self.database), channels=channels, sources=sources)

    @contextmanager
    def notifying(self, **given: Any) -> Iterator[None]:
        with hold_notifications(self.work(**given), interval=0.02, marks_interval=0.1):
            yield

    def raise_(self, stack: str, *, tenant: str = DEFAULT_TENANT, **given: Any) -> None:
        with self.database.transaction() as connection:
            encrypted = self.stores.within(tenant, connection).encrypted
            raise_alert(connection, encrypted, tenant, made_alert(stack, **given))

    def raised(self, stack: str) -> bool:
        """False: the connection had ended."""
        with suppress(HoldfastError):
            self.raise_(stack)
            return True
        return False

    def ended_connections(self) -> bool:
        with suppress(HoldfastError), self.database.transaction() as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where pid <> pg_backend_pid() and datname = current_database()"
            )
            return True
        return False

    def submit(self, stack: str, operation: Operation = Operation.APPLY) -> tuple[str, str]:
        """A change with one run, in the queue: its id and that of the run."""
        source, run = f"source-{stack}", NewRun(stack=stack, environment="prod")
        SourceRows(self.database).add_upload(DEFAULT_TENANT, digest="0" * 64, size=1, by="ann", id_=source)
        ann = Principal(id="", name="ann", kind="token", role=Role.OPERATOR, tenant=DEFAULT_TENANT)
        new = NewChange(
            tenant=DEFAULT_TENANT,
            operation=operation,
            source=source,
            requester=ann,
            patterns=(stack,),
            runs=(run,),
        )
        return ChangeRows(self.database).submit(new).id, run.id

    def set_phase(self, run: str, phase: str, status: str | None = None) -> None:
        with self.database.transaction() as connection:
            statement = "update runs set phase = %s, status = %s where id = %s"
            connection.execute(statement, (phase, status, run))


@pytest.fixture
def made(database: Database, tmp_path: Path) -> Iterator[Made]:
    with made_on(database, tmp_path) as made:
        yield made


@contextmanager
def made_on(database: Database, tmp_path: Path) -> Iterator[Made]:
    (tmp_path / "pager").write_text(ROUTING_KEY)
    with (pager := PagerDuty()).http:
        channel = f'pagerduty: {{ routing_key: {{ secret: "file:pager" }}, url: "{pager.url}" }}'
        notify = settings_of(
            f"{{ channels: {{ pager: {{ {channel} }} }}, routes: [ {{ channel: pager, name: night }},"
            " { channel: pager, name: theirs, tenants: [other] } ] }"
        )
        settings = replace(default_settings(tmp_path), notify=notify)
        with made_server(database, settings=settings) as server:
            for tenant in (DEFAULT_TENANT, "other"):
                TenantStores(database, KEY).of(tenant).id()
            yield Made(server, pager)


def test_an_alert_is_told_if_its_transaction_is_committed(made: Made) -> None:
    """Rolled back, nothing is said; committed, it is said although no server was running then."""
    with suppress(ZeroDivisionError), made.database.transaction() as connection:
        encrypted = made.stores.within(DEFAULT_TENANT, connection).encrypted
        raise_alert(connection, encrypted, DEFAULT_TENANT, made_alert("never"))
        raise ZeroDivisionError
    made.raise_("told")
    with made.notifying():
        eventually(lambda: len(made.pager.open) == 1, what="the alert")
        made.raise_("told", resolved=True)
        eventually(lambda: made.pager.open == [], what="its end")
    assert "never" not in made.pager.raw
    with made.database.transaction() as connection:
        names = [name for (name,) in connection.execute("select name from blobs where name like '%raised%'")]
    assert names == []


def test_several_servers_tell_once(made: Made) -> None:
    """They share the tenants; each alert opens one incident, by one request."""
    for number in range(4):
        made.raise_(f"a-{number}")
        made.raise_(f"b-{number}", tenant="other")
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(made.notifying())
        eventually(lambda: len(made.pager.open) == 8, what="all alerts")
    assert {item.opened for item in made.pager.items.values()} == {1}


def test_a_server_that_died_is_replaced(made: Made) -> None:
    """Its lease ends, and another one goes on with what it had put into the outbox."""
    made.raise_("told")
    taken = made.work().take()
    assert taken is not None
    made.work()._collect(DEFAULT_TENANT)
    assert made.work().take() is None
    with made.database.transaction() as connection:
        connection.execute("update alert_outboxes set busy_until = now(), due = now()")
    with made.notifying():
        eventually(lambda: len(made.pager.open) == 1, what="the alert")


def test_a_database_that_restarts_loses_nothing(made: Made) -> None:
    """Connections that end in the middle are an error of one round."""
    with made.notifying():
        for number in range(4):
            eventually(partial(made.raised, f"stack-{number}"), what="an alert")
            eventually(made.ended_connections, what="the end of all connections")
        eventually(lambda: len(made.pager.open) == 4, what="all alerts", seconds=30)
    assert all(item.opened <= 2 for item in made.pager.items.values())


@pytest.mark.long
def test_a_postgresql_that_is_killed_while_a_message_is_sent_loses_nothing(tmp_path: Path) -> None:
    """Killed before the answer is recorded, and started again: the receiver sees one each."""
    with ExitStack() as stack:
        postgres = stack.enter_context(made_postgres(tmp_path / "postgres"))
        address = stack.enter_context(postgres.new_database())
        database = stack.enter_context(Database.open(address, size=20))
        made = stack.enter_context(made_on(database, tmp_path))
        stack.enter_context(made.notifying())
        made.pager.http.hold()
        made.raise_("first")
        eventually(lambda: bool(made.pager.http.asked), what="the first attempt")
        made.raise_("second")
        pid = postgres.cluster.running_pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: postgres.cluster.running_pid() != pid, what="the end of PostgreSQL")
        made.pager.http.release()
        postgres.cluster.start()
        eventually(partial(made.raised, "third"), what="PostgreSQL again")
        _end_leases(made)
        eventually(lambda: len(made.pager.open) == 3, what="all alerts")
        assert len(made.pager.items) == 3
        assert all(item.opened <= 2 for item in made.pager.items.values())


def test_events_of_devices_are_told_until_they_succeed(made: Made) -> None:
    """Which device, what to do; one alert however often it fails; a success or a reconcile ends it."""
    fleet = PlayedFleet(made.database)
    with made.notifying():
        failed = fleet.submit("create", "r1", 1)
        fleet.work("failed")
        eventually(lambda: len(made.pager.open) == 1, what="the failure")
        text = made.pager.texts[-1]
        for part in ("site r1: create failed", f"holdfast events show {failed.id}"):
            assert part in text
        assert f"https://holdfast.example/api/v1/events/{failed.id}" in made.pager.raw
        fleet.submit("create", "r1", 2)
        fleet.work("failed")
        eventually(lambda: _signals(made) == 0, what="all signals")
        fleet.submit("create", "r1", 3)
        fleet.work("applied")
        eventually(lambda: made.pager.open == [], what="the end of the failure")
        assert len(made.pager.items) == 1

        fleet.submit("update", "r1", 4)
        unknown = fleet.work("unknown")
        assert unknown is not None
        eventually(lambda: len(made.pager.open) == 1, what="the unknown outcome")
        assert f"holdfast runs reconcile {unknown.run} --server" in made.pager.texts[-1]
        fleet.reconcile(unknown)
        fleet.work("applied")
        assert len(made.pager.open) == 1, "the event goes on"
        fleet.work("applied")
        eventually(lambda: made.pager.open == [], what="its end")


def test_runs_are_told_by_whoever_changes_them(made: Made) -> None:
    """Waiting, decided, failed, unknown and applied, from the rows of runs themselves."""
    _, first = made.submit("prod/network")
    _, second = made.submit("prod/db")
    with made.notifying():
        made.set_phase(first, "planning")
        made.set_phase(first, "waiting", "waiting")
        eventually(lambda: len(made.pager.open) == 1, what="waiting")
        assert f"holdfast runs approve {first} --server" in made.pager.texts[-1]
        made.set_phase(first, "applying")
        eventually(lambda: made.pager.open == [], what="decided")
        made.set_phase(first, "done", "failed")
        eventually(lambda: len(made.pager.open) == 1, what="failed")
        assert f"https://holdfast.example/api/v1/runs/{first}" in made.pager.raw
        made.set_phase(second, "done", "unknown")
        eventually(lambda: len(made.pager.open) == 2, what="unknown")
        _, again = made.submit("prod/network2")
        with made.database.transaction() as connection:
            connection.execute("update runs set stack = 'prod/network' where id = %s", (again,))
        made.set_phase(again, "done", "applied")
        eventually(lambda: len(made.pager.open) == 1, what="the end of the failure")
        _, plan = made.submit("prod/plan", Operation.PLAN)
        made.set_phase(plan, "done", "failed")
        eventually(lambda: _signals(made) == 0, what="all signals")
    assert "prod/plan" not in made.pager.raw


def test_a_tenant_is_told_only_by_its_routes(made: Made) -> None:
    made.raise_("mine")
    made.raise_("theirs", tenant="other")
    with made.notifying(routes="[ { channel: pager, tenants: [other] } ]"):
        eventually(lambda: len(made.pager.open) == 1, what="the alert")
        eventually(lambda: _signals(made) == 0, what="all signals")
    assert "mine" not in made.pager.raw


def test_a_server_without_routes_keeps_no_signals(made: Made) -> None:
    made.raise_("nobody")
    with made.notifying(routes="[]"):
        eventually(lambda: _signals(made) == 0, what="no signals")
    assert made.pager.http.asked == []


def test_what_is_stored_shows_no_text(made: Made) -> None:
    """Signals have ids only, and what an alert says is encrypted."""
    made.raise_("prod/hidden", details=("canary-of-the-outbox",))
    made.pager.next_ = [Answer(status=500)] * 20
    with made.notifying():
        eventually(lambda: any(line.get("reason") for line in made.log.lines), what="an attempt")
    with made.database.transaction() as connection:
        rows = connection.execute("select data from blobs").fetchall()
        signals = connection.execute("select * from alert_signals").fetchall()
    stored = b"".join(bytes(data) for (data,) in rows) + str(signals).encode()
    assert b"canary-of-the-outbox" not in stored
    assert b"prod/hidden" not in stored
    assert "canary" not in str(made.log.lines)
    assert ROUTING_KEY not in str(made.log.lines)


def test_the_api_shows_tests_and_retries(made: Made) -> None:
    """What the channel cannot take is listed and sent again on request; a test is marked and recorded."""
    send = made.server.send
    made.pager.next_ = [Answer(status=500)]
    made.raise_("prod/network")
    with made.notifying():
        eventually(lambda: len(_document(made)["messages"]) == 1, what="a failed attempt")
        eventually(lambda: _document(made)["messages"][0]["error"] is not None, what="its error")
        document = _document(made)
        (message,) = document["messages"]
        assert [alert["stack"] for alert in document["alerts"]] == ["prod/network"]
        assert document["channels"][0]["state"] == "failing"
        eventually(lambda: _metric(made, "pending") == 1, what="the metric")
        answer = send("POST", f"{NOTIFICATIONS}/messages/{message['id']}/retry")
        assert (answer.status, answer.document["id"]) == (202, message["id"])
        eventually(lambda: _document(made)["messages"] == [], what="the delivery")
        eventually(lambda: (_metric(made, "pending"), _metric(made, "open")) == (0, 1), what="the metric")
    assert send("POST", f"{NOTIFICATIONS}/messages/{message['id']}/retry").problem["code"] == "HF-NOTIFY-4"
    tested = send("POST", f"{NOTIFICATIONS}/test", {"route": "night"})
    assert tested.document == {
        "version": 1,
        "route": "night",
        "channel": "pager",
        "kind": "pagerduty",
        "delivered": True,
        "answer": "success: Event processed (triggered and resolved)",
    }
    assert len(made.pager.open) == 1, "the test is closed at once"
    made.pager.next_ = [Answer(status=403)]
    refused = send("POST", f"{NOTIFICATIONS}/test", {"route": "1"}).document
    assert (refused["delivered"], refused["answer"]) == (False, "the receiver answered 403")
    audit = send("GET", "/api/v1/audit").document["entries"]
    assert [entry["outcome"] for entry in audit if entry["what"] == "notify-test"] == ["failed", "done"]


def test_tests_of_a_channel_count_for_its_limit(made: Made) -> None:
    """An admin of a tenant cannot flood a channel that others read."""
    answers = (made.server.send("POST", f"{NOTIFICATIONS}/test", {"route": "night"}) for _ in range(200))
    refused = next(answer.document for answer in answers if not answer.document["delivered"])
    assert refused["answer"] == "not sent: the channel takes 20 messages in a minute"
    assert len(made.pager.items) >= 20


def test_tenants_see_and_test_only_their_own(made: Made) -> None:
    made.raise_("prod/mine")
    with made.notifying():
        eventually(lambda: len(_document(made)["alerts"]) == 1, what="the alert")
        eventually(lambda: _document(made)["messages"] == [], what="its delivery")
    other = made.server.token(Role.ADMIN, tenant="other")
    assert made.server.send("GET", NOTIFICATIONS, token=other).document["alerts"] == []
    named = {"route": "theirs"}
    assert made.server.send("POST", f"{NOTIFICATIONS}/test", named).problem["code"] == "HF-NOTIFY-3"
    assert made.server.send("POST", f"{NOTIFICATIONS}/test", named, token=other).status == 200
    narrow = made.server.token(Role.ADMIN, stacks=("dev/*",))
    assert made.server.send("GET", NOTIFICATIONS, token=narrow).status == 403


def _end_leases(made: Made) -> None:
    """As time does: of the outbox, and of the message that was being sent."""
    with made.database.transaction() as connection:
        connection.execute("update alert_outboxes set busy_until = now(), due = now()")
    delivery = made.work().channels.delivery(DEFAULT_TENANT)

    def step(outbox: Outbox) -> tuple[Outbox, None]:
        messages = {id_: replace(message, taken_until=None) for id_, message in outbox.messages.items()}
        return replace(outbox, messages=messages), None

    delivery.outbox.change(step)


def _document(made: Made) -> Any:
    answer = made.server.send("GET", NOTIFICATIONS)
    assert answer.status == 200, answer
    return answer.document


def _metric(made: Made, state: str) -> float:
    text = made.server.send("GET", "/metrics").body.decode()
    (line,) = [
        line for line in text.splitlines() if line.startswith(f'holdfast_notifications{{state="{state}"}}')
    ]
    return float(line.rpartition(" ")[2])


def _signals(made: Made) -> int:
    with made.database.transaction() as connection:
        row = connection.execute("select count(*) from alert_signals").fetchone()
    assert row is not None
    return int(row[0])
