"""Who knows the id of another's lock or run gains nothing by it: the server compares who was verified.

Two operators of one tenant, and everything that one of them can send about what the other holds.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import NamedTuple

import pytest
from server_made import Answer, MadeServer
from state_backend_made import lock_info, state

from holdfast.identity.roles import Role
from holdfast.kernel.errors import Busy, HoldfastError, Refused, UsageError
from holdfast.store.run_records import StoredClaim
from holdfast.store.server_blobs import ServerBlobs
from holdfast.store.server_states.changes import StateKey
from holdfast.store.server_states.cipher import StateCipher
from holdfast.store.server_states.locks import LEASE
from holdfast.store.server_states.rows import StateRows
from holdfast.store.server_store import ServerRunStore
from holdfast.store.states import StateSnapshot

STORE = "/api/v1/store"
CREATE = {"if-none-match": "*"}


class World(NamedTuple):
    server: MadeServer
    alice: str
    bob: str

    @property
    def rows(self) -> StateRows:
        return StateRows(self.server.database, StateCipher([self.server.parts.key]))

    def send(self, method: str, token: str, name: str, body: bytes = b"", query: str = "") -> Answer:
        md5 = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        fields = {"content-md5": md5} if body else {}
        return self.server.send(method, f"/state/{name}{query}", body=body, token=token, headers=fields)

    def blob(self, method: str, token: str, name: str, body: bytes = b"", *, create: bool = False) -> Answer:
        """`name` as in the address."""
        fields = {"content-type": "application/octet-stream", **(CREATE if create else {})}
        return self.server.send(method, f"{STORE}/blobs/{name}", body=body, token=token, headers=fields)

    def store(self, token: str) -> ServerRunStore:
        return ServerRunStore(ServerBlobs(self.server.url, lambda: token, {}, tries=1))

    def claim(self, token: str, stack: str, run: str) -> None:
        claim = StoredClaim(stack=stack, run=run, intent={})
        assert self.store(token).claims.take(claim) == claim

    def grant(self, token: str, stack: str, run: str, **wanted: object) -> Answer:
        return self.server.send(
            "POST", f"{STORE}/grants", {"stack": stack, "run": run, **wanted}, token=token
        )

    def silence(self) -> None:
        with self.server.database.transaction() as connection:
            connection.execute("update state_locks set expires = clock_timestamp() - %s", (LEASE,))

    def events(self, name: str) -> list[str]:
        with self.server.database.transaction() as connection:
            rows = connection.execute(
                "select e.what from state_events e join states s on s.id = e.state where s.name = %s", (name,)
            ).fetchall()
        return [what for (what,) in rows]


@pytest.fixture
def world(shared: MadeServer) -> World:
    with shared.database.transaction() as connection:
        connection.execute("truncate states cascade")
        connection.execute("truncate blobs, run_folders")
    alice, bob = (shared.token(Role.OPERATOR, name=name) for name in ("alice", "bob"))
    return World(shared, alice, bob)


def snapshot(run: str | None, serial: int = 1) -> StateSnapshot:
    return StateSnapshot(
        serial=serial, lineage="lineage-1", resources=1, run=run, who="x", why="apply", state=state(serial)
    )


def test_a_lock_is_used_by_who_took_it(world: World) -> None:
    assert world.send("LOCK", world.alice, "net", lock_info("l1")).status == 200
    shown = world.send("LOCK", world.bob, "net", lock_info("mine"))
    assert (shown.status, shown.document["ID"]) == (423, "l1")
    assert world.send("LOCK", world.bob, "net", lock_info("l1")).status == 423
    assert world.send("POST", world.bob, "net", state(1), "?ID=l1").status == 423
    assert world.send("DELETE", world.bob, "net", query="?ID=l1").status == 423
    assert world.send("DELETE", world.bob, "net").status == 423
    refused = world.send("UNLOCK", world.bob, "net", lock_info("l1"))
    assert (refused.status, refused.problem["code"]) == (403, "HF-STATE-46")
    # Another token of the same person is the same person, and an admin may release any lock.
    again = world.server.token(Role.OPERATOR, name="alice")
    assert world.send("LOCK", again, "net", lock_info("l1")).status == 200
    assert world.send("POST", again, "net", state(1), "?ID=l1").status == 200
    assert world.send("UNLOCK", world.server.admin, "net", lock_info("l1")).status == 200
    assert world.send("UNLOCK", world.alice, "net", lock_info("l1")).status == 200
    assert world.events("net") == ["unlock"]


def test_the_lease_of_a_run_is_used_by_who_claimed_it(world: World) -> None:
    world.claim(world.alice, "prod/run", "RUNA")
    assert world.send("POST", world.bob, "prod/run", state(1), "?ID=RUNA").status == 423
    for run in ("RUNA", None):
        with pytest.raises(Busy):
            world.store(world.bob).states.add("prod/run", snapshot(run), after=0)
    # Also where nobody holds a lock.
    with pytest.raises(Refused, match="only under its lock"):
        world.store(world.bob).states.add("prod/free", snapshot("RUNA"), after=0)
    for run in ("", "RUNA"):
        wanted = world.grant(world.bob, "prod/run", run, writes_state=True)
        assert (wanted.status, wanted.problem["code"]) == (409, "HF-STORE-26")
        assert world.grant(world.bob, "prod/run", run, journal="RUNA").status == 403
    run_token = {"run": "RUNA", "state": "prod/run"}
    assert world.server.send("POST", "/api/v1/tokens/run", run_token, token=world.bob).status == 409
    assert world.grant(world.alice, "prod/run", "RUNA", writes_state=True, journal="RUNA").status == 201
    assert world.store(world.alice).states.add("prod/run", snapshot("RUNA"), after=0) is not None


def test_a_stack_has_one_claim(world: World) -> None:
    """Whatever spelling of its name, and not without proof that its run is dead."""
    world.claim(world.alice, "prod/run", "RUNA")
    claim = json.dumps({"stack": "prod/run", "run": "RUNB", "intent": {}}).encode()
    for alias in ("%2570rod%252Frun", "prod%252frun"):
        answer = world.blob("PUT", world.bob, f"claims/{alias}", claim, create=True)
        assert (answer.status, answer.problem["code"]) == (422, "HF-STORE-25")
    assert world.blob("PUT", world.bob, "claims/prod%252Fother", claim, create=True).status == 422
    assert world.blob("DELETE", world.bob, "claims/prod%252Frun").status == 423
    taken = StoredClaim(stack="prod/run", run="RUNB", intent={})
    assert world.store(world.bob).claims.take(taken).run == "RUNA"
    with pytest.raises(UsageError, match="another's"):
        world.store(world.bob).claims.take(StoredClaim(stack="prod/else", run="RUNA", intent={}))
    row, _ = world.rows.look(StateKey("default", "prod/run"))
    assert row is not None
    assert row.lock is not None
    assert row.lock.run == "RUNA"


def test_a_dead_run_is_taken_over(world: World) -> None:
    """Only without a heartbeat; then its tokens end, and what it held is another's. It is recorded."""
    world.claim(world.alice, "a", "RUNA")
    granted = world.grant(world.alice, "a", "RUNA", writes_state=True, journal="RUNA").document["token"]
    bob = world.store(world.bob)
    with pytest.raises(Busy):
        bob.take_over("a", "RUNA", declared="her machine is gone")
    with pytest.raises(Refused):
        bob.runs.finish("RUNA", {"stack": "a"})
    world.silence()
    with pytest.raises(HoldfastError, match="no claim"):
        bob.take_over("a", "RUNB")
    bob.take_over("a", "RUNA", declared="her machine is gone")
    bob.take_over("a", "RUNA")
    assert world.send("GET", granted, "a").status == 401
    bob.runs.finish("RUNA", {"stack": "a"})
    assert bob.states.add("a", snapshot("RUNA"), after=0) is not None
    with pytest.raises(Busy):
        world.store(world.alice).claims.release("a", "RUNA")
    bob.claims.release("a", "RUNA")
    assert world.events("a") == ["take over"]
    # After an admin ended the lease, the claim is what is left of the run.
    world.claim(world.alice, "a", "RUNC")
    world.silence()
    assert world.send("UNLOCK", world.server.admin, "a").status == 200
    with pytest.raises(Refused, match="no claim"):
        bob.claims.release("a", "RUNC")
    bob.take_over("a", "RUNC")
    bob.claims.release("a", "RUNC")
    assert world.events("a") == ["take over", "force-unlock", "take over"]


