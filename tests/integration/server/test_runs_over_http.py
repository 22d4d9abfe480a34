"""Runs over HTTP: submit, show, decide, cancel, repeat and follow. A worker is played by its own calls."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import json
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Self

import pytest
from runs_made import made_worker
from server_made import MadeServer, made_server

from holdfast.audit.actor import current_actor
from holdfast.audit.log import Audit
from holdfast.config.settings import BackupSettings
from holdfast.database.database import Database
from holdfast.identity.roles import Role
from holdfast.secrets.redact import Redactor
from holdfast.server import run_events
from holdfast.server.audit_log import TenantStores, actor_of
from holdfast.server.routes import run_log
from holdfast.server.upkeep import Upkeep
from holdfast.store.approval_rules import ServerRules, write_rules
from holdfast.store.approvals import ApprovalKind
from holdfast.store.run_store import RunStore
from holdfast.store.server_runs.claiming import Claiming
from holdfast.store.server_runs.contents import RunLog, read_options, result_name, upload_name
from holdfast.store.server_runs.phases import RunPhase
from holdfast.store.server_runs.rows import Change, ChangeRows, NewRun, RunRows
from holdfast.store.server_states.cipher import StateCipher
from holdfast.store.server_states.rows import StateRows
from holdfast.system import clock
from holdfast.system.environment import read as read_environment

RUNS, CHANGES, UPLOADS = "/api/v1/runs", "/api/v1/changes", "/api/v1/uploads"
REPOSITORIES = "/api/v1/repositories"
DIGEST, OTHER_DIGEST = "d" * 64, "e" * 64
ARCHIVE = gzip.compress(b"an archive")
RESULT = {"changes": {"create": 1}, "resources": [{"address": "x.y", "after": None}], "error": None}


@pytest.fixture
def server(database: Database) -> Iterator[MadeServer]:
    with made_server(database, limits={"upload_size": 10_000}) as server:
        yield server


@pytest.fixture
def ada(server: MadeServer) -> str:
    return server.token(Role.OPERATOR, name="ada")


@pytest.fixture
def bob(server: MadeServer) -> str:
    return server.token(Role.APPROVER, name="bob")


def store_of(server: MadeServer) -> RunStore:
    return TenantStores(server.database, server.parts.key).of("default")


def uploaded(server: MadeServer, token: str) -> dict[str, str]:
    answer = server.send("POST", UPLOADS, body=ARCHIVE, token=token)
    assert answer.status == 201
    return {"upload": answer.document["id"]}


def submit(server: MadeServer, token: str, stack: str = "network", **fields: Any) -> dict[str, Any]:
    wanted = {"stack": stack, "operation": "apply", "source": uploaded(server, token), **fields}
    answer = server.send("POST", RUNS, wanted, token=token)
    assert answer.status == 202, answer
    document: dict[str, Any] = answer.document
    assert answer.headers["location"] == f"{RUNS}/{document['id']}"
    return document


def to_waiting(server: MadeServer, claiming: Claiming, digest: str = DIGEST) -> Change:
    """What a worker does until a person has to decide."""
    change = claiming.claim()
    assert change is not None
    (run,) = change.runs
    store, who = store_of(server), actor_of(change.requester, "worker").document()
    claiming.set_phase(change.id, change.fence, run.id, RunPhase.PLANNING)
    store.approvals.record_author(digest, who, stack=run.stack, run=run.id)
    store.encrypted.write(result_name(run.id), json.dumps(RESULT).encode())
    claiming.set_phase(change.id, change.fence, run.id, RunPhase.WAITING, status="waiting", digest=digest)
    claiming.finish(change.id, change.fence)
    return change


def to_done(claiming: Claiming, status: str = "failed") -> Change:
    change = claiming.claim()
    assert change is not None
    for run in change.runs:
        claiming.set_phase(change.id, change.fence, run.id, RunPhase.PLANNING)
        claiming.set_phase(change.id, change.fence, run.id, RunPhase.DONE, status=status)
    claiming.finish(change.id, change.fence)
    return change


def test_a_run_is_submitted_and_shown(server: MadeServer, ada: str) -> None:
    """What a client sees, and what is stored encrypted: the upload and the values of variables."""
    document = submit(server, ada, variables={"password": "hunter2"}, reason="first")
    assert (document["phase"], document["status"], document["run"]["stack"]) == ("queued", None, "network")
    assert (document["run"]["who"], document["run"]["reason"]) == ("ada", "first")
    shown = server.send("GET", f"{RUNS}/{document['id']}", token=ada).document
    assert shown == document
    change = ChangeRows(server.database).of(document["run"]["change"])
    assert change is not None
    encrypted = store_of(server).encrypted
    assert read_options(encrypted, change.id).variables == {"password": "hunter2"}
    content = encrypted.read(upload_name(change.source))
    assert content is not None
    assert content.data == ARCHIVE
    with server.database.transaction() as connection:
        rows = connection.execute("select data from blobs where name like 'server/%'").fetchall()
    assert len(rows) == 2
    assert not any(b"hunter2" in data or ARCHIVE[10:] in data for (data,) in rows)
    claiming, _ = made_worker(server.database)
    to_waiting(server, claiming)
    waiting = server.send("GET", f"{RUNS}/{document['id']}", token=ada).document
    assert (waiting["phase"], waiting["status"]) == ("waiting", "waiting")
    assert waiting["run"]["changes"] == {"create": 1}
    plan = server.send("GET", f"{RUNS}/{document['id']}/plan", token=ada).document
    assert (plan["run"], plan["resources"]) == (document["id"], RESULT["resources"])


def test_a_change_of_many_stacks(server: MadeServer, ada: str) -> None:
    """Stacks that are named exactly have their runs at once; patterns once a worker has selected them."""
    source = uploaded(server, ada)
    wanted = {"stacks": ["a", "b"], "operation": "plan", "source": source}
    exact = server.send("POST", CHANGES, wanted, token=ada)
    assert exact.status == 202
    assert [run["stack"] for run in exact.document["runs"]] == ["a", "b"]
    matched = server.send("POST", CHANGES, {**wanted, "stacks": ["dev/*", "a"]}, token=ada).document
    assert (matched["runs"], matched["stacks"]) == ([], ["dev/*", "a"])
    shown = server.send("GET", f"{CHANGES}/{exact.document['id']}", token=ada).document
    assert shown == exact.document
    cancelled = server.send("POST", f"{CHANGES}/{matched['id']}/cancel", {"reason": "no"}, token=ada)
    assert (cancelled.status, cancelled.document["phase"]) == (202, "done")
    failing, _ = made_worker(server.database)
    change = failing.claim()
    assert change is not None
    failing.finish(change.id, change.fence, {"code": "HF-X-1", "message": "no such stack", "hint": None})
    failed = server.send("GET", f"{RUNS}/{change.runs[0].id}", token=ada).document["run"]
    assert (failed["status"], failed["error"]["message"]) == ("failed", "no such stack")


def test_who_may_submit_what(server: MadeServer, ada: str) -> None:
    planner = server.token(Role.PLANNER, name="pip")
    source = uploaded(server, planner)
    plan = {"stack": "a", "operation": "plan", "source": source}
    assert server.send("POST", RUNS, plan, token=planner).status == 202
    for operation in ("apply", "destroy"):
        refused = server.send("POST", RUNS, {**plan, "operation": operation}, token=planner)
        assert (refused.status, refused.problem["code"]) == (403, "HF-TOK-2")
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"operation": "reconcile"}, "HF-SRV-16"),
        ({"stack": "dev/*"}, "HF-SRV-16"),
        ({"source": {}}, "HF-SRV-16"),
        ({"source": {"upload": "x", "repository": "y"}}, "HF-SRV-16"),
        ({"source": {"upload": "none"}}, "HF-RUN-28"),
        ({"source": {"repository": "none"}}, "HF-RUN-29"),
        ({"source": {"repository": "none", "revision": "--upload-pack=x"}}, "HF-SRV-16"),
        ({"source": {"repository": "none", "revision": "a/../b"}}, "HF-SRV-16"),
        ({"unknown": 1}, "HF-SRV-16"),
    ]
    for change, code in mistakes:
        answer = server.send("POST", RUNS, {**plan, **change}, token=planner)
        assert (answer.status, answer.problem["code"]) == (422, code), change
    # The upload of one person is not another's.
    stranger = server.send("POST", RUNS, plan, token=ada)
    assert (stranger.status, stranger.problem["code"]) == (422, "HF-RUN-28")
    narrow = server.token(Role.OPERATOR, name="nan", stacks=("dev/*",))
    own = {**plan, "source": uploaded(server, narrow)}
    assert server.send("POST", RUNS, {**own, "stack": "prod/db"}, token=narrow).status == 403
    assert server.send("POST", RUNS, {**own, "stack": "dev/db"}, token=narrow).status == 202


def test_what_a_token_does_not_cover_does_not_exist(server: MadeServer, ada: str) -> None:
    run = submit(server, ada, "prod/db")["id"]
    change = server.send("GET", f"{RUNS}/{run}", token=ada).document["run"]["change"]
    narrow = server.token(Role.ADMIN, name="nan", stacks=("dev/*",))
    elsewhere = server.token(Role.ADMIN, name="eve", tenant="other")
    for token in (narrow, elsewhere):
        assert server.send("GET", RUNS, token=token).document["runs"] == []
        of_run = (f"{RUNS}/{run}", f"{RUNS}/{run}/plan", f"{RUNS}/{run}/log")
        of_change = (f"{CHANGES}/{change}", f"{CHANGES}/{change}/log", f"{CHANGES}/{change}/results")
        for path in (*of_run, *of_change):
            assert server.send("GET", path, token=token).status == 404
        body = {"digest": DIGEST, "reason": "x"}
        for act in ("approve", "reject", "override"):
            assert server.send("POST", f"{RUNS}/{run}/{act}", body, token=token).status == 404
        for path in (f"{RUNS}/{run}/cancel", f"{RUNS}/{run}/retry", f"{CHANGES}/{change}/cancel"):
            assert server.send("POST", path, {}, token=token).status == 404


def test_a_plan_is_approved_by_another_person(server: MadeServer, ada: str, bob: str) -> None:
    """Only the plan that was shown, only while it waits, never by its author; then a worker continues."""
    run = submit(server, ada)["id"]
    body = {"digest": DIGEST, "reason": "looks right"}
    early = server.send("POST", f"{RUNS}/{run}/approve", body, token=bob)
    assert (early.status, early.problem["code"]) == (409, "HF-RUN-26")
    claiming, _ = made_worker(server.database)
    to_waiting(server, claiming)
    other = server.send("POST", f"{RUNS}/{run}/approve", {**body, "digest": OTHER_DIGEST}, token=bob)
    assert (other.status, other.problem["code"]) == (409, "HF-RUN-25")
    author = server.token(Role.ADMIN, name="ada")
    own = server.send("POST", f"{RUNS}/{run}/approve", body, token=author)
    assert (own.status, own.problem["code"]) == (403, "HF-APPR-3")
    assert claiming.claim() is None
    given = server.send("POST", f"{RUNS}/{run}/approve", body, token=bob)
    assert (given.status, given.document["phase"]) == (200, "waiting")
    (approval,) = store_of(server).approvals.of(DIGEST)
    assert (approval.kind, approval.run, approval.shown) == ("approve", run, "bob")
    entries = server.send("GET", "/api/v1/audit").document["entries"]
    assert [(line["what"], line["who"]["name"]) for line in entries] == [("approve", "bob")]
    assert claiming.claim() is not None


def test_the_plans_that_were_shown_are_applied(server: MadeServer, ada: str) -> None:
    """Only these digests, and only of a change that planned."""
    claiming, _ = made_worker(server.database)
    run = submit(server, ada, operation="plan", variables={"x": "1"})["run"]
    change = claiming.claim()
    assert change is not None
    address = f"{CHANGES}/{run['change']}/apply"

    def apply(digest: str, id_: str = run["id"], to: str = address) -> tuple[int, str]:
        answer = server.send("POST", to, {"plans": {id_: digest}, "reason": "seen"}, token=ada)
        return answer.status, answer.document.get("code") or answer.document["id"]

    assert apply(DIGEST) == (409, "HF-RUN-36")  # Its plan is not made yet.
    claiming.set_phase(change.id, change.fence, run["id"], RunPhase.PLANNING)
    claiming.set_phase(change.id, change.fence, run["id"], RunPhase.DONE, status="planned", digest=DIGEST)
    claiming.finish(change.id, change.fence)
    assert apply(OTHER_DIGEST) == (409, "HF-RUN-25")
    assert apply(DIGEST, "another") == (409, "HF-RUN-36")
    status, id_ = apply(DIGEST)
    new = ChangeRows(server.database).of(id_)
    assert status == 202
    assert new is not None
    assert (new.operation, new.source, new.reason, new.requester.name) == (
        "apply",
        change.source,
        "seen",
        "ada",
    )
    (applied,) = new.runs
    assert RunRows(server.database).shown_plan(applied) == run["id"]
    assert read_options(store_of(server).encrypted, new.id).variables == {"x": "1"}
    assert apply(DIGEST, applied.id, f"{CHANGES}/{new.id}/apply") == (409, "HF-RUN-36")
    planner = server.token(Role.PLANNER, name="pia")
    assert server.send("POST", address, {"plans": {run["id"]: DIGEST}}, token=planner).status == 403


def test_an_approval_says_with_which_role_and_groups_and_expires(server: MadeServer, ada: str) -> None:
    """What rules of the server and of a repository ask for."""
    write_rules(store_of(server).encrypted, ServerRules(approval_lifetime=7200.0))
    dan = server.token(Role.APPROVER, name="dan", groups=("dba", "net"))
    claiming, _ = made_worker(server.database)
    run = submit(server, ada)["run"]
    to_waiting(server, claiming)
    decision = {"digest": DIGEST, "reason": "fine"}
    assert server.send("POST", f"{RUNS}/{run['id']}/approve", decision, token=dan).status == 200
    (given,) = store_of(server).approvals.of(DIGEST)
    assert (given.role, given.groups, given.verified) == ("approver", ("dba", "net"), True)
    lasts = datetime.fromisoformat(str(given.until)) - datetime.fromisoformat(given.at)
    assert abs(lasts.total_seconds() - 7200) < 60
    assert not given.in_force((clock.now() + timedelta(hours=3)).isoformat())


def test_only_an_admin_breaks_the_glass_and_says_why(server: MadeServer, bob: str) -> None:
    """It stands for the approvals that are missing, also of their own plan, and is in the audit log."""
    root = server.token(Role.ADMIN, name="root2")
    claiming, _ = made_worker(server.database)
    run = submit(server, root)["run"]
    to_waiting(server, claiming)
    address, glass = f"{RUNS}/{run['id']}/override", {"digest": DIGEST, "break_glass": True}
    assert server.send("POST", f"{RUNS}/{run['id']}/approve", {"digest": DIGEST}, token=root).status == 403
    assert server.send("POST", address, {**glass, "reason": "fire"}, token=bob).status == 403
    assert server.send("POST", address, glass, token=root).status == 422  # Without a reason.
    ordinary = server.send("POST", address, {"digest": DIGEST, "reason": "mine"}, token=root)
    assert (ordinary.status, ordinary.problem["code"]) == (403, "HF-APPR-3")
    assert "--break-glass" in ordinary.problem["hint"]
    assert store_of(server).approvals.of(DIGEST) == ()
    assert server.send("POST", address, {**glass, "reason": "fire"}, token=root).status == 200
    (given,) = store_of(server).approvals.of(DIGEST)
    assert (given.kind, given.break_glass, given.reason) == (ApprovalKind.OVERRIDE, True, "fire")
    entries = server.send("GET", "/api/v1/audit").document["entries"]
    entry = next(entry for entry in entries if entry["what"] == "override")
    assert (entry["break_glass"], entry["reason"]) == (True, "fire")
    assert entry["details"] == {"lifts": "denial and approvals"}


def test_a_plan_does_not_wait_for_ever(server: MadeServer, ada: str, bob: str) -> None:
    """Its run is cancelled, says why, and can be repeated. One that waits for less time stays."""
    claiming, _ = made_worker(server.database)
    old, new = submit(server, ada)["run"], submit(server, ada, "other")["run"]
    to_waiting(server, claiming)
    to_waiting(server, claiming, OTHER_DIGEST)
    with server.database.transaction() as connection:
        connection.execute("update runs set since = now() - interval '8 days' where id = %s", (old["id"],))
    store = store_of(server)
    upkeep = Upkeep(
        rows=StateRows(server.database, StateCipher([server.parts.key])),
        tokens=server.tokens,
        backups=BackupSettings(),
        log=server.log,
        waiting_limit=7 * 86400.0,
        audit=lambda _: Audit(store, current_actor(read_environment()), redactor=Redactor()),
    )
    assert upkeep.run() == {"runs_without_decision": 1}
    shown = server.send("GET", f"{RUNS}/{old['id']}", token=ada).document
    assert (shown["phase"], shown["status"]) == ("done", "cancelled")
    assert (shown["run"]["error"]["code"], "within 7d" in shown["run"]["error"]["message"]) == (
        "HF-RUN-37",
        True,
    )
    decision = {"digest": DIGEST, "reason": "late"}
    assert server.send("POST", f"{RUNS}/{old['id']}/approve", decision, token=bob).status == 409
    assert server.send("GET", f"{RUNS}/{new['id']}", token=ada).document["phase"] == "waiting"
    (entry,) = server.send("GET", "/api/v1/audit").document["entries"]
    assert (entry["what"], entry["run"], entry["reason"]) == ("cancel", old["id"], "no decision in time")
    assert server.send("POST", f"{RUNS}/{old['id']}/retry", {}, token=ada).status == 202
    assert upkeep.run() == {}


def test_a_plan_is_rejected_or_overridden(server: MadeServer, ada: str, bob: str) -> None:
    claiming, _ = made_worker(server.database)
    run = submit(server, ada)["id"]
    to_waiting(server, claiming)
    assert server.send("POST", f"{RUNS}/{run}/reject", {"digest": DIGEST}, token=bob).status == 422
    body = {"digest": DIGEST, "reason": "not this week"}
    rejected = server.send("POST", f"{RUNS}/{run}/reject", body, token=bob)
    assert (rejected.status, rejected.document["phase"]) == (200, "done")
    assert rejected.document["status"] == "refused"
    again = server.send("POST", f"{RUNS}/{run}/approve", {"digest": DIGEST}, token=bob)
    assert again.status == 409
    run = submit(server, ada)["id"]
    to_waiting(server, claiming, OTHER_DIGEST)
    body = {"digest": OTHER_DIGEST}
    assert server.send("POST", f"{RUNS}/{run}/override", body, token=bob).status == 422
    author = server.token(Role.APPROVER, name="ada")
    own = server.send("POST", f"{RUNS}/{run}/override", {**body, "reason": "mine"}, token=author)
    assert (own.status, own.problem["code"]) == (403, "HF-APPR-3")
    given = server.send("POST", f"{RUNS}/{run}/override", {**body, "reason": "an outage"}, token=bob)
    assert given.status == 200
    (override,) = store_of(server).approvals.of(OTHER_DIGEST)
    assert override.until is not None
    assert server.send("GET", "/api/v1/audit").document["entries"][0]["break_glass"] is True


def test_cancel_retry_and_reconcile(server: MadeServer, ada: str, bob: str) -> None:
    claiming, _ = made_worker(server.database)
    run = submit(server, ada, variables={"size": 3})["id"]
    stranger = server.token(Role.PLANNER, name="pip")
    assert server.send("POST", f"{RUNS}/{run}/cancel", {}, token=stranger).status == 403
    assert server.send("POST", f"{RUNS}/{run}/retry", {}, token=ada).problem["code"] == "HF-RUN-26"
    cancelled = server.send("POST", f"{RUNS}/{run}/cancel", {"reason": "a mistake"}, token=ada)
    assert (cancelled.status, cancelled.document["status"]) == (202, "cancelled")
    assert server.send("POST", f"{RUNS}/{run}/cancel", {}, token=ada).status == 409
    assert server.send("POST", f"{RUNS}/{run}/retry", {}, token=bob).status == 403
    retried = server.send("POST", f"{RUNS}/{run}/retry", {"reason": "again"}, token=ada)
    assert retried.status == 202
    assert (retried.document["run"]["retried_from"], retried.document["phase"]) == (run, "queued")
    options = read_options(store_of(server).encrypted, retried.document["run"]["change"])
    assert options.variables == {"size": 3}
    to_done(claiming, "unknown")
    unknown = retried.document["id"]
    assert server.send("POST", f"{RUNS}/{unknown}/retry", {}, token=ada).problem["code"] == "HF-RUN-26"
    assert server.send("POST", f"{RUNS}/{run}/reconcile", {}, token=ada).problem["code"] == "HF-RUN-26"
    reconcile = server.send("POST", f"{RUNS}/{unknown}/reconcile", {"reason": "after a crash"}, token=ada)
    assert (reconcile.status, reconcile.document["run"]["operation"]) == (202, "reconcile")
    decisions = {"imports": {"x.a": "id-1"}, "recreate": ["x.b"], "holder_dead": True}
    for wrong in (decisions, {"imports": {"x.a": "id-1"}, "recreate": ["x.a"]}):  # Without a reason; both.
        assert server.send("POST", f"{RUNS}/{unknown}/reconcile", wrong, token=ada).status == 422
    decided = server.send(
        "POST", f"{RUNS}/{unknown}/reconcile", {"reason": "it burned", **decisions}, token=ada
    )
    options = read_options(store_of(server).encrypted, decided.document["run"]["change"])
    assert (options.variables, options.imports, options.recreate, options.declared) == (
        {"size": 3},
        {"x.a": "id-1"},
        ("x.b",),
        "it burned",
    )
    with server.database.transaction() as connection:
        connection.execute("update sources set expires = now() - interval '1 second'")
    expired = server.send("POST", f"{RUNS}/{run}/retry", {}, token=ada)
    assert (expired.status, expired.problem["code"]) == (409, "HF-RUN-27")


def test_only_a_cancelled_run_is_stopped_at_once_and_only_if_asked(server: MadeServer, ada: str) -> None:
    """A request that is sent twice loses nothing."""
    claiming, _ = made_worker(server.database)
    run = submit(server, ada)["run"]
    change = claiming.claim()
    assert change is not None
    address, mine = f"{RUNS}/{run['id']}/cancel", {change.id: change.fence}

    def cancel(**fields: object) -> int:
        return server.send("POST", address, {"reason": "no", **fields}, token=ada).status

    assert cancel(force=True) == 409
    assert claiming.beat(mine).cancelled == frozenset()
    for _ in range(2):
        assert cancel() == 202
        beats = claiming.beat(mine)
        assert (set(beats.cancelled), set(beats.forced)) == ({change.id}, set())
    assert server.send("POST", f"{CHANGES}/{change.id}/cancel", {"force": True}, token=ada).status == 202
    assert claiming.beat(mine).forced == {change.id}
    entries = server.send("GET", "/api/v1/audit").document["entries"]
    assert [entry["details"] for entry in entries].count({"force": "the second interrupt"}) == 1


def test_lists_have_filters_and_pages(server: MadeServer, ada: str) -> None:
    ids = [submit(server, ada, f"s{number % 2}")["id"] for number in range(5)]
    claiming, _ = made_worker(server.database)
    to_done(claiming)
    first = server.send("GET", f"{RUNS}?limit=3", token=ada).document
    rest = server.send("GET", f"{RUNS}?limit=3&cursor={first['next']}", token=ada).document
    assert [run["id"] for run in first["runs"] + rest["runs"]] == ids[::-1]
    assert rest["next"] is None

    def count(query: str) -> int:
        return len(server.send("GET", f"{RUNS}?{query}", token=ada).document["runs"])

    assert [
        count("stack=s0"),
        count("phase=done"),
        count("status=failed"),
        count("phase=queued&stack=s0"),
    ] == [*(3, 1, 1, 2)]
    assert server.send("GET", f"{RUNS}?phase=nonsense", token=ada).status == 422


def test_uploads_are_limited(server: MadeServer, ada: str) -> None:
    assert server.send("POST", UPLOADS, body=b"PK\x03\x04", token=ada).problem["code"] == "HF-SRV-23"
    assert server.send("POST", UPLOADS, body=ARCHIVE + bytes(10_000), token=ada).status == 413
    answer = server.send("POST", UPLOADS, body=ARCHIVE, token=ada).document
    assert (answer["size"], answer["digest"]) == (len(ARCHIVE), hashlib.sha256(ARCHIVE).hexdigest())


def test_repositories_are_registered_by_admins(server: MadeServer, ada: str) -> None:
    """With a reference to their credentials; what is on the worker's machine only the operator may name."""
    new = {"name": "infra", "url": "https://example.com/infra.git", "credentials": "vault:kv/git#token"}
    added = server.send("POST", REPOSITORIES, new)
    assert (added.status, added.document["branch"]) == (201, "main")
    assert server.send("POST", REPOSITORIES, new).problem["code"] == "HF-SRV-24"
    mistakes = [
        *({"url": "https://user:secret@example.com/x"}, {"url": "file:///etc"}, {"url": "ext::sh -c x"}),
        *({"url": "http://example.com/x"}, {"credentials": "hunter2"}, {"branch": "-x"}),
    ]
    for mistake in mistakes:
        assert server.send("POST", REPOSITORIES, {**new, "name": "b", **mistake}).status == 422, mistake
    local = {**new, "name": "b", "credentials": "env:TOKEN", "url": "git@example.com:infra.git"}
    tenant_admin = server.token(Role.ADMIN, name="tia")
    assert server.send("POST", REPOSITORIES, local, token=tenant_admin).status == 403
    assert server.send("POST", REPOSITORIES, local).status == 201
    listed = server.send("GET", REPOSITORIES, token=tenant_admin).document
    assert [row["name"] for row in listed["repositories"]] == ["infra", "b"]
    source = {"repository": "infra", "revision": "release/1.2"}
    wanted = {"stack": "a", "operation": "plan", "source": source}
    assert server.send("POST", RUNS, wanted, token=ada).status == 202
    path = f"{REPOSITORIES}/{added.document['id']}"
    assert [server.send("DELETE", path).status, server.send("DELETE", path).status] == [204, 404]
    elsewhere = server.token(Role.ADMIN, name="eve", tenant="other")
    assert server.send("GET", REPOSITORIES, token=elsewhere).document["repositories"] == []


