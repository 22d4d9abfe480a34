"""Events of every code host start plans and applies, which end as comments. Real server, real database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from github_server import GithubServer
from host_server import MadeRequest, Misbehaviour
from server_made import KEY, Answer, ListLog, MadeServer, made_server
from webhook_hosts import HOOKS, AzureHooks, Hooks, Sent

from holdfast.database.database import Database
from holdfast.identity.principal import DEFAULT_TENANT
from holdfast.identity.roles import Role
from holdfast.notify.hosts.client import RetryLimits
from holdfast.notify.report import ChangeReport, StackReport
from holdfast.server.audit_log import TenantStores
from holdfast.server.webhooks import WebhookWork, hold_webhooks, read_settings
from holdfast.store.server_runs.claiming import Claiming
from holdfast.store.server_runs.contents import report_name
from holdfast.store.server_runs.phases import ChangePhase, Operation, RunPhase
from holdfast.store.server_runs.rows import Change, ChangeRows, NewRun
from holdfast.store.server_runs.sources import Repository, RepositoryRows, SourceRows
from holdfast.store.server_runs.webhooks import WebhookRows
from holdfast.store.server_runs.workers import NewWorker, WorkerRows
from holdfast.system import clock
from holdfast.system.environment import Environment

TOKEN = "ghs_good"
OLD, NEW, MERGE = "a" * 40, "c" * 40, "d" * 40


class Made:
    """A registered repository with a webhook, its code host, and a worker that only writes rows."""

    def __init__(self, server: MadeServer, hooks: Hooks, **settings: Any) -> None:
        self.server, self.hooks, self.host, self.database = server, hooks, hooks.server, server.database
        self.request = self.host.requests[7] = MadeRequest()
        repositories = RepositoryRows(self.database)
        added = repositories.add(
            DEFAULT_TENANT,
            name="infra",
            url="https://git.example/infra",
            branch="main",
            credentials=None,
            by="t",
        )
        assert added is not None
        self.repository: Repository = added
        document = {"token": TOKEN, **hooks.settings(), **settings}
        answer = server.send("PUT", "/api/v1/repositories/infra/webhook", document)
        assert answer.status == 200, answer
        self.path, self.secret = answer.document["path"], answer.document["secret"]
        self.changes, self.stores = ChangeRows(self.database), TenantStores(self.database, KEY)
        self.log = ListLog()
        self.work = WebhookWork(
            rows=WebhookRows(self.database),
            changes=self.changes,
            sources=SourceRows(self.database),
            stores=self.stores,
            environment=Environment({}),
            log=self.log,
            limits=lambda: RetryLimits(5.0, pause=lambda _: None),
        )
        worker = NewWorker(host="here", slot=1, version="1")
        WorkerRows(self.database).register(worker)
        self.claiming = Claiming(self.database, worker)
        self._deliveries = count(1)

    def send(self, sent: Sent, **headers: str) -> Answer:
        signed = self.hooks.sign(sent, self.secret)
        return self.server.send("POST", self.path, body=sent.body, headers={**signed, **headers}, token=None)

    def pushed(self, action: str = "synchronize", *, minutes: float = 10, delivery: str = "") -> Sent:
        delivery = delivery or f"delivery-{next(self._deliveries)}"
        return self.hooks.about_request(self.request, action, at=_ago(minutes), delivery=delivery)

    def push(self, action: str = "synchronize", *, minutes: float = 10) -> list[Change]:
        answer = self.send(self.pushed(action, minutes=minutes))
        assert answer.status == 202, answer
        return self.act()

    def comment(self, text: str, *, sender: str = "ada", minutes: float = 0) -> list[Change]:
        """The changes that it starts."""
        before = {change.id for change in self.all}
        number = next(self._deliveries)
        sent = self.hooks.about_comment(
            text, at=_ago(minutes), sender=sender, id_=number, delivery=f"delivery-{number}"
        )
        assert self.send(sent).status == 202
        return [change for change in self.act() if change.id not in before]

    def act(self) -> list[Change]:
        while self.work.run():
            pass
        return self.all

    @property
    def all(self) -> list[Change]:
        """Oldest first."""
        return list(reversed(self.changes.list(DEFAULT_TENANT)))

    @property
    def replies(self) -> list[str]:
        return self.host.bodies(7)

    def execute(self, statuses: dict[str, str], *, report: bool = False) -> Change:
        """As a worker: the next change, with these results."""
        change = self.claiming.claim()
        assert change is not None
        change = self.claiming.add_runs(change.id, change.fence, [NewRun(stack=stack) for stack in statuses])
        assert change is not None
        for number, run in enumerate(change.runs):
            mine = (change.id, change.fence, run.id)
            assert self.claiming.set_phase(*mine, RunPhase.PLANNING)
            status = statuses[run.stack]
            self.claiming.set_phase(*mine, RunPhase.DONE, status=status, digest=f"{number}" * 64)
        if report:
            stacks = tuple(StackReport(name=name, status=status) for name, status in statuses.items())
            written = ChangeReport(operation=change.operation.value, headline="of the worker", stacks=stacks)
            blobs = self.stores.of(DEFAULT_TENANT).encrypted
            blobs.write(report_name(change.id), msgspec.json.encode(written))
        self.claiming.finish(change.id, change.fence)
        self.act()
        finished = self.changes.of(change.id)
        assert finished is not None
        return finished

    def show_earlier(self) -> None:
        """As if the comments were written some minutes ago."""
        with self.database.transaction() as connection:
            connection.execute("update webhook_changes set reported_at = now() - interval '5 minutes'")


def _ago(minutes: float) -> str:
    return (clock.now() - timedelta(minutes=minutes)).isoformat()


@pytest.fixture
def server(database: Database) -> Iterator[MadeServer]:
    with made_server(database) as server:
        yield server


@pytest.fixture(params=["github", "gitlab", "azure"])
def hooks(request: pytest.FixtureRequest) -> Iterator[Hooks]:
    hooks = HOOKS[request.param]()
    with hooks.server:
        yield hooks


@pytest.fixture
def made(server: MadeServer, hooks: Hooks) -> Made:
    return Made(server, hooks)


@pytest.mark.parametrize("hooks", list(HOOKS), indirect=True)
def test_a_forged_event_is_refused_like_one_of_an_unknown_repository(made: Made) -> None:
    sent = made.pushed("opened", minutes=1)
    signed = made.hooks.sign(sent, made.secret)
    another = "gitlab" if made.hooks.name == "github" else "github"
    tries = [
        *((made.path, headers) for headers in made.hooks.forgeries(sent, made.secret)),
        (made.path, {}),
        (made.path.rpartition("/")[0] + "/none", signed),
        (made.path.replace(made.hooks.name, another), signed),
    ]
    refused = [
        made.server.send("POST", path, body=sent.body, headers=headers, token=None) for path, headers in tries
    ]
    assert [answer.problem["code"] for answer in refused] == ["HF-WEBHOOK-1"] * len(tries)
    assert len({answer.body for answer in refused}) == 1
    assert not made.act()
    assert made.send(sent).status == 202


@pytest.mark.parametrize("hooks", list(HOOKS), indirect=True)
def test_an_event_is_accepted_once_also_under_another_delivery_id(made: Made) -> None:
    sent = made.pushed("opened", minutes=1, delivery="delivery-a")
    assert made.send(sent).document == {"version": 1, "status": "accepted"}
    again = made.send(sent)
    assert (again.status, again.document["status"]) == (200, "known")
    if (renamed := made.hooks.renamed(sent, "delivery-b")) is not None:
        assert made.send(renamed).document["status"] == "known"
    other = made.pushed("reopened", minutes=1, delivery="delivery-a")
    assert made.send(other).document["status"] == "known"
    assert len(made.act()) == 1
    assert made.send(made.pushed("opened", minutes=8 * 24 * 60)).problem["code"] == "HF-WEBHOOK-4"
    assert made.work.rows.remove_old() == 0
    with made.database.transaction() as connection:
        connection.execute("update webhook_events set done = now() - interval '11 days'")
    assert made.work.rows.remove_old() == 1


def test_other_events_and_other_repositories_do_nothing(made: Made) -> None:
    assert made.send(made.hooks.unrelated()).status == 204
    sent = made.pushed("opened", minutes=1)
    assert made.send(replace(sent, body=b"{}")).problem["code"] == "HF-WEBHOOK-2"
    foreign = replace(sent, body=sent.body.replace(b"infra", b"other"))
    assert made.send(foreign).problem["code"] == "HF-WEBHOOK-3"
    form = made.send(sent, **{"content-type": "application/x-www-form-urlencoded"})
    assert form.status == 415
    assert not made.act()


def test_a_pull_request_is_planned_and_a_newer_commit_supersedes_the_plan(made: Made) -> None:
    (first,) = made.push("opened")
    assert (first.operation, first.phase) == (Operation.PLAN, ChangePhase.QUEUED)
    assert (first.requester.name, first.requester.role) == (f"{made.hooks.name}:ada", Role.PLANNER)
    assert first.reason == f"{made.hooks.project}{'#' if made.hooks.name == 'github' else '!'}7"
    source = made.work.sources.of(first.source)
    assert source is not None
    assert (source.wanted, source.base, source.repository) == (OLD, "b" * 40, made.repository.id)
    assert made.host.statuses[OLD] == [("pending", "Planning …")]

    made.request.head = NEW
    first, second = made.push()
    assert (first.phase, first.runs, first.cancelled_by) == (
        ChangePhase.DONE, (), "a newer event of pull request 7",
    )  # fmt: skip
    assert second.phase is ChangePhase.QUEUED
    assert made.push(minutes=9) == [first, second]  # An older event that arrives late.

    made.execute({"prod/network": "planned", "prod/db": "unchanged"}, report=True)
    (comment,) = made.replies
    assert comment.startswith("## ✅ May be merged")
    assert "of the worker" in comment
    assert "commit `cccccccccc`" in comment
    assert [state for state, _ in made.host.statuses[NEW]] == ["pending", "success"]


def test_a_comment_applies_exactly_the_plans_that_were_shown(made: Made) -> None:
    made.push("opened")
    plan = made.execute({"prod/network": "planned", "dev/db": "unchanged", "prod/db": "waiting"})
    made.show_earlier()
    (apply,) = made.comment("holdfast apply")
    assert (apply.operation, apply.requester.name, apply.requester.role) == (
        Operation.APPLY, f"{made.hooks.name}:ada", Role.OPERATOR,
    )  # fmt: skip
    assert apply.source == plan.source
    assert {run.stack: run.retried_from for run in apply.runs} == {
        run.stack: run.id for run in plan.runs if run.stack.startswith("prod/")
    }
    assert made.host.reactions[-1] in {"eyes", "like"}
    assert made.comment("holdfast apply") == []
    assert "is not finished" in made.replies[-1]

    made.execute(dict.fromkeys(("prod/network", "prod/db"), "applied"))
    assert len(made.replies) == 3
    assert made.replies[-1].startswith("## ✅ Applied")
    assert made.host.statuses[OLD][-1][0] == "success"


def test_a_plan_of_an_older_commit_is_not_applied(made: Made) -> None:
    made.push("opened")
    made.execute({"prod/network": "planned"})
    assert made.comment("holdfast apply", minutes=1) == []
    assert "the plan changed while you wrote" in made.replies[-1]
    made.show_earlier()
    made.request.head = NEW
    assert made.comment("holdfast apply") == []
    assert "the plan is for commit `aaaaaaaaaa`, and the newest is `cccccccccc`" in made.replies[-1]
    made.request.head, made.request.blocked = OLD, True
    assert made.comment("holdfast apply") == []
    assert "the pull request cannot be merged, as a" in made.replies[-1]
    assert "is missing" in made.replies[-1]
    made.request.blocked = False
    assert len(made.comment("holdfast apply")) == 1


def test_a_stranger_cannot_plan_apply_or_make_it_talk(made: Made) -> None:
    made.push("opened")
    made.execute({"prod/network": "planned"})
    made.show_earlier()
    made.hooks.permit("reader", writes=False)
    shown = made.replies
    for sender in ("mallory", "reader", "../../../user"):
        for text in ("holdfast plan", "holdfast apply", "holdfast help"):
            assert made.comment(text, sender=sender) == []
    assert made.replies == shown
    assert set(made.host.reactions) == ({"confused"} if made.hooks.name != "azure" else set())


def test_a_listed_user_needs_no_permission_on_the_host(server: MadeServer, hooks: Hooks) -> None:
    made = Made(server, hooks, users=["Carol"])
    (plan,) = made.comment("holdfast plan", sender="carol")
    assert plan.requester.name == f"{hooks.name}:carol"


def test_a_token_of_azure_devops_with_few_scopes_plans_and_applies_nothing(server: MadeServer) -> None:
    """It may read neither permissions nor policies: only listed users count, and nothing is applied."""
    hooks = AzureHooks()
    with hooks.server:
        made = Made(server, hooks, users=["carol"])
        hooks.server.reads_permissions = False
        assert made.comment("holdfast plan") == []
        assert len(made.push("opened")) == 1
        assert made.comment("holdfast apply", sender="carol") == []
        assert "may not read its policies" in made.replies[-1]
        hooks.server.reads_permissions = True
        assert len(made.comment("holdfast plan")) == 1


def private_key() -> tuple[str, str]:
    """And its public one, in PEM."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL
    public = key.public_key().public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)
    return key.private_bytes(encoding, form, serialization.NoEncryption()).decode(), public.decode()


