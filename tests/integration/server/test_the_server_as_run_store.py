"""The run store on the server: who may read and write which blobs, and what the server writes itself."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from server_made import KEY, MadeServer

from holdfast.audit.actor import actor_from
from holdfast.audit.entry import Entry
from holdfast.audit.log import Audit
from holdfast.audit.reader import all_lines, verify
from holdfast.identity.roles import GRANTABLE, Role
from holdfast.identity.tokens import parse_token
from holdfast.kernel.errors import Busy, HoldfastError, Refused, UsageError
from holdfast.secrets.encryption import seal, unseal
from holdfast.secrets.redact import Redactor
from holdfast.store.approvals import Approval, ApprovalKind
from holdfast.store.journal import LINES, STARTED, JournalWriter
from holdfast.store.place import from_description
from holdfast.store.run_records import IMPORTS_FOR, StoredClaim
from holdfast.store.run_store import RunStore
from holdfast.store.server_blobs import PROTOCOL_FIELD, ServerBlobs, ServerCipher, Session
from holdfast.store.server_store import ServerRunStore
from holdfast.store.states import StateSnapshot
from holdfast.system.http import HttpError, Response
from holdfast.worker.listener import Slot, hold_listener
from holdfast.worker.store_app import StoreApplication
from holdfast.worker.store_client import InProcessSession, StoreRoutes, WorkerBlobs

VIEWER, PLANNER, OPERATOR, APPROVER, ADMIN, CI = (
    *(Role.VIEWER, Role.PLANNER, Role.OPERATOR, Role.APPROVER, Role.ADMIN, Role.CI),
)
EVERYONE = frozenset(GRANTABLE)
RUNNERS = frozenset({OPERATOR, ADMIN, CI})
PLANNERS = RUNNERS | {PLANNER}
NOBODY: frozenset[Role] = frozenset()
OLD = "0" * 26
"""The id of a run of long ago, which may be removed."""
CLAIM = b'{"stack":"a","run":"01RUN","intent":{}}'
BLOBS: dict[str, tuple[frozenset[Role], frozenset[Role]]] = {
    "store.json": (EVERYONE, NOBODY),
    "approvals/d/1": (EVERYONE, NOBODY),
    "authors/d": (EVERYONE, NOBODY),
    "audit/lines/1": (frozenset({OPERATOR, APPROVER, ADMIN}), NOBODY),
    "audit/head": (frozenset({OPERATOR, APPROVER, ADMIN}), NOBODY),
    "audit/marks/a": (EVERYONE, NOBODY),
    "anchors/audit": (frozenset({OPERATOR, APPROVER, ADMIN}), NOBODY),
    "state-locks/a": (EVERYONE, NOBODY),
    "states/a/0000000001": (PLANNERS, RUNNERS),
    "backups/a/1": (PLANNERS, RUNNERS),
    "errored/a/unsaved": (PLANNERS, RUNNERS),
    "files/a/kept": (PLANNERS, RUNNERS),
    "claims/a": (EVERYONE, RUNNERS),
    "records/a": (EVERYONE, RUNNERS),
    "used/d": (EVERYONE, RUNNERS),
    "leases/lanes/x": (EVERYONE, RUNNERS),
    "applied/names/a": (EVERYONE, RUNNERS),
    f"runs/{OLD}/outcome": (EVERYONE, PLANNERS),
    f"runs/{OLD}/plan": (PLANNERS | {APPROVER}, PLANNERS),
    f"runs/{OLD}/heartbeat": (EVERYONE, RUNNERS),
    f"runs/{OLD}/journal-000001": (PLANNERS, RUNNERS),
    f"runs/{OLD}/secrets": (PLANNERS, RUNNERS),
    f"runs/{OLD}/key": (PLANNERS, NOBODY),
    "planning/a": (EVERYONE, PLANNERS),
    "pull-requests/1": (EVERYONE, PLANNERS),
    "anything/else": (EVERYONE, RUNNERS),
}
"""By name: who may read it, and who may write it."""
LOCK = b'{"ID":"tf","Who":"me","Operation":"OperationTypeApply","Info":"","Version":"1","Path":"",\
"Created":"2026-01-01T00:00:00Z"}'
STATE = b'{"version":4,"serial":1,"lineage":"l","resources":[],"outputs":{}}'


@pytest.fixture(params=["over http", "in a worker"])
def server(shared: MadeServer, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MadeServer]:
    """A worker calls the same routes without a network, and serves them to supervisors."""
    with shared.database.transaction() as connection:
        connection.execute("truncate states cascade")
        connection.execute("delete from blobs where name <> 'store.json'")
        connection.execute("truncate run_folders")
    if request.param == "over http":
        yield shared
        return
    routes = StoreRoutes(shared.parts)
    with hold_listener(Slot(1, tmp_path), shared.parts, routes) as address:
        shared.worker = routes, address
        yield shared
    shared.worker = None


def blobs_of(server: MadeServer, role: Role, **scope: object) -> ServerBlobs:
    token = server.token(role, **scope)  # type: ignore[arg-type]
    given = parse_token(token)
    if server.worker is None or given is None:
        return ServerBlobs(server.url, lambda: token, {})
    principal = server.tokens.authenticate(given)
    assert principal is not None
    routes, address = server.worker
    return WorkerBlobs(InProcessSession(routes, principal, "127.0.0.1"), address=address)


def store_of(server: MadeServer, role: Role, **scope: object) -> ServerRunStore:
    return ServerRunStore(blobs_of(server, role, **scope))


@contextmanager
def refused(code: str, kind: type[HoldfastError] = HoldfastError) -> Iterator[None]:
    with pytest.raises(kind) as caught:
        yield
    assert caught.value.problem.code == code, caught.value


def snapshot(run: str | None, serial: int = 1) -> StateSnapshot:
    state = STATE.replace(b'"serial":1', b'"serial":%d' % serial)
    return StateSnapshot(serial=serial, lineage="l", resources=0, run=run, who="x", why="apply", state=state)


@pytest.mark.parametrize("role", GRANTABLE)
def test_each_role_reads_and_writes_its_blobs(shared: MadeServer, role: Role) -> None:
    blobs = blobs_of(shared, role, tenant=f"tenant-{role}")
    if role in RUNNERS:
        assert blobs.create("claims/a", CLAIM)  # A state is written under the lease of a run.
    for name, (readers, writers) in BLOBS.items():
        content = b'{"why":"apply","run":null}\n' + STATE if name.startswith("states/") else CLAIM
        for allowed, act in (
            (writers, partial(blobs.create, name, content)),
            (readers, partial(blobs.read, name)),
            (writers, partial(blobs.remove, name)),
        ):
            with nullcontext() if role in allowed else refused("HF-STORE-24", Refused):
                act()


def test_a_token_is_limited_to_its_stacks(server: MadeServer) -> None:
    blobs = blobs_of(server, OPERATOR, stacks=("dev/*",), states=("dev/*",))
    everything = blobs_of(server, ADMIN)
    assert blobs.create("records/dev%2Fa", b"1")
    everything.write("records/prod%2Fa", b"1")
    for act in (
        lambda: blobs.read("records/prod%2Fa"),
        lambda: blobs.write("claims/prod%2Fa", b"{}"),
        lambda: blobs.create("states/prod%2Fa/0000000001", b"{}\n"),
    ):
        with pytest.raises(Refused):
            act()
    assert blobs.names("records") == ("records/dev%2Fa",)
    assert len(everything.names("records")) == 2


@pytest.mark.parametrize("role", GRANTABLE)
def test_a_token_is_limited_to_the_runs_of_its_stacks(server: MadeServer, role: Role) -> None:
    """And writes only its own; in another tenant there is nothing."""
    everything = store_of(server, ADMIN)
    for stack in ("dev/a", "prod/a"):
        everything.claims.take(StoredClaim(stack=stack, run=f"leased-{stack[:-2]}", intent={}))
        everything.runs.finish(f"ended-{stack[:-2]}", {"stack": stack})
        everything.runs.write(f"imports-{stack[:-2]}", IMPORTS_FOR, b'{"stack":"%s"}' % stack.encode())
    names = ("journal-000001", "plan", "heartbeat", "secrets")
    runs = [f"{kind}-{folder}" for kind in ("leased", "ended", "imports") for folder in ("dev", "prod")]
    for path in (f"runs/{run}/{name}" for run in runs for name in names):
        everything.blobs.write(path, b"1")
    limited = blobs_of(server, role, stacks=("dev/*", "?"))
    elsewhere = blobs_of(server, role, tenant="other", stacks=("dev/*",))
    for path in (f"runs/{run}/{name}" for run in runs for name in names):
        if not path.endswith("/heartbeat") and role not in PLANNERS:
            continue
        assert elsewhere.read(path) is None
        with nullcontext() if "-dev/" in path else refused("HF-STORE-24", Refused):
            assert limited.read(path) is not None
        for act in (partial(limited.write, path, b"2"), partial(limited.remove, path)):
            with refused("HF-STORE-24", Refused):
                act()
    assert {name.split("/")[1] for name in limited.names("runs")} == {run for run in runs if "dev" in run}
    assert elsewhere.names("runs") == ()
    assert limited.read("runs/new/outcome") is None
    if role not in PLANNERS:
        return
    # The first record of a run says whose it is.
    with refused("HF-STORE-25", UsageError):
        limited.write("runs/new/plan", b"1")
    for content, code in ((b"[]", "HF-STORE-25"), (b'{"stack":"prod/a"}', "HF-STORE-24")):
        with refused(code):
            limited.write("runs/new/outcome", content)
    limited.write("runs/new/outcome", b'{"stack":"dev/b"}')
    limited.write("runs/new/plan", b"1")
    assert limited.read("runs/new/plan") is not None
    token = server.token(role, stacks=("dev/*",), states=("dev/*",))
    for stolen in ("ended-prod", "leased-prod", "ended-dev"):
        with refused("HF-STORE-24", Refused):
            limited.write(f"runs/{stolen}/outcome", b'{"stack":"dev/a"}')
        wanted = {"stack": "dev/a", "journal": stolen}
        assert server.send("POST", "/api/v1/store/grants", wanted, token=token).status == 403


def test_devices_are_not_taken_for_removed_stacks(server: MadeServer) -> None:
    """Otherwise every new stack of a repository would be compared with all of them."""
    store = store_of(server, Role.OPERATOR)
    for name in ("records/dev%2Fa", "records/fleet%2Fdefault%2Fsite%2Fa"):
        store.encrypted.write(name, b"{}")
    assert "dev/a" in store.names.known
    assert not any(name.startswith("fleet/") for name in store.names.known)


def test_only_workers_claim_devices(server: MadeServer) -> None:
    """A stack of a repository with such a name would take the state of a device."""
    store = store_of(server, ADMIN)
    with refused("HF-EVENT-13", Refused):
        store.claims.take(StoredClaim(stack="fleet/default/site/a", run="01RUN", intent={}))
    assert store.claims.of("fleet/default/site/a") is None


def test_another_tenant_has_another_store(server: MadeServer) -> None:
    blobs_of(server, ADMIN).write("records/a", b"1")
    other = store_of(server, ADMIN, tenant="other")
    assert other.blobs.read("records/a") is None
    assert other.id() != store_of(server, ADMIN).id()


def test_what_a_plan_job_writes_is_not_signed(server: MadeServer) -> None:
    """So that the outcome of an apply counts only from those who may apply."""
    planner, operator = store_of(server, PLANNER), store_of(server, OPERATOR)
    planner.runs.finish("1", {"stack": "a", "status": "applied"})
    operator.runs.finish("2", {"stack": "a", "status": "applied"})
    signed = [blob.signed for run in ("1", "2") if (blob := operator.runs.outcome_blob(run))]
    assert signed == [False, True]
    assert (planner.can_apply, operator.can_apply) == (False, True)
    with pytest.raises(Refused, match="role planner"):
        planner.require_apply_key("applying")


def test_nothing_is_stored_in_plain_text(server: MadeServer) -> None:
    store = store_of(server, ADMIN)
    store.encrypted.write("records/a", b"canary-4711")
    store.claims.take(StoredClaim(stack="a", run="01RUN", intent={}))
    store.states.add("a", snapshot(None)._replace(state=STATE.replace(b'"l"', b'"canary-4711"')), after=0)
    with server.database.transaction() as connection:
        rows = connection.execute("select data from blobs union all select data from state_versions")
        assert not [data for (data,) in rows.fetchall() if b"canary" in bytes(data)]


def test_a_claim_is_the_lease_of_the_state(server: MadeServer) -> None:
    """Plain Terraform waits for a run, and a run for plain Terraform."""
    store, token = store_of(server, OPERATOR, name="ada"), server.token(OPERATOR, name="bob")
    claim = StoredClaim(stack="a", run="01RUN", intent={})
    assert store.claims.take(claim) == claim
    assert store.claims.take(claim._replace(run="01OTHER")).run == "01RUN"
    locked = server.send("LOCK", "/state/a", body=LOCK, token=token)
    assert (locked.status, json.loads(locked.body)["Info"]) == (423, "Holdfast run 01RUN")
    added = store.states.add("a", snapshot("01RUN"), after=0)
    assert added is not None
    with pytest.raises(HoldfastError):
        store.states.add("a", snapshot("01OTHER", 2), after=1)
    store.claims.release("a", "01RUN")
    assert server.send("GET", "/state/a", token=token).body == STATE
    assert server.send("LOCK", "/state/a", body=LOCK, token=token).status == 200
    with pytest.raises(Busy, match="locked by me"):
        store.claims.take(claim)
    assert store.claims.of("a") is None
    with pytest.raises(Busy):
        store.states.add("a", snapshot("01RUN", 2), after=1)
    assert server.send("UNLOCK", "/state/a", body=LOCK, token=token).status == 200
    assert store.claims.take(claim) == claim


def test_the_supervisor_gets_its_own_state_and_journal_only(server: MadeServer) -> None:
    store = store_of(server, OPERATOR)
    store.claims.take(StoredClaim(stack="a", run="01RUN", intent={}))
    access = store.supervisor_access(
        read=("states/a", "claims/a"), write=("states/a", "runs/01RUN"), run="01RUN", stack="a"
    )
    described: dict[str, object] = access["store"]  # type: ignore[assignment]
    blobs = from_description(described)
    assert blobs.create("states/a/0000000001", b'{"why":"apply","run":"01RUN"}\n' + STATE)
    assert blobs.read("claims/a") is not None
    blobs.write("runs/01RUN/heartbeat", b"now", durable=False)
    for act in (
        lambda: blobs.read("states/b/0000000001"),
        lambda: blobs.create("states/b/0000000001", b"{}\n"),
        lambda: blobs.write("runs/01OTHER/outcome", b"{}"),
        lambda: blobs.write("runs/01RUN/key", b"{}"),
        lambda: blobs.write("runs/01RUN/outcome", b'{"stack":"a"}'),
        lambda: blobs.remove("states/a/0000000001"),
        lambda: blobs.remove("claims/a"),
        lambda: blobs.read("runs/01OTHER/outcome"),
        lambda: blobs.create("used/x", b""),
    ):
        with refused("HF-STORE-24", Refused):
            act()
    assert all(name.startswith(("states/a/", "runs/01RUN/", "claims/a")) for name in blobs.names(""))
    # What only reads writes nothing and shares one token. What writes ends with the claim.
    reading: dict[str, object] = store.supervisor_access(read=("states/a",), write=(), run="", stack="a")
    assert store.supervisor_access(read=("states/a",), write=(), run="", stack="a") == reading
    assert store.supervisor_access(read=("states/b",), write=(), run="", stack="b") != reading
    reader = from_description(reading["store"])  # type: ignore[arg-type]
    assert reader.read("states/a/0000000001") is not None
    with pytest.raises(Refused):
        reader.create("states/a/0000000002", b'{"why":"apply","run":""}\n' + STATE)
    store.claims.release("a", "01RUN")
    with refused("HF-STATE-49", UsageError):
        blobs.read("states/a/0000000001")
    with pytest.raises(HoldfastError, match="no claim"):
        store.supervisor_access(read=(), write=("runs/01RUN",), run="01RUN", stack="a")
    assert store.states.numbers("a") == (1,)


def test_a_token_that_only_reads_ends_with_its_change(server: MadeServer) -> None:
    """A worker keeps it in memory. Another secret for the same token is refused."""
    blobs = blobs_of(server, OPERATOR)
    store = ServerRunStore(blobs)
    store.claims.take(StoredClaim(stack="a", run="01RUN", intent={}))
    store.states.add("a", snapshot("01RUN"), after=0)
    described: Any = store.supervisor_access(read=("states/a",), write=(), run="", stack="a")["store"]
    assert from_description(described).read("states/a/0000000001") is not None
    other = {**described, "token": described["token"][:-4] + "AAAA"}
    with refused("HF-TOK-1"):
        from_description(other).read("states/a/0000000001")
    if isinstance(blobs, WorkerBlobs):
        blobs.session.end()
        with refused("HF-TOK-1"):
            from_description(described).read("states/a/0000000001")


def test_a_worker_serves_only_the_run_store_and_only_whole_bodies(server: MadeServer) -> None:
    if server.worker is None:
        pytest.skip("only of a worker")
    host, _, port = server.worker[1].removeprefix("http://").partition(":")
    token = server.token(OPERATOR)
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    for path, status in (("/api/v1/store/names", 200), ("/api/v1/runs", 404), ("/state/a", 404)):
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status
    connection.close()
    for size in (100, 1 << 20):  # A small body is read at once, a large one after its writer is known.
        answers: list[Any] = []
        first = {"type": "http.request", "body": b"x", "more_body": True}
        messages: Iterator[Any] = iter([first, {"type": "http.disconnect"}])
        target = "/api/v1/store/blobs/records/half"
        fields = {b"authorization": f"Bearer {token}".encode(), b"content-length": b"%d" % size}
        scope = {"method": "PUT", "raw_path": target.encode(), "path": target, "query_string": b""}

        async def receive(messages: Iterator[Any] = messages) -> Any:
            return next(messages)

        async def send(message: Any, answers: list[Any] = answers) -> None:
            answers.append(message)

        app = StoreApplication(server.worker[0], server.parts.settings.limits)
        asyncio.run(app({**scope, "headers": list(fields.items())}, receive, send))
        assert answers[0]["status"] == 400
    assert blobs_of(server, OPERATOR).read("records/half") is None


def test_a_journal_waits_encrypted_and_is_read_by_others(server: MadeServer, tmp_path: Path) -> None:
    store = store_of(server, OPERATOR)
    store.claims.take(StoredClaim(stack="a", run="01RUN", intent={}))
    access = store.supervisor_access(read=(), write=("runs/01RUN",), run="01RUN", stack="a")
    path = tmp_path / "journal"
    writer = JournalWriter(str(path), ServerCipher.from_document(access["keys"]), "01RUN")  # type: ignore[arg-type]
    writer.append(STARTED, b"{}")
    writer.append(LINES, b"canary-4711")
    writer.close()
    assert b"canary" not in path.read_bytes()
    assert store.blobs.create("runs/01RUN/journal-000001", path.read_bytes())
    assert store_of(server, PLANNER).runs.journal("01RUN").lines == (b"canary-4711",)
    viewer = store_of(server, VIEWER)  # It may contain secrets: what masks them does, too.
    assert (viewer.runs.journal("01RUN").lines, viewer.shows_output) == ((), False)


def test_approvals_are_of_the_verified_person(server: MadeServer) -> None:
    """Whatever the client says. Nobody approves their own plan, also not one of their CI job."""
    planner = store_of(server, OPERATOR, name="ada")
    digest = "a" * 64
    planner.approvals.record_author(digest, {"name": "somebody else"}, stack="a", run="01RUN")

    def approve(store: RunStore, kind: ApprovalKind = ApprovalKind.APPROVAL) -> None:
        who = {"kind": "token", "name": "mallory", "verified": True}
        store.approvals.add(
            Approval(kind=kind, digest=digest, stack="a", run="01RUN", who=who, reason="r", at="1999")
        )

    with refused("HF-APPR-3", Refused):
        approve(store_of(server, APPROVER, name="ada"))
    with refused("HF-TOK-2", Refused):
        approve(planner)
    approve(store_of(server, APPROVER, name="bob"))
    (given,) = planner.approvals.of(digest)
    assert (given.shown, given.verified, given.by) == ("bob", True, "name:bob")
    assert given.at > "2020"
    with refused("HF-APPR-2", HoldfastError):
        digest = "b" * 64
        approve(store_of(server, APPROVER, name="bob"))


def test_no_decision_counts_without_its_entry_in_the_audit_log(server: MadeServer) -> None:
    """The server writes both, and no client the entry alone. An override says why."""
    digest = "a" * 64
    store_of(server, OPERATOR, name="ada").approvals.record_author(digest, {}, stack="a", run="01RUN")
    bob = store_of(server, APPROVER, name="bob")
    with refused("HF-TOK-2", Refused):
        audit = Audit(bob, actor_from(bob.server_actor()), redactor=Redactor())
        audit.record(Entry(what="approve", stack="a", run="01RUN", digest=digest))
    for kind in (ApprovalKind.APPROVAL, ApprovalKind.OVERRIDE):
        given = Approval(kind=kind, digest=digest, stack="a", run="01RUN", who={}, reason="r", at="")
        bob.approvals.add(given)
        with refused("HF-STORE-25", HoldfastError):
            bob.approvals.add(replace(given, kind=ApprovalKind.OVERRIDE, reason=" "))
    with refused("HF-APPR-3", HoldfastError):  # Nor by its author, with another of their tokens.
        given = Approval(
            kind=ApprovalKind.OVERRIDE, digest=digest, stack="a", run="01RUN", who={}, reason="r", at=""
        )
        store_of(server, APPROVER, name="ada").approvals.add(given)
    urgent, admin = replace(given, break_glass=True), store_of(server, ADMIN, name="ada")
    with refused("HF-APPR-3", HoldfastError):  # An admin neither, unless they say that it is an emergency.
        admin.approvals.add(given)
    with refused("HF-TOK-2", HoldfastError):
        bob.approvals.add(urgent)
    with refused("HF-STORE-25", HoldfastError):
        admin.approvals.add(replace(urgent, kind=ApprovalKind.APPROVAL))
    admin.approvals.add(urgent)
    assert [each.break_glass for each in admin.approvals.of(digest)] == [False, False, True]
    lines = [json.loads(line) for line in all_lines(bob)]
    shown = [(line["what"], line["who"]["name"], line["reason"], line["digest"]) for line in lines]
    assert shown == [
        ("approve", "bob", "r", digest),
        ("override", "bob", "r", digest),
        ("override", "ada", "r", digest),
    ]
    assert lines[-1]["details"] == {"lifts": "denial and approvals"}


def test_the_audit_log_is_written_by_the_server(server: MadeServer) -> None:
    """With its own actor and time, and one chain although many write at once."""
    stores = [store_of(server, OPERATOR, name=f"p{number}") for number in range(8)]

    def record(store: ServerRunStore) -> None:
        audit = Audit(store, actor_from(store.server_actor()), redactor=Redactor())
        audit.record(Entry(what="apply", stack="a", outcome="applied"))
        assert audit.end is not None

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(record, stores))
    report = verify(stores[0])
    assert report.whole, report
    lines = [json.loads(line) for line in all_lines(stores[0])]
    assert {line["who"]["name"] for line in lines} == {f"p{number}" for number in range(8)}
    with refused("HF-TOK-2", Refused):
        record(store_of(server, VIEWER))


class LosesAnswers:
    """Every request is served, and the first answer to each is lost."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lost = False

    def request(
        self, method: str, path: str, *, headers: Mapping[str, str], body: bytes | None = None
    ) -> Response:
        answer = self._session.request(method, path, headers=headers, body=body)
        self._lost = not self._lost
        if self._lost:
            raise HttpError("server", "the connection was lost", stale=True)
        return answer