def test_workers_are_listed(server: MadeServer, ada: str) -> None:
    _, worker = made_worker(server.database, labels={"environment": ("prod",)})
    made_worker(server.database, tenant="other")
    (shown,) = server.send("GET", "/api/v1/workers", token=ada).document["workers"]
    assert (shown["id"], shown["labels"], shown["silent"]) == (worker.id, {"environment": ["prod"]}, False)


def test_contents_are_not_reached_through_the_run_store(server: MadeServer, ada: str) -> None:
    """Uploads, variables, plans and logs belong to the server: also an admin uses the routes of runs."""
    run = submit(server, ada)["id"]
    RunLog(store_of(server).encrypted, run).append(1, ["line"])
    names = store_of(server).encrypted.names("server")
    assert len(names) == 3
    for token in (ada, server.admin, server.token(Role.CI), server.token(Role.RUN)):
        assert not any(
            name.startswith("server")
            for folder in ("", "server")
            for name in server.send("GET", f"/api/v1/store/names?folder={folder}", token=token).document[
                "names"
            ]
        )
        several = {"names": [*names, "server/", "server/log/"]}
        read = server.send("POST", "/api/v1/store/reads", several, token=token).document
        assert not read["blobs"]
        assert not any(read["folders"].values())
        for name in (*names, "server/plans/new"):
            path = f"/api/v1/store/blobs/{name}"
            assert server.send("GET", path, token=token).status == 403
            assert server.send("PUT", path, body=b"x", token=token).status == 403
            assert server.send("DELETE", path, token=token).status == 403


