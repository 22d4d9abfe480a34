"""Tokens over HTTP: who gets in, what they may create, and what is recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from server_made import MadeServer, made_server

from holdfast.audit.reader import all_lines, verify
from holdfast.database.database import Database
from holdfast.identity.roles import Role
from holdfast.server.audit_log import TenantStores
from holdfast.store.server_states.changes import StateKey
from holdfast.store.server_states.cipher import StateCipher
from holdfast.store.server_states.locks import Caller, run_lease
from holdfast.store.server_states.rows import StateRows

TOKENS = "/api/v1/tokens"
CURRENT = f"{TOKENS}/current"


@pytest.fixture
def server(database: Database) -> Iterator[MadeServer]:
    with made_server(database, limits={"failed_logins": 4}) as server:
        yield server


def audit_lines(server: MadeServer, tenant: str) -> list[dict[str, Any]]:
    store = TenantStores(server.database, server.parts.key).of(tenant)
    assert store.empty or verify(store).whole
    return [] if store.empty else [json.loads(line) for line in all_lines(store)]


def test_the_life_of_a_token(server: MadeServer) -> None:
    wanted = {"role": "operator", "name": "ada", "tenant": "acme", "states": ["dev/*"], "expires": "90d"}
    created = server.send("POST", TOKENS, wanted)
    document = created.document
    assert created.status == 201
    assert created.headers["location"] == f"{TOKENS}/{document['id']}"
    assert created.headers["cache-control"] == "no-store"
    token = document["token"]
    for basic in (False, True):
        current = server.send("GET", CURRENT, token=token, basic=basic).document
        assert (current["name"], current["tenant"], current["states"]) == ("ada", "acme", ["dev/*"])
    (listed,) = [row for row in server.send("GET", TOKENS).document["tokens"] if row["id"] == document["id"]]
    assert "token" not in listed
    assert listed["last_used"] is not None
    assert server.send("DELETE", f"{TOKENS}/{document['id']}").status == 204
    assert server.send("DELETE", f"{TOKENS}/{document['id']}").status == 204
    assert server.send("GET", CURRENT, token=token).status == 401

    first, *_, last = audit_lines(server, "acme")
    assert (first["what"], last["what"]) == ("token-create", "token-revoke")
    assert first["who"]["verified"] is True
    assert first["who"]["name"] == "root"
    assert first["details"]["id"] == document["id"]
    assert token not in str(audit_lines(server, "acme"))
    assert audit_lines(server, "default") == []


def test_the_audit_log_of_a_tenant_has_pages(server: MadeServer) -> None:
    for tenant in ("acme", "acme", "other", "acme"):
        server.send("POST", TOKENS, {"role": "viewer", "tenant": tenant})
    auditor = server.token(Role.APPROVER, tenant="acme")

    def page(query: str, token: str = auditor) -> tuple[list[int], str | None]:
        document = server.send("GET", f"/api/v1/audit?{query}", token=token).document
        return [entry["seq"] for entry in document["entries"]], document["next"]

    assert page("limit=2") == ([3, 2], "2")
    assert page("limit=2&cursor=2") == ([1], None)
    assert page("limit=3") == ([3, 2, 1], None)
    assert page("tenant=other") == page("tenant=none") == ([], None)
    assert page("tenant=other", server.admin) == ([1], None)
    assert page("") == ([3, 2, 1], None)


def test_lists_have_pages(server: MadeServer) -> None:
    created = {server.send("POST", TOKENS, {"role": "viewer"}).document["id"] for _ in range(4)}
    listed, cursor = list[str](), ""
    while True:
        page = server.send("GET", f"{TOKENS}?limit=2&cursor={cursor}").document
        assert len(page["tokens"]) <= 2
        listed += [token["id"] for token in page["tokens"]]
        if page["next"] is None:
            break
        cursor = page["next"]
    assert len(listed) == len(set(listed)) == 5
    assert created <= set(listed)


def test_no_token_permits_more_than_the_one_that_creates_it(server: MadeServer) -> None:
    narrow = server.token(Role.ADMIN, tenant="acme", stacks=("dev/*",), states=("dev/*",))

    def create(**wanted: object) -> int:
        document = {"role": "viewer", "stacks": ["dev/*"], "states": ["dev/a"], **wanted}
        return server.send("POST", TOKENS, document, token=narrow).status

    assert create() == 201
    assert create(tenant="other") == 403
    assert create(states=["*"]) == 403
    assert create(stacks=["prod/*"]) == 403


def test_wrong_unknown_expired_and_revoked_tokens_get_the_same_answer(server: MadeServer) -> None:
    """An answer says nothing about which tokens exist."""
    token = server.token(Role.VIEWER)
    gone = server.send("POST", TOKENS, {"role": "viewer"}).document
    server.send("DELETE", f"{TOKENS}/{gone['id']}")
    wrong_secret = token[:-4] + ("AAAA" if token[-4:] != "AAAA" else "BBBB")
    unknown = f"hf_{'a' * 16}_{'b' * 43}"
    answers = [server.send("GET", CURRENT, token=text) for text in (wrong_secret, unknown, gone["token"])]
    assert {answer.status for answer in answers} == {401}
    assert len({answer.body for answer in answers}) == 1
    assert "Bearer" in answers[0].headers["www-authenticate"]


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic %%%", "Basic bm9uZQ==", "Digest x", "Bearer é"]
)
def test_anything_else_in_the_header_is_401(server: MadeServer, header: str) -> None:
    encoded = header.encode("utf-8").decode("latin-1")
    for path in (CURRENT, "/state/a"):
        assert server.send("GET", path, token=None, headers={"authorization": encoded}).status == 401


def test_wrong_tokens_are_limited_without_keeping_others_out(server: MadeServer) -> None:
    victim = server.token(Role.VIEWER)
    guess = victim[:-43] + "x" * 43
    statuses = [server.send("GET", CURRENT, token=guess).status for _ in range(6)]
    assert statuses == [401, 401, 401, 429, 429, 429]
    limited = server.send("GET", CURRENT, token=guess)
    assert limited.problem["code"] == "HF-TOK-3"
    assert 1 <= int(limited.headers["retry-after"]) <= 60
    # Another unknown token from the same address is limited, but a right one is not.
    assert server.send("GET", CURRENT, token=f"hf_{'a' * 16}_{'b' * 43}").status == 429
    assert server.send("GET", CURRENT).status == 200
    assert server.send("GET", CURRENT, token=victim).status == 200
    assert server.send("GET", "/state/a", token=victim).status == 403
    assert server.send("GET", "/state/a").status == 404
    assert server.send("GET", "/state/a", token=guess).status == 429


def test_a_guess_from_elsewhere_does_not_keep_the_owner_out(database: Database) -> None:
    with made_server(database, limits={"failed_logins": 3}, trusted_proxies=("127.0.0.1",)) as server:
        victim = server.token(Role.VIEWER)
        attacker = {"x-forwarded-for": "203.0.113.9"}
        for _ in range(9):
            server.send("GET", CURRENT, token=victim[:-43] + "x" * 43, headers=attacker)
        assert (
            server.send("GET", CURRENT, token=victim, headers={"x-forwarded-for": "198.51.100.7"}).status
            == 200
        )


def test_a_run_gets_a_token_for_its_state_until_its_lease_ends(server: MadeServer) -> None:
    rows = StateRows(server.database, StateCipher([server.parts.key]))
    key, ci = StateKey("default", "prod/net[1]"), server.token(Role.CI, name="ci")
    wanted = {"run": "run-1", "state": key.name, "reads": ["prod/dns"]}

    refused = server.send("POST", f"{TOKENS}/run", wanted, token=ci)
    assert (refused.status, refused.problem["code"]) == (409, "HF-TOK-6")
    lease = run_lease("run-1", "lock-1", who="ci", created="2026-01-01T00:00:00Z", version="1")
    rows.lock(key, lease)
    narrow = server.token(Role.CI, name="ci", states=("prod/net*",))
    assert server.send("POST", f"{TOKENS}/run", wanted, token=narrow).status == 403
    other = server.token(Role.CI, name="another")
    assert server.send("POST", f"{TOKENS}/run", wanted, token=other).status == 409

    token = server.send("POST", f"{TOKENS}/run", wanted, token=ci).document["token"]

    def status(method: str, name: str) -> int:
        return server.send(method, f"/state/{name}", token=token).status

    assert status("GET", "prod/net%5B1%5D") == status("GET", "prod/dns") == 404  # Allowed, and empty.
    assert status("GET", "prod/net1") == 403
    assert status("DELETE", "prod/dns") == 403
    assert server.send("POST", f"{TOKENS}/run", wanted, token=token).status == 403
    assert server.send("GET", TOKENS, token=token).status == 403
    assert token[3:19] not in server.send("GET", TOKENS).body.decode()

    rows.unlock(key, "lock-1", Caller(who="ci"))
    assert status("GET", "prod/dns") == 401
    rows.lock(key, lease)  # The same run again: another lease.
    assert status("GET", "prod/dns") == 401