def test_versions_are_not_removed_by_clients(world: World) -> None:
    world.claim(world.alice, "prod/net", "RUNA")
    alice = world.store(world.alice)
    for serial in (1, 2, 3):
        assert alice.states.add("prod/net", snapshot("RUNA", serial), after=serial - 1) is not None
    run = world.grant(world.alice, "prod/net", "RUNA", writes_state=True).document["token"]
    for number in (1, 2, 3):
        for token in (world.alice, world.bob, run, world.server.admin):
            answer = world.blob("DELETE", token, f"states/prod%252Fnet/{number}")
            assert answer.status in {403, 423}, answer
    assert alice.states.numbers("prod/net") == (1, 2, 3)
    assert json.loads(world.send("GET", world.alice, "prod/net").body)["serial"] == 3


def test_a_run_withdraws_the_first_version_that_it_wrote(world: World) -> None:
    """As an adoption does that fails. The version stays in the history of the name."""
    world.claim(world.alice, "a", "RUNA")
    alice = world.store(world.alice)
    assert alice.states.add("a", snapshot("RUNA"), after=0) is not None
    alice.states.withdraw("a", 1)
    assert (alice.states.numbers("a"), world.events("a")) == ((), ["withdraw"])
    assert alice.states.add("a", snapshot(None), after=0) is not None
    alice.claims.release("a", "RUNA")
    world.claim(world.alice, "a", "RUNB")
    with pytest.raises(Refused, match="cannot be removed"):
        alice.states.withdraw("a", 1)


