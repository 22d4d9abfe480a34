"""What every request of the API gets: problem documents, limits, headers, a line in the log."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from postgres_made import MadePostgres
from server_made import MadeServer, made_server

from holdfast.database.database import Database
from holdfast.identity.roles import Role

TOKENS = "/api/v1/tokens"


@pytest.fixture(scope="module")
def server(postgres: MadePostgres) -> Iterator[MadeServer]:
    """One for the tests that leave nothing behind."""
    with (
        postgres.new_database() as address,
        Database.open(address) as database,
        made_server(database) as server,
    ):
        yield server


@pytest.fixture
def own_server(database: Database) -> Iterator[MadeServer]:
    with made_server(database) as server:
        yield server


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "HF-SRV-11"),
        ("GET", "/openapi.json/below", 404, "HF-SRV-11"),
        ("GET", "/statement", 404, "HF-SRV-11"),
        ("PUT", "/healthz", 405, "HF-SRV-12"),
        ("BREW", "/healthz", 405, "HF-SRV-12"),
        ("OPTIONS", TOKENS, 405, "HF-SRV-12"),
        ("DELETE", f"{TOKENS}/nothing", 404, "HF-TOK-5"),
        ("POST", TOKENS, 415, "HF-SRV-15"),
    ],
)
def test_a_failure_is_a_problem_document(
    server: MadeServer, method: str, path: str, status: int, code: str
) -> None:
    answer = server.send(method, path)
    assert (answer.status, answer.problem["code"]) == (status, code)
    assert status != 405 or answer.headers["allow"]


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({"role": "king"}, "/role"),
        ({}, "/role"),
        ({"role": "run"}, "/role"),
        ({"role": "viewer", "a/b": 1}, "/a~1b"),
        ({"role": "viewer", "stacks": ["dev/*", 1]}, "/stacks/1"),
        ({"role": "viewer", "expires": "yesterday"}, "/expires"),
        ({"role": "viewer", "expires": "2001-01-01T00:00:00Z"}, "/expires"),
        ([], ""),
    ],
)
def test_a_wrong_field_is_named_by_its_pointer(server: MadeServer, document: Any, pointer: str) -> None:
    answer = server.send("POST", TOKENS, document)
    assert answer.status == 422
    assert [error["path"] for error in answer.problem["errors"]] == [pointer]
    assert answer.problem["message"].startswith("the request is not valid: ")


def test_a_missing_field_is_named_in_the_message(server: MadeServer) -> None:
    """A CI job shows often only that."""
    problem = server.send("POST", f"{TOKENS}/exchange", {"jwt": "x"}).problem
    assert problem["message"] == "the request is not valid: there is no field `jwt`; `token` is missing"
    problem = server.send("POST", f"{TOKENS}/exchange", {}).problem
    assert problem["message"] == "the request is not valid: `token` is missing"
    assert "/openapi.json" in problem["hint"]


def test_bodies_are_checked_before_they_are_read(server: MadeServer) -> None:
    json_body = {"content-type": "application/json"}
    assert server.send("POST", TOKENS, body=b"{", headers=json_body).status == 400
    assert server.send("POST", TOKENS, body=b"{}", headers={"content-type": "text/plain"}).status == 415
    too_large = server.send("POST", TOKENS, body=b" " * 5_000_000, headers=json_body)
    assert (too_large.status, too_large.problem["code"]) == (413, "HF-SRV-14")
    assert server.send("GET", f"{TOKENS}?limit=201").problem["errors"][0]["path"] == "/limit"


def test_text_that_the_database_cannot_store_is_malformed(server: MadeServer) -> None:
    assert server.send("GET", "/api/v1/states?name=a%00b").status == 400
    assert server.send("GET", "/state/a%00b").status == 400
    assert server.send("DELETE", f"{TOKENS}/a%00").status == 400
    assert server.send("POST", "/api/v1/states/none/unlock", {"reason": "a\0b"}).status == 400


def test_health_readiness_metrics_and_the_description(server: MadeServer) -> None:
    assert server.send("GET", "/healthz", token=None).document["status"] == "ok"
    assert server.send("GET", "/readyz", token=None).document["status"] == "ready"
    description = server.send("GET", "/openapi.json", token=None).document
    assert {"/api/v1/tokens", "/api/v1/states"} <= set(description["paths"])
    assert server.send("GET", "/metrics", token=None).status == 401
    server.send("GET", "/state/prod/network")
    metrics = server.send("GET", "/metrics").body.decode()
    assert 'path="/state",status_code="404"' in metrics
    assert "prod" not in metrics


def test_a_database_that_does_not_answer_is_a_503_without_its_address(
    own_server: MadeServer, database: Database
) -> None:
    database.close()
    for path in ("/readyz", TOKENS, "/state/a"):
        answer = own_server.send("GET", path)
        assert (answer.status, answer.problem["code"]) == (503, "HF-DB-1")
        assert answer.headers["retry-after"] == "2"
        assert "postgres" not in answer.body.decode().replace("`holdfast db status`", "")
    assert own_server.send("GET", "/healthz").status == 200


def test_another_schema_is_reported_as_not_ready(own_server: MadeServer, database: Database) -> None:
    with database.transaction() as connection:
        connection.execute("insert into schema_migrations values (9999, 'later', '', '9.9')")
    answer = own_server.send("GET", "/readyz")
    assert (answer.status, answer.problem["code"]) == (503, "HF-DB-7")


def test_responses_have_security_headers_and_requests_have_ids(server: MadeServer) -> None:
    for path in ("/healthz", "/nowhere", "/state/a"):
        answer = server.send("GET", path, headers={"x-request-id": "job-17"})
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-request-id"] == "job-17"
    forged = server.send("GET", "/healthz", headers={"x-request-id": "a b"})
    assert forged.headers["x-request-id"] != "a b"


def test_the_log_names_the_token_by_its_id_only(own_server: MadeServer) -> None:
    token = own_server.token(Role.VIEWER, name="ada")
    own_server.send("GET", f"/api/v1/states?name={token}", token=token)
    own_server.send("GET", "/state/prod/network?ID=secret", token=token, basic=True)
    while len(own_server.log.lines) < 2:
        pass  # A line follows the response.
    text = json.dumps(own_server.log.lines)
    assert token not in text
    assert "secret" not in text
    paths = {(line["path"], line["who"], line["token"]) for line in own_server.log.lines}
    assert paths == {("/api/v1/states", "ada", token[3:19]), ("/state/prod/network", "ada", token[3:19])}


def _unfinished_request(server: MadeServer) -> bytes:
    fields = f"Host: a\r\nAuthorization: Bearer {server.admin}\r\nContent-Type: application/json\r\n"
    return f"POST {TOKENS} HTTP/1.1\r\n{fields}Content-Length: 9\r\n\r\n{{".encode()


def test_a_body_that_does_not_arrive_ends_with_408(database: Database) -> None:
    with (
        made_server(database, limits={"request_time": 0.2}) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection,
    ):
        connection.sendall(_unfinished_request(server))
        assert b"408" in connection.recv(100)


def test_more_requests_than_the_limit_get_503(database: Database) -> None:
    with (
        made_server(database, limits={"requests": 1}) as server,
        socket.create_connection(("127.0.0.1", server.port)) as waiting,
    ):
        waiting.sendall(_unfinished_request(server))
        while server.send("GET", TOKENS).status != 503:
            pass
        answer = server.send("GET", TOKENS)
        assert (answer.problem["code"], answer.headers["retry-after"]) == ("HF-SRV-18", "1")
        assert server.send("GET", "/readyz").status == 200


def test_through_a_proxy_only_https_is_served(database: Database) -> None:
    """The test's own address is local, so the client's comes from the proxy's header."""
    with made_server(database, https_only=True, trusted_proxies=("127.0.0.1",)) as server:
        forwarded = {"x-forwarded-for": "203.0.113.9", "x-forwarded-proto": "http"}
        answer = server.send("GET", TOKENS, headers=forwarded)
        assert (answer.status, answer.problem["code"]) == (403, "HF-SRV-19")
        assert server.send("GET", "/readyz", headers=forwarded).status == 200
        secure = server.send("GET", TOKENS, headers={**forwarded, "x-forwarded-proto": "https"})
        assert secure.status == 200
        assert "strict-transport-security" in secure.headers
        assert server.log.lines[0]["client"] == "203.0.113.9"


def test_a_page_of_another_site_sends_nothing(server: MadeServer) -> None:
    """A browser adds what it knows about a person to any request; without a type it needs no permission."""
    assert server.send("POST", TOKENS, body=b'{"role":"admin"}').status == 415
    foreign = server.send("POST", TOKENS, {"role": "viewer"}, headers={"sec-fetch-site": "cross-site"})
    assert (foreign.status, foreign.problem["code"]) == (403, "HF-SRV-22")
    assert server.send("GET", TOKENS, headers={"sec-fetch-site": "cross-site"}).status == 200
    assert (
        server.send("POST", TOKENS, {"role": "viewer"}, headers={"sec-fetch-site": "same-origin"}).status
        == 201
    )


def test_a_request_has_one_length(server: MadeServer) -> None:
    """Otherwise the rest would be a second request, which a proxy did not see."""
    smuggled = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    head = b"POST /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n"
    body = b"0\r\n\r\n" + smuggled
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(head % len(body) + body)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1
