"""What a token with limits cannot do: act as another person, or reach what its patterns leave out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from server_made import MadeServer, made_server

from holdfast.database.database import Database
from holdfast.identity.roles import Role

TOKENS = "/api/v1/tokens"
DEV: dict[str, Any] = {"stacks": ("dev/*",), "states": ("dev/*",)}


@pytest.fixture
def server(database: Database) -> Iterator[MadeServer]:
    with made_server(database) as server:
        yield server


def id_of(token: str) -> str:
    return token.split("_")[1]


def test_a_limited_admin_sees_and_revokes_only_what_it_covers(server: MadeServer) -> None:
    limited, alice = server.token(Role.ADMIN, name="dev", **DEV), server.token(Role.OPERATOR, name="alice")
    own = server.send("POST", TOKENS, {"role": "viewer", **DEV}, token=limited).document
    listed = {row["id"] for row in server.send("GET", TOKENS, token=limited).document["tokens"]}
    assert listed == {own["id"], id_of(limited)}
    assert server.send("DELETE", f"{TOKENS}/{id_of(alice)}", token=limited).status == 404
    assert server.send("GET", f"{TOKENS}/current", token=alice).status == 200
    assert server.send("DELETE", f"{TOKENS}/{own['id']}", token=limited).status == 204


def test_a_name_belongs_to_one_person(server: MadeServer) -> None:
    limited = server.token(Role.ADMIN, name="dev", **DEV)
    server.token(Role.OPERATOR, name="alice")

    def create(token: str, name: str) -> int:
        return server.send("POST", TOKENS, {"role": "approver", "name": name, **DEV}, token=token).status

    assert create(limited, "alice") == create(limited, "Alice") == 409
    assert create(limited, "bob") == create(limited, "bob") == 201
    assert create(server.admin, "alice") == 201
    assert create(server.admin, "ALICE") == 409
    assert create(server.token(Role.ADMIN, tenant="other"), "alice") == 201


def test_tokens_without_a_name_are_not_one_person(server: MadeServer) -> None:
    def subject(role: Role, **given: str) -> str:
        token = server.token(role, **given)
        return str(server.send("GET", "/api/v1/store", token=token).document["who"]["subject"])

    assert subject(Role.OPERATOR) != subject(Role.OPERATOR)
    assert subject(Role.OPERATOR, name="ada") == subject(Role.APPROVER, name="ada") == "name:ada"