def test_a_deleted_state_is_not_replaced_by_another(world: World) -> None:
    world.send("LOCK", world.alice, "d", lock_info("l"))
    world.send("POST", world.alice, "d", state(5), "?ID=l")
    world.send("UNLOCK", world.alice, "d", lock_info("l"))
    refused = world.send("DELETE", world.bob, "d")
    assert (refused.status, refused.problem["code"]) == (409, "HF-STATE-43")
    world.send("LOCK", world.bob, "d", lock_info("m"))
    assert world.send("DELETE", world.bob, "d").status == 423
    assert world.send("DELETE", world.bob, "d", query="?ID=m").status == 200
    assert world.send("GET", world.bob, "d").status == 404
    for content in (state(6, lineage="other"), state(5), state(1)):
        assert world.send("POST", world.bob, "d", content, "?ID=m").status == 409
    assert world.send("POST", world.bob, "d", state(6), "?ID=m").status == 200
    world.send("UNLOCK", world.bob, "d", lock_info("m"))
    # An admin decides that the name is free.
    assert world.send("DELETE", world.server.admin, "d").status == 200
    world.send("LOCK", world.bob, "d", lock_info("n"))
    assert world.send("POST", world.bob, "d", state(1, lineage="other"), "?ID=n").status == 200


def test_a_state_gets_another_name_with_its_versions(world: World) -> None:
    alice = world.store(world.alice)
    world.claim(world.alice, "old", "RUNA")
    for serial in (1, 2):
        alice.states.add("old", snapshot("RUNA", serial), after=serial - 1)
    world.claim(world.bob, "new", "RUNB")
    with pytest.raises(Busy):
        alice.names.remove_old("old", "new")
    world.store(world.bob).claims.release("new", "RUNB")
    with pytest.raises(Refused, match="only under its lock"):
        alice.names.remove_old("old", "new")
    world.claim(world.alice, "new", "RUNA")
    alice.names.copy("old", "new")
    for _ in range(2):
        alice.names.remove_old("old", "new")
    assert (alice.states.numbers("old"), alice.states.numbers("new")) == ((), (1, 2))
    # Both leases are still those of their names.
    assert alice.states.add("new", snapshot("RUNA", 3), after=2) is not None
    for name in ("old", "new"):
        alice.claims.release(name, "RUNA")
        row, _ = world.rows.look(StateKey("default", name))
        assert row is not None
        assert row.lock is None