def test_the_log_of_a_run(server: MadeServer, ada: str) -> None:
    run = submit(server, ada)["id"]
    log = RunLog(store_of(server).encrypted, run)
    assert log.append(1, ["one", "two"])
    assert log.append(3, ["three"])
    assert not log.append(3, ["another worker's"])
    assert log.end() == 4
    document = server.send("GET", f"{RUNS}/{run}/log", token=ada).document
    assert (document["run"], document["lines"], document["first"]) == (run, ["one", "two", "three"], 1)
    rest = server.send("GET", f"{RUNS}/{run}/log?cursor=1", token=ada).document
    assert (rest["lines"], rest["first"], rest["next"]) == (["two", "three"], 2, None)
    viewer = server.token(Role.VIEWER)
    assert server.send("GET", f"{RUNS}/{run}/log", token=viewer).status == 403


def test_a_log_is_followed_live_and_resumed(server: MadeServer, ada: str) -> None:
    """Each line once, with its number; what happens to the run; and the end. A lost connection continues."""
    run = submit(server, ada)["id"]
    change = RunRows(server.database).of(run)
    assert change is not None
    log = RunLog(store_of(server).encrypted, run)
    log.append(1, ["one", "two"])
    with _Stream(server, run, ada) as stream:
        assert [stream.next(), stream.next()] == [("line", "1", "one"), ("line", "2", "two")]
        assert stream.next() == ("status", "", '{"phase":"queued","status":null}')
        claiming, _ = made_worker(server.database)
        claimed = claiming.claim()
        assert claimed is not None
        claiming.set_phase(claimed.id, 1, run, RunPhase.PLANNING)
        assert stream.next() == ("status", "", '{"phase":"planning","status":null}')
        log.append(3, ["three"])
        _notify(server, run)
        assert stream.next() == ("line", "3", "three")
    log.append(4, ["four", "five"])
    claiming.set_phase(claimed.id, 1, run, RunPhase.DONE, status="planned")
    with _Stream(server, run, ada, last="4") as stream:
        assert stream.next() == ("line", "5", "five")
        assert stream.next() == ("end", "", '{"phase":"done","status":"planned"}')
        assert stream.rest() == b""