def test_a_github_app_has_short_tokens_of_its_own(server: MadeServer) -> None:
    """They are used until shortly before their end, replaced if they are refused, and found nowhere."""
    hooks = HOOKS["github"]()
    private, public = private_key()
    with hooks.server as host:
        assert isinstance(host, GithubServer)
        host.install("123", public)
        app = {"id": "123", "installation": "5", "private_key": private}
        made = Made(server, hooks, token=None, app=app)
        made.push("opened")
        made.execute({"prod/network": "planned"})
        assert made.replies
        assert len(host.issued) == 1
        host.token, host.app_minutes = "revoked", 4
        assert made.comment("holdfast plan") == []
        _forward(made, "webhook_events")
        assert len(made.act()) == 2
        assert len(host.issued) == 2
        made.comment("holdfast help")
        assert len(host.issued) == 3
        shown = made.server.send("GET", "/api/v1/repositories/infra/webhook")
        assert shown.document["app"] == "123"
        everything = repr((shown, made.log.lines, made.work, made.server.send("GET", "/api/v1/audit")))
        for secret in (*host.issued, *private.splitlines()[1:-1]):
            assert secret not in everything
        with made.database.transaction() as connection:
            stored = connection.execute("select data from blobs").fetchall()
        assert not any(b"PRIVATE KEY" in row[0] for row in stored)