def test_a_lost_answer_changes_nothing(server: MadeServer) -> None:
    blobs = blobs_of(server, ADMIN)
    blobs._session = LosesAnswers(blobs._session)
    assert blobs.create("records/a", b"1")
    assert not blobs.create("records/a", b"2")
    stored = blobs.read("records/a")
    assert stored is not None
    assert stored.data == b"1"
    tag = blobs.replace("records/a", b"3", tag=stored.tag)
    assert tag is not None
    assert blobs.remove("records/a", tag=tag)
    store = ServerRunStore(blobs)
    store.claims.take(StoredClaim(stack="a", run="01RUN", intent={}))
    audit = Audit(store, actor_from(store.server_actor()), redactor=Redactor())
    for _ in range(3):
        audit.record(Entry(what="apply", stack="a", outcome="applied"))
    assert len(list(all_lines(store))) == 3
    assert store.states.add("a", snapshot(None), after=0) is not None
    assert store.states.numbers("a") == (1,)


def test_another_version_is_reported(server: MadeServer) -> None:
    problem = server.send("GET", "/api/v1/store", headers={PROTOCOL_FIELD: "99"}).problem
    assert problem["code"] == "HF-STORE-22"
    nowhere = ServerBlobs(f"{server.url}/proxy", lambda: server.admin, {})
    with refused("HF-STORE-22", UsageError):
        nowhere.read("a")
    with refused("HF-TOK-1", UsageError):
        ServerBlobs(server.url, lambda: "hf_wrong", {}).read("a")
    with refused("HF-STORE-1", UsageError):
        ServerBlobs("http://example.com", lambda: "x", {})
    with refused("HF-STORE-5", HoldfastError):
        ServerBlobs("http://127.0.0.1:9", lambda: "x", {}, tries=1).read("a")