def test_all_runs_of_a_change_are_followed_in_one_stream(server: MadeServer, ada: str) -> None:
    """Each line with its run and its number; what happens to each run and to the change; and the end."""
    wanted = {"operation": "plan", "stacks": ["dev/a", "dev/b"], "source": uploaded(server, ada)}
    change = server.send("POST", CHANGES, wanted, token=ada).document
    first, second = (run["id"] for run in change["runs"])
    blobs, claiming = store_of(server).encrypted, made_worker(server.database)[0]
    RunLog(blobs, second).append(1, ["one", "two"])
    RunLog(blobs, second).append(3, ["three"])
    with _Stream(server, f"{CHANGES}/{change['id']}/log", ada) as stream:
        for number, text in enumerate(("one", "two", "three"), 1):
            assert stream.document() == ("line", {"run": second, "number": number, "text": text})
        for run in (first, second):
            assert stream.document() == ("status", {"run": run, "phase": "queued", "status": None})
        assert stream.document() == ("change", {"phase": "queued"})
        claimed = claiming.claim()
        assert claimed is not None
        claiming.set_phase(claimed.id, 1, first, RunPhase.PLANNING)
        assert stream.document() == ("status", {"run": first, "phase": "planning", "status": None})
        assert stream.document() == ("change", {"phase": "running"})
        RunLog(blobs, first).append(1, ["the last line"])
        for run in (first, second):
            claiming.set_phase(claimed.id, 1, run, RunPhase.DONE, status="planned")
        claiming.finish(claimed.id, 1)
        rest = [stream.document() for _ in range(3)]
        assert rest[0] == ("line", {"run": first, "number": 1, "text": "the last line"})
        assert {event for event, _ in rest[1:]} == {"status"}
        assert stream.document() == ("end", {"phase": "done"})
        assert stream.rest() == b""