def test_a_webhook_has_a_token_or_an_app_of_github(made: Made) -> None:
    path, private = "/api/v1/repositories/infra/webhook", private_key()
    app = {"id": "123", "installation": "5", "private_key": private[0]}
    settings = made.hooks.settings()
    for wrong in (
        {"project": f"{settings['project']}2"},  # Another place does not get the token.
        {"token": "t", "app": app},
        {"app": {**app, "private_key": private[1]}},
        {"app": {**app, "private_key": "none"}},
        {"app": {**app, "installation": "../5"}},
    ):
        assert made.server.send("PUT", path, {**settings, **wrong}).status == 422
    expected = 200 if made.hooks.name == "github" else 422
    assert made.server.send("PUT", path, {**settings, "app": app}).status == expected


def test_a_fork_is_planned_after_a_member_asked_for_this_commit(made: Made) -> None:
    made.request.source = "fork"
    assert made.push("opened", minutes=30) == []
    assert "comes from a fork" in made.replies[-1]
    assert made.push(minutes=29) == []
    assert made.comment("holdfast plan", sender="mallory") == []
    made.request.head = NEW  # Pushed while the reviewer wrote; the event has not arrived.
    assert made.comment("holdfast plan", minutes=20) == []
    assert "arrived after your comment" in made.replies[-1]
    assert made.comment("holdfast plan", minutes=5) == []  # Written before it was known.
    assert len(made.comment("holdfast plan", minutes=-1)) == 1
    made.request.source = "deleted"  # The fork was deleted.
    assert made.push(minutes=4) == made.all
    assert len(made.all) == 1


