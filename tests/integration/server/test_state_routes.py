"""`/api/v1/states` over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from litestar import Litestar, Request, Response
from litestar.di import Provide
from litestar.testing import TestClient
from postgres_made import MadePostgres
from state_backend_made import CALLER, KEY, NET, lock_info, state, write_state

from holdfast.audit.entry import Entry
from holdfast.database.database import Database
from holdfast.identity.principal import Principal
from holdfast.identity.roles import Permission, Role
from holdfast.kernel.errors import HoldfastError
from holdfast.server.audit_log import ServerAudit
from holdfast.server.problems import MEDIA_TYPE, denial_from
from holdfast.server.routes.states import ROUTES, states_router
from holdfast.store.server_states.cipher import StateCipher
from holdfast.store.server_states.locks import Caller, StateRefusal, lock_request, run_lease
from holdfast.store.server_states.rows import StateRows


def _principal(request: Request[Any, Any, Any]) -> Principal:
    name, _, pattern = request.headers["authorization"].partition("/")
    return Principal(id=name, name=name, kind="token", role=Role.ADMIN, states=(pattern or "*",))


def _problem(_: object, error: Any) -> Response[bytes]:
    denial = denial_from(error)
    return Response(denial.body(), status_code=denial.status, media_type=MEDIA_TYPE)


class AuditLog(ServerAudit):
    """What the server records."""

    def __init__(self) -> None:
        self.entries: list[tuple[Any, ...]] = []

    def record(
        self, tenant: str, principal: Principal, entry: Entry, *, address: str, connection: object = None
    ) -> None:
        assert connection is None
        assert tenant == "default"
        assert address
        self.entries.append((principal.name, entry.what, entry.stack, entry.reason, *entry.details.values()))


@pytest.fixture
def rows(postgres: MadePostgres) -> Iterator[StateRows]:
    with postgres.new_database() as address, Database.open(address) as database:
        yield StateRows(database, StateCipher([KEY]))


@pytest.fixture
def log() -> AuditLog:
    return AuditLog()


@pytest.fixture
def api(rows: StateRows, log: AuditLog) -> Iterator[TestClient[Litestar]]:
    app = Litestar(
        [states_router()],
        dependencies={
            "rows": Provide(lambda: rows, sync_to_thread=False),
            "principal": Provide(_principal, sync_to_thread=False),
            "audit": Provide(lambda: log, sync_to_thread=False),
        },
        exception_handlers={HoldfastError: _problem, StateRefusal: _problem},
    )
    with TestClient(app, base_url="http://127.0.0.1/api/v1/states") as client:
        client.headers["authorization"] = "root"
        yield client


def test_the_life_of_a_state(api: TestClient[Litestar], rows: StateRows, log: AuditLog) -> None:
    id_, *_ = [write_state(rows, state(serial)) for serial in (1, 2, 3)]
    (found,) = api.get("/", params={"name": NET.name}).json()["states"]
    assert (found["id"], found["version"], found["serial"]) == (id_, 3, 3)
    first = api.get(f"/{id_}/versions", params={"limit": 2}).json()
    rest = api.get(f"/{id_}/versions", params={"limit": 2, "cursor": first["next"]}).json()
    assert [row["number"] for row in first["versions"] + rest["versions"]] == [3, 2, 1]
    assert rest["next"] is None
    assert api.get(f"/{id_}/versions/2").json()["serial"] == 2
    assert api.get(f"/{id_}/versions/2/content").content == state(2)
    difference = api.get(f"/{id_}/diff", params={"from": 1, "to": 3}).json()
    assert [row["address"] for row in difference["resources"]] == ["terraform_data.a"]
    assert api.get(f"/{id_}/versions/3/secrets").json()["secrets"] == []

    rolled_back = api.post(f"/{id_}/rollback", json={"version": 1, "reason": "a mistake"})
    assert (rolled_back.status_code, rolled_back.json()["serial"]) == (200, 4)
    assert api.post(f"/{id_}/versions/1/pin", json={"reason": "keep"}).json()["pinned"] == "keep"
    pinned = api.post(f"/{id_}/versions/1/purge", json={"reason": "leak"})
    assert (pinned.status_code, pinned.json()["code"]) == (409, "HF-STATE-66")
    assert api.post(f"/{id_}/versions/2/purge", json={"reason": "leak"}).json()["purged"] == "root: leak"
    assert api.post(f"/{id_}/versions/4/purge", json={"reason": "leak"}).status_code == 409

    rows.lock(NET, lock_request(lock_info("one"), CALLER))
    lock = api.get(f"/{id_}/lock").json()
    assert (lock["holder"], lock["kind"], lock["expired"]) == ("me", "terraform", False)
    assert api.post(f"/{id_}/rollback", json={"version": 1, "reason": "again"}).status_code == 423
    assert api.post(f"/{id_}/unlock", json={"reason": "it was killed"}).json()["holder"] is None
    assert api.post(f"/{id_}/settings", json={"unlocked_writes": True}).json()["unlocked_writes"] is True
    with rows.database.transaction() as connection:
        events = connection.execute("select who, what, reason from state_events order by number").fetchall()
    assert events == [
        ("root", "download version 2", None),
        ("root", "rollback to version 1", "a mistake"),
        ("root", "pin version 1", "keep"),
        ("root", "purge version 2", "leak"),
        ("root", "force-unlock", "lock one of me: it was killed"),
        ("root", "allow unlocked writes", None),
    ]
    assert log.entries == [
        ("root", "pull", NET.name, None, 2),
        ("root", "rollback", NET.name, "a mistake", 1, 4, 4),
        ("root", "pin", NET.name, "keep", 1, "yes"),
        ("root", "purge", NET.name, "leak", 2),
        ("root", "unlock", NET.name, "it was killed", "one", "me", None),
        ("root", "unlocked-writes", NET.name, None, "yes"),
    ]


def test_the_lock_of_a_live_run_is_not_released(
    api: TestClient[Litestar], rows: StateRows, log: AuditLog
) -> None:
    """It would go on changing resources and could not save its state."""
    id_ = write_state(rows, state(1))
    rows.lock(NET, run_lease("R1", "R1", who="ada", created="", version="1"))
    refused = api.post(f"/{id_}/unlock", json={"reason": "I am in a hurry"})
    assert (refused.status_code, refused.json()["code"]) == (409, "HF-STATE-65")
    assert "alive: its last heartbeat" in refused.json()["message"]
    admin = Caller(who="root", admin=True)
    with pytest.raises(StateRefusal, match="alive"):
        rows.force_unlock(NET, admin)
    with pytest.raises(StateRefusal, match="alive"):
        rows.unlock(NET, "R1", admin)
    assert log.entries == []
    with rows.database.transaction() as connection:
        connection.execute("update state_locks set expires = now()")
    assert api.post(f"/{id_}/unlock", json={"reason": "its machine is gone"}).json()["holder"] is None
    assert log.entries == [("root", "unlock", NET.name, "its machine is gone", "R1", "ada", "R1")]


def test_what_is_not_there_is_a_404_and_what_is_wrong_a_400(
    api: TestClient[Litestar], rows: StateRows
) -> None:
    id_ = write_state(rows, state(1))
    for path in (f"/{id_}/versions/9", f"/{id_}x/versions/1", f"/{id_}/diff?from=1&to=9"):
        answer = api.get(path)
        assert (answer.status_code, answer.json()["code"]) == (404, "HF-STATE-51")
    hidden = {"authorization": "root/other*"}
    assert api.get("/", headers=hidden).json()["states"] == []
    assert api.get(f"/{id_}/versions/1", headers=hidden).status_code == 404
    for body in ({}, {"version": 1}, {"version": 1, "reason": ""}, {"version": 1, "reason": "x", "more": 1}):
        assert api.post(f"/{id_}/rollback", json=body).status_code == 400


def test_every_route_names_its_permission() -> None:
    for route in ROUTES:
        assert isinstance(route.opt["permission"], Permission)
