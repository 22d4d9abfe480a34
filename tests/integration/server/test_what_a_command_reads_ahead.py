"""A client asks a server once for what it reads next. Answers are those of single requests."""

from __future__ import annotations

import pytest
from server_made import MadeServer

from holdfast.identity.roles import Role
from holdfast.store.run_records import StoredClaim
from holdfast.store.server_blobs import ServerBlobs
from holdfast.store.server_store import ServerRunStore
from holdfast.store.states import StateSnapshot
from holdfast.store.steps import Step
from holdfast.system import clock
from holdfast.system.http import HttpSession

STATE = b'{"version":4,"serial":1,"lineage":"l","resources":[],"outputs":{}}'
WANTED = ("records/a", "records/b", "records/", "states/a/", "states/b/")


class Client:
    def __init__(self, server: MadeServer, role: Role = Role.OPERATOR, **scope: tuple[str, ...]) -> None:
        token = server.token(role, tenant="ahead", **scope)  # type: ignore[arg-type]
        self.blobs = ServerBlobs(server.url, lambda: token, {})
        self.store = ServerRunStore(self.blobs)
        self.requests: list[str] = []

    def answers(self) -> tuple[object, ...]:
        read, names = self.blobs.read, self.blobs.names
        version = self.store.states.current("a")
        return read("records/a"), read("records/b"), names("records"), names("states/b"), version


@pytest.fixture
def client(shared: MadeServer, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Its store has a record and a state; its requests are counted from now on."""
    with shared.database.transaction() as connection:
        connection.execute("truncate states cascade")
        connection.execute("truncate blobs, run_folders")
    client, send = Client(shared), HttpSession.request
    client.blobs.write("records/a", b"{}")
    client.store.claims.take(StoredClaim(stack="a", run="r", intent={}))
    snapshot = StateSnapshot(serial=1, lineage="l", resources=0, run="r", who="ada", why="apply", state=STATE)
    assert client.store.states.add("a", snapshot, after=0) is not None

    def request(session: HttpSession, method: str, path: str, **more: object) -> object:
        client.requests.append(f"{method} {path}")
        return send(session, method, path, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(HttpSession, "request", request)
    return client


def test_one_request_has_the_answers_of_many(client: Client) -> None:
    """Also that a blob does not exist, and the newest version of a state."""
    single = client.answers()
    assert single[0] is not None
    assert single[-1] is not None
    client.requests.clear()
    client.blobs.read_ahead(WANTED)
    assert client.answers() == single
    assert client.requests == ["POST /api/v1/store/reads"]


def test_answers_count_for_a_moment(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then, nothing is asked for twice."""
    for _ in range(2):
        client.blobs.read_ahead(WANTED)
    assert len(client.requests) == 1
    seconds = clock.monotonic() + 1.0
    monkeypatch.setattr(clock, "monotonic", lambda: seconds)
    client.blobs.read("records/a")
    assert len(client.requests) == 2


def test_what_this_command_writes_is_read_again(shared: MadeServer, client: Client) -> None:
    """After a claim, everything of its stack: what was read before it may have changed."""
    client.blobs.read_ahead(WANTED)
    client.blobs.write("records/b", b"new")
    assert client.blobs.read("records/b") is not None
    assert client.blobs.names("records") == ("records/a", "records/b")
    client.blobs.remove("records/b")
    assert client.blobs.read("records/b") is None
    client.blobs.read_ahead(["records/a"])
    Client(shared).blobs.write("records/a", b"of another")
    client.store.claims.take(StoredClaim(stack="b", run="r2", intent={}))
    client.requests.clear()
    client.blobs.read("records/a")
    assert not client.requests
    client.store.claims.release("a", "r")
    client.store.claims.take(StoredClaim(stack="a", run="r3", intent={}))
    blob = client.blobs.read("records/a")
    assert blob is not None
    assert blob.data == b"of another"


def test_after_a_command_that_writes_nothing_counts_that_was_read_before(client: Client) -> None:
    """Its supervisor is another process, which writes the state and has a token of its own."""
    client.blobs.read_ahead(WANTED)
    client.store.supervisor_access(read=(), write=("states/a",), run="r", stack="a")
    client.requests.clear()
    assert client.store.states.current("a") is not None
    client.blobs.read("records/a")
    assert len(client.requests) == 3


def test_what_a_token_may_not_read_is_left_out(shared: MadeServer, client: Client) -> None:
    """The single request says why."""
    limited = Client(shared, Role.VIEWER, stacks=("b",), states=("b",))
    limited.blobs.read_ahead(WANTED)
    client.requests.clear()
    assert limited.blobs.names("records") == ()
    assert limited.blobs.read("records/b") is None
    assert client.requests == []
    with pytest.raises(Exception, match="does not cover this stack"):
        limited.blobs.read("records/a")


def test_what_is_large_is_left_out(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.server.store_access._SMALL", 1)
    client.blobs.read_ahead(WANTED)
    client.requests.clear()
    assert client.store.states.current("a") is not None
    assert client.blobs.read("records/a") is not None
    assert len(client.requests) == 2


@pytest.mark.parametrize("step", Step)
def test_every_step_can_be_asked_for(client: Client, step: Step) -> None:
    client.store.read_ahead(step, "with/slash")
    assert client.requests[-1] == "POST /api/v1/store/reads"