def test_who_does_not_cover_all_stacks_hears_no_more(server: MadeServer) -> None:
    """A worker selects the stacks of a pattern after who asked for it began to follow."""
    narrow = server.token(Role.OPERATOR, name="nan", stacks=("dev/*",))
    wanted = {"operation": "plan", "stacks": ["*"], "source": uploaded(server, narrow)}
    change = server.send("POST", CHANGES, wanted, token=narrow).document
    with _Stream(server, f"{CHANGES}/{change['id']}/log", narrow) as stream:
        assert stream.document() == ("change", {"phase": "queued"})
        claiming = made_worker(server.database)[0]
        claimed = claiming.claim()
        assert claimed is not None
        assert claiming.add_runs(claimed.id, 1, [NewRun(stack="prod/db")]) is not None
        assert stream.rest() == b""


def test_the_results_of_a_change_come_in_pages(server: MadeServer, ada: str) -> None:
    stacks = ["dev/a", "dev/b", "dev/c"]
    wanted = {"operation": "plan", "stacks": stacks, "source": uploaded(server, ada)}
    change = server.send("POST", CHANGES, wanted, token=ada).document
    runs = [run["id"] for run in change["runs"]]
    store_of(server).encrypted.write(result_name(runs[1]), b'{"name":"dev/b"}')
    path = f"{CHANGES}/{change['id']}/results?limit=2"
    page = server.send("GET", path, token=ada).document
    assert page["results"] == [
        {"run": runs[0], "result": None},
        {"run": runs[1], "result": {"name": "dev/b"}},
    ]
    rest = server.send("GET", f"{path}&cursor={page['next']}", token=ada).document
    assert rest == {"version": 1, "results": [{"run": runs[2], "result": None}], "next": None}
    assert server.send("GET", path, token=server.token(Role.VIEWER)).status == 403


