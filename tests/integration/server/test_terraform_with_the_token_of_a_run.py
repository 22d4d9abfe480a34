"""A run gives its token to plain Terraform: that locks, writes and unlocks within the lease of the run, and
neither its lock nor the token outlives the lease.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from server_made import Answer, MadeServer, made_server
from state_backend_client import STATE, Client, new_client
from state_backend_made import StateBackend, lock_info, state

from holdfast.database.database import Database
from holdfast.identity.roles import Role
from holdfast.store.server_states.cipher import StateCipher
from holdfast.store.server_states.locks import Caller, run_lease
from holdfast.store.server_states.rows import StateRows

LEASE = run_lease("run-1", "run-1", who="ci", created="2026-01-01T00:00:00Z", version="1")
NEXT = run_lease("run-2", "run-2", who="ci", created="2026-01-01T00:00:00Z", version="1")


class World(NamedTuple):
    server: MadeServer
    rows: StateRows
    ci: str
    """An ordinary token of the same CI system."""

    def token(self, run: str = "run-1") -> str:
        wanted = {"run": run, "state": "net", "reads": ["dns"]}
        answer = self.server.send("POST", "/api/v1/tokens/run", wanted, token=self.ci)
        assert answer.status == 201, answer
        return str(answer.document["token"])

    def send(self, method: str, token: str, body: bytes = b"", query: str = "", name: str = "net") -> Answer:
        md5 = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        fields = {"content-md5": md5} if body else {}
        return self.server.send(method, f"/state/{name}{query}", body=body, token=token, headers=fields)

    def client(self, program: Path, folder: Path, token: str) -> Client:
        made = new_client(program, folder, StateBackend(self.rows, self.server.port, []))
        return made._replace(environment=made.environment | {"TF_HTTP_PASSWORD": token})

    def nested(self) -> str | None:
        row, _ = self.rows.look(STATE)
        assert row is not None
        assert row.lock is not None
        return row.lock.nested


@pytest.fixture
def world(database: Database) -> Iterator[World]:
    with made_server(database) as server:
        rows = StateRows(server.database, StateCipher([server.parts.key]))
        rows.lock(STATE, LEASE)
        yield World(server, rows, server.token(Role.CI, name="ci"))


def test_plain_terraform_works_within_the_lease(world: World, terraform_folder: Path, tmp_path: Path) -> None:
    client = world.client(terraform_folder / "terraform", tmp_path / "client", world.token())
    client.run("init", "-input=false")
    client.run("apply", "-input=false", "-auto-approve")
    assert json.loads(client.run("state", "pull"))["outputs"]["value"]["value"] == "first"
    assert world.nested() is None  # Terraform released its own lock, and the run kept its lease.

    # A second Terraform of the same run waits for the first, like any other.
    assert world.send("LOCK", world.token(), lock_info("first")).status == 200
    refused = client.run("apply", "-auto-approve", "-var=value=second", fails=True)
    assert "first" in refused
    assert world.send("UNLOCK", world.token(), lock_info("first")).status == 200
    client.run("apply", "-auto-approve", "-var=value=second")

    world.rows.unlock(STATE, "run-1", Caller(who="ci"))
    assert "requires auth" in client.run("apply", "-auto-approve", fails=True)


def test_the_lock_and_the_token_end_with_the_lease(world: World) -> None:
    token = world.token()
    assert world.send("LOCK", token, lock_info("inner")).status == 200
    assert world.send("LOCK", token, lock_info("inner")).status == 200
    assert world.send("POST", token, state(1), "?ID=inner").status == 200
    row, _ = world.rows.look(STATE)
    assert row is not None
    assert row.lock is not None
    assert (row.lock.run, row.lock.nested, row.lock.kind) == ("run-1", "inner", "run")

    # Ended while Terraform holds its lock: the next run does not wait for it.
    world.rows.unlock(STATE, "run-1", Caller(who="ci"))
    for method, body in (("GET", b""), ("LOCK", lock_info("inner")), ("POST", state(2))):
        assert world.send(method, token, body, "?ID=inner").status == 401
    assert world.send("UNLOCK", token, lock_info("inner")).status == 401
    assert world.send("GET", token, name="dns").status == 401
    world.rows.lock(STATE, NEXT)
    following = world.token("run-2")
    assert world.send("GET", token).status == 401
    assert world.send("LOCK", following, lock_info("inner-2")).status == 200
    assert world.send("POST", following, state(2), "?ID=inner-2").status == 200
    assert json.loads(world.send("GET", following).body)["serial"] == 2


def test_another_state_is_refused(world: World) -> None:
    token = world.token()
    assert world.send("GET", token, name="dns").status == 404  # Declared, and empty.
    for method, body in (("LOCK", lock_info("x")), ("POST", state(1)), ("UNLOCK", b""), ("DELETE", b"")):
        assert world.send(method, token, body, name="dns").status == 403
    for method in ("GET", "LOCK"):
        assert world.send(method, token, lock_info("x") * (method == "LOCK"), name="other").status == 403


def test_two_holders_never_both_write(world: World) -> None:
    token = world.token()
    world.send("LOCK", token, lock_info("inner"))
    # Neither another client, also with the id that its refusal names, nor the run by itself.
    other = world.send("LOCK", world.ci, lock_info("another"))
    assert (other.status, other.document["ID"]) == (423, "run-1")
    for query in ("?ID=another", "?ID=run-1", ""):
        assert world.send("POST", world.ci, state(1), query).status == 423
        assert world.send("POST", token, state(1), query).status == 423
    assert world.send("LOCK", token, lock_info("inner-2")).document["ID"] == "inner"
    head = {"version": 1, "run": "run-1", "why": "apply"}
    blob = json.dumps(head).encode() + b"\n" + state(1)
    create = {"if-none-match": "*"}
    path = "/api/v1/store/blobs/states/net/0000000001"
    assert world.server.send("PUT", path, body=blob, token=token, headers=create).status == 423
    # The token releases its own lock only.
    assert world.send("UNLOCK", token, lock_info("run-1")).status == 409
    assert world.send("UNLOCK", token).status == 403
    assert world.send("POST", token, state(1), "?ID=inner").status == 200
    assert world.send("UNLOCK", token, lock_info("inner")).status == 200
    assert world.send("UNLOCK", token, lock_info("inner")).status == 200
    assert world.send("POST", token, state(2), "?ID=inner").status == 423