def test_a_commit_that_came_back_is_not_the_one_that_was_reviewed(made: Made) -> None:
    """The author of a fork pushes a bad commit, then a good one, and the bad one again after the comment."""
    made.request.source = "fork"
    bad = made.request.head
    made.push("opened", minutes=30)
    made.request.head = NEW
    made.push(minutes=20)
    made.request.head = bad
    assert made.comment("holdfast plan", minutes=-1) == []
    assert "arrived after your comment" in made.replies[-1]
    assert len(made.comment("holdfast plan", minutes=-2)) == 1


def test_a_merge_is_applied_if_the_repository_is_set_to(server: MadeServer, hooks: Hooks) -> None:
    made = Made(server, hooks, apply="on_merge", stacks=["prod/*"])
    made.push("opened")
    made.request.open, made.request.merged, made.request.merge_commit = False, True, MERGE
    plan, apply = made.push("closed")
    assert plan.cancel is not None
    assert (apply.operation, apply.requester.role, apply.requester.stacks) == (
        Operation.APPLY, Role.CI, ("prod/*",),
    )  # fmt: skip
    source = made.work.sources.of(apply.source)
    assert source is not None
    assert (source.wanted, source.base) == (MERGE, "b" * 40)


def test_a_closed_pull_request_ends_its_plan(made: Made) -> None:
    made.push("opened")
    made.request.open = False
    (plan,) = made.push("closed")
    assert plan.phase is ChangePhase.DONE
    assert made.replies == []