def test_a_bundle_is_opened_by_the_server_only(server: MadeServer) -> None:
    store, context = store_of(server, PLANNER), "bundle\0run\0prod/a\0plan"
    sealed = seal(store.key, b"plan", context=context)
    assert unseal(KEY.for_tenant("default"), sealed, context=context) == b"plan"
    assert unseal(store_of(server, CI).key, sealed, context=context) == b"plan"
    with refused("HF-TOK-2", Refused):
        unseal(store.key, sealed, context=context)


def test_a_bundle_is_opened_only_for_its_stack_and_tenant(server: MadeServer) -> None:
    store, context = store_of(server, PLANNER), "bundle\0run\0prod/a\0plan"
    sealed = seal(store.key, b"plan", context=context)
    with refused("HF-KEY-6"):
        unseal(store_of(server, CI, tenant="other").key, sealed, context=context)
    for limit in ({"stacks": ("dev/*",)}, {"states": ("dev/*",)}):
        limited = store_of(server, CI, **limit).key
        with refused("HF-TOK-2", Refused):
            unseal(limited, sealed, context=context)

    def lying(public: bytes, _: str) -> bytes:
        """Asks for the key of another stack."""
        assert limited.ask_server is not None
        return limited.ask_server(public, "bundle\0run\0dev/a\0plan")

    limited = store_of(server, CI, stacks=("dev/*",), states=("dev/*",)).key
    with refused("HF-KEY-6"):
        unseal(limited._replace(ask_server=lying), sealed, context=context)
    with refused("HF-STORE-25"):
        unseal(limited, sealed, context="anything\0else")