def test_a_plan_job_changes_nothing_that_an_apply_wrote(world: World) -> None:
    """Also one of the same CI job, which is the same subject."""
    planner = world.store(world.server.token(Role.PLANNER, name="alice"))
    alice = world.store(world.alice)
    alice.runs.finish("RUNA", {"stack": "a", "status": "applied"})
    alice.runs.write("RUNA", "plan", b"1")
    planner.runs.finish("RUNB", {"stack": "a"})
    planner.runs.finish("RUNB", {"stack": "a", "status": "planned"})
    for name in ("outcome", "plan"):
        with pytest.raises(Refused):
            planner.runs.write("RUNA", name, b'{"stack":"a"}')
    blob = alice.runs.outcome_blob("RUNA")
    assert blob is not None
    assert blob.signed


@pytest.mark.parametrize(
    "name",
    [
        *("claims/%2500", "claims/%251b%255b31mX", "claims/dev%252F..%252Fprod", "claims/" + "a" * 900),
        *("states/x/%C2%B2", "states/x/%D9%A3", "states/x/99999999999999999999", "states/x/-1", "states/x"),
        *("runs/x", "runs/%C2%B2/outcome", "claims/a/b", "records/%2570rod"),
    ],
)
def test_a_name_that_is_none_is_a_client_error(world: World, name: str) -> None:
    claim = b'{"stack":"x","run":"Z","intent":{}}'
    for method, body, create in (("GET", b"", False), ("DELETE", b"", False), ("PUT", claim, True)):
        answer = world.blob(method, world.bob, name, body, create=create)
        assert answer.status in {400, 422}, (method, answer)
    assert world.server.send("GET", "/api/v1/states", token=world.bob).document["states"] == []


@pytest.mark.parametrize(
    "run", ['"\\ud800"', '"\\u0000"', "null", "{}", '"' + "x" * 5000 + '"', '"a b"', '"../x"']
)
def test_a_run_has_an_id(world: World, run: str) -> None:
    claim = b'{"stack":"x","run":%s,"intent":{}}' % run.encode()
    assert world.blob("PUT", world.bob, "claims/x", claim, create=True).status in {400, 422}
    if run != "null":
        head = b'{"why":"apply","run":%s}\n' % run.encode()
        world.claim(world.bob, "x", "RUNB")
        assert world.blob("PUT", world.bob, "states/x/1", head + state(1), create=True).status in {400, 422}


@pytest.mark.parametrize(
    "path", ["//state/x", "/STATE/x", "/%73tate/x", "/./state/x", "/a/../state/x", "/State"]
)
def test_no_spelling_of_an_address_is_taken_for_an_empty_state(world: World, path: str) -> None:
    answer = world.server.send("GET", path, token=world.bob)
    assert (answer.status, answer.problem["code"]) == (400, "HF-STATE-40")
    assert world.server.send("GET", "/statement", token=world.bob).status == 404


def test_the_digest_of_a_plan_is_of_one_plan(world: World) -> None:
    wanted = {"digest": "a" * 64, "stack": "dev/x", "run": "R"}
    for _ in range(2):
        assert world.server.send("POST", f"{STORE}/authors", wanted, token=world.alice).status == 201
    for other in ({"stack": "prod/net"}, {"run": "R2"}, {}):
        token = world.bob if not other else world.alice
        refused = world.server.send("POST", f"{STORE}/authors", wanted | other, token=token)
        assert (refused.status, refused.problem["code"]) == (409, "HF-APPR-6")


def test_the_plan_of_a_run_is_recorded_by_that_run(world: World) -> None:
    """Otherwise an approval could be asked for a plan that the run did not show."""
    world.claim(world.alice, "dev/x", "RUNA")
    wanted = {"digest": "a" * 64, "stack": "dev/x", "run": "RUNA"}
    for other, token in (({}, world.bob), ({"stack": "dev/y"}, world.alice)):
        assert world.server.send("POST", f"{STORE}/authors", wanted | other, token=token).status == 403
    assert world.server.send("POST", f"{STORE}/authors", wanted, token=world.alice).status == 201