@pytest.mark.parametrize("hooks", ["github"], indirect=True)
def test_a_host_that_fails_is_asked_again_and_fails_nothing(made: Made) -> None:
    made.host.to_come = [Misbehaviour(method="GET", status=400)]
    assert made.push("opened") == []
    assert made.log.lines[-1]["reason"] == "the code host answered 400"
    _forward(made, "webhook_events")
    assert len(made.act()) == 1
    made.host.to_come = [Misbehaviour(method="POST", status=422)]
    made.execute({"prod/network": "failed"})
    assert made.replies == []
    _forward(made, "webhook_changes")
    made.act()
    assert made.replies[0].startswith("## ⛔ Do not merge")
    assert made.host.statuses[OLD][-1][0] == "failure"


def _forward(made: Made, table: str) -> None:
    with made.database.transaction() as connection:
        connection.execute(f"update {table} set next_try = now()")  # noqa: S608 - a name of ours


@pytest.mark.parametrize("hooks", ["github"], indirect=True)
def test_the_last_events_and_what_became_of_them_are_shown(made: Made) -> None:
    path = "/api/v1/repositories/infra/webhook"
    assert made.send(made.pushed("opened", minutes=1)).status == 202
    (waiting,) = made.server.send("GET", path).document["deliveries"]
    assert (waiting["pull_request"], waiting["done"], waiting["outcome"]) == (7, None, None)
    made.act()
    (done,) = made.server.send("GET", path).document["deliveries"]
    assert done["id"] == waiting["id"]
    assert done["done"] is not None
    assert done["outcome"]
    assert done["change"] == made.all[0].id


def test_an_event_is_acted_on_by_the_thread_of_a_server(made: Made) -> None:
    assert made.send(made.pushed("opened", minutes=1)).status == 202
    with hold_webhooks(made.work, interval=0.01):
        while not made.all or OLD not in made.host.statuses:
            clock.pause(0.01)


def test_settings_show_no_secret_and_belong_to_their_tenant(made: Made) -> None:
    path = "/api/v1/repositories/infra/webhook"
    shown = made.server.send("GET", path)
    assert shown.document["secret"] is None
    assert TOKEN.encode() not in shown.body
    other = made.server.token(Role.ADMIN, tenant="other")
    assert made.server.send("GET", path, token=other).status == 404
    local = made.server.token(Role.ADMIN)
    document = {**made.hooks.settings(), "token": "t", "api": "http://127.0.0.1:1/acme"}
    assert made.server.send("PUT", path, document, token=local).status == 422
    assert made.server.send("PUT", path, {**document, "host": "none"}).status == 422
    for project in ("infra", "a/b?c", "../b/c/..%2f", "../infra", "a/b\n"):
        assert made.server.send("PUT", path, {**document, "project": project}).status == 422
    kept = made.server.send("PUT", path, {**document, "secret": "0123456789abcdef"})
    assert kept.document["secret"] is None
    again = {name: value for name, value in document.items() if name != "token"}
    changed = made.server.send("PUT", path, {**again, "apply": "on_merge"})
    assert (changed.status, changed.document["secret"]) == (200, None)
    settings = read_settings(made.stores, made.repository)
    assert settings is not None
    assert (settings.token, settings.secret, settings.apply) == ("t", "0123456789abcdef", "on_merge")
    assert made.server.send("PUT", path, {**again, "api": "http://127.0.0.1:2/acme"}).status == 422
    with made.database.transaction() as connection:
        stored = connection.execute("select data from blobs where name like 'server/webhooks/%'").fetchall()
    assert stored
    assert all(b"0123456789abcdef" not in row[0] for row in stored)
    lines = made.server.send("GET", "/api/v1/audit").document["entries"]
    assert json.dumps(lines).count("webhook-set") == 3
    assert made.server.send("DELETE", path).status == 204
    assert made.server.send("GET", path).problem["code"] == "HF-WEBHOOK-5"
    assert made.send(made.hooks.unrelated()).status == 403