def test_only_an_admin_accepts_that_entries_are_missing(server: MadeServer) -> None:
    store = store_of(server, ADMIN)
    audit = Audit(store, actor_from(store.server_actor()), redactor=Redactor())
    for _ in range(2):
        audit.record(Entry(what="apply", stack="a", outcome="applied"))
    with server.database.transaction() as connection:
        connection.execute("delete from blobs where name = 'audit/lines/000000000002'")
    with refused("HF-AUDIT-8"):
        audit.record(Entry(what="apply", stack="a", outcome="applied"))
    operator = store_of(server, OPERATOR)
    with refused("HF-TOK-2"):
        Audit(operator, actor_from(operator.server_actor()), redactor=Redactor()).accept_loss("a test")
    Audit(store, actor_from(store.server_actor()), redactor=Redactor()).accept_loss("a test")
    Audit(store, actor_from(store.server_actor()), redactor=Redactor()).record(Entry(what="apply", stack="a"))
    assert [json.loads(line)["seq"] for line in all_lines(store)] == [1, 3, 4]


def test_a_damaged_blob_is_reported_without_the_place_of_the_database(server: MadeServer) -> None:
    store = store_of(server, OPERATOR)
    store.blobs.write("records/a", b"{}")
    with server.database.transaction() as connection:
        connection.execute("update blobs set data = 'damaged' where name = 'records/a'")
    with pytest.raises(HoldfastError) as caught:
        store.blobs.read("records/a")
    assert caught.value.problem.code == "HF-STORE-2"
    assert "records/a in the run store of the tenant default" in caught.value.problem.message
    assert server.database.shown not in caught.value.problem.message