def test_a_silent_stream_says_that_it_is_alive(
    server: MadeServer, ada: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proxies and clients close silent connections. Wake-ups without news are no sign of life for them."""
    monkeypatch.setattr(run_log, "QUIET", 0.3)
    monkeypatch.setattr(run_events, "_LINGER", 0.05)
    document = submit(server, ada)
    for path in (f"{RUNS}/{document['id']}/log", f"{CHANGES}/{document['run']['change']}/log"):
        with _Stream(server, path, ada) as stream:
            events = [stream.next()[0] for _ in range(4)]
        assert (events[0], events[-1]) == ("status", ""), "a comment is no event"


def _notify(server: MadeServer, run: str) -> None:
    with server.database.transaction() as connection:
        connection.execute("select pg_notify('holdfast_run', %s)", (run,))


class _Stream:
    """A client of server-sent events that reads one event at a time."""

    def __init__(self, server: MadeServer, run: str, token: str, last: str | None = None) -> None:
        """`run`: its id, or the path of another stream."""
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        headers = {"authorization": f"Bearer {token}", "accept": "text/event-stream"}
        if last is not None:
            headers["last-event-id"] = last
        path = run if run.startswith("/") else f"{RUNS}/{run}/log"
        self._connection.request("GET", path, headers=headers)
        self._response = self._connection.getresponse()
        assert self._response.headers["content-type"].startswith("text/event-stream")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def next(self) -> tuple[str, str, str]:
        fields = {"event": "", "id": "", "data": ""}
        while line := self._response.readline().decode().rstrip("\r\n"):
            name, _, value = line.partition(": ")
            fields[name] = value
        return fields["event"], fields["id"], fields["data"]

    def document(self) -> tuple[str, object]:
        event, _, data = self.next()
        return event, json.loads(data)

    def rest(self) -> bytes:
        return self._response.read()


def test_many_streams_share_one_connection(server: MadeServer, ada: str) -> None:
    """Ten clients follow ten runs; PostgreSQL sees one listener."""
    runs = [submit(server, ada, f"s{number}")["id"] for number in range(10)]
    streams = [_Stream(server, run, ada) for run in runs]
    try:
        assert {stream.next()[0] for stream in streams} == {"status"}
        log = {run: RunLog(store_of(server).encrypted, run) for run in runs}
        threads = [threading.Thread(target=_write, args=(server, log[run], run)) for run in runs]
        for thread in threads:
            thread.start()
        for run, stream in zip(runs, streams, strict=True):
            assert stream.next() == ("line", "1", run)
        for thread in threads:
            thread.join()
        with server.database.transaction() as connection:
            (count,) = connection.execute(
                "select count(*) from pg_stat_activity where application_name like '%listener'"
                " and datname = current_database()"
            ).fetchone() or (0,)
        assert count == 1
    finally:
        for stream in streams:
            stream.__exit__()


def _write(server: MadeServer, log: RunLog, run: str) -> None:
    log.append(1, [run])
    _notify(server, run)
