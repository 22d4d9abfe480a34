"""Other requests are served while clients do not finish theirs, and while the database hangs."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from program import eventually
from server_made import MadeServer, made_server

from holdfast.database.database import Database

LIMITS = {"header_time": 0.3, "idle_time": 0.3, "request_time": 60.0}


@pytest.fixture
def server(database: Database) -> Iterator[MadeServer]:
    with made_server(database, limits=LIMITS) as server:
        yield server


def _connect(server: MadeServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=20)


def _dribble(connection: socket.socket, text: bytes) -> bytes:
    """One byte after the other, always in time for itself; what the server answers until it hangs up."""
    answer = b""
    connection.settimeout(0.05)
    for _ in range(400):
        try:
            connection.send(text)
            part = connection.recv(4096)
        except TimeoutError:
            continue
        except OSError:
            break
        if not part:
            break
        answer += part
    else:
        pytest.fail("the server still listens")
    return answer


@pytest.mark.parametrize(
    "head", [b"", b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-a: "], ids=["nothing", "headers"]
)
def test_headers_that_do_not_arrive_end_the_connection(server: MadeServer, head: bytes) -> None:
    with _connect(server) as connection:
        connection.sendall(head)
        assert connection.recv(100) == b""
    with _connect(server) as connection:
        connection.sendall(head)
        assert _dribble(connection, b"a") == b""


def test_the_limit_holds_for_each_request_of_a_connection(server: MadeServer) -> None:
    request = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
    with _connect(server) as connection:
        for _ in range(3):
            connection.sendall(request)
            answer = connection.recv(4096)
            while b'"ok"}' not in answer:
                answer += connection.recv(4096)
            assert answer.startswith(b"HTTP/1.1 200")
        connection.sendall(request[:20])
        assert _dribble(connection, b"a") == b""


def test_a_body_after_its_answer_does_not_keep_the_connection(server: MadeServer) -> None:
    """Without a token the answer comes first; the rest of the body is not waited for."""
    head = b"POST /state/net HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n"
    with _connect(server) as connection:
        connection.sendall(head)
        assert _dribble(connection, b"a").startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize(
    ("request_line", "code"),
    [(b"POST /state/net", b"HF-STATE-54"), (b"PUT /api/v1/store/blobs/hooks/a", b"HF-SRV-13")],
    ids=["state", "api"],
)
def test_a_body_that_pauses_ends_with_408(server: MadeServer, request_line: bytes, code: bytes) -> None:
    """Long before its time limit."""
    token = server.admin.encode()
    fields = b"authorization: Bearer " + token + b"\r\nhost: x\r\ncontent-length: 100\r\n\r\n{"
    with _connect(server) as connection:
        connection.sendall(request_line + b" HTTP/1.1\r\n" + fields)
        answer = b""
        while code not in answer:
            answer += (part := connection.recv(4096))
            assert part, answer
    assert answer.startswith(b"HTTP/1.1 408")
    assert code in answer


def test_a_slow_database_does_not_keep_others_waiting(server: MadeServer, database: Database) -> None:
    """More requests than threads wait for their tokens to be checked, and /healthz is served meanwhile."""
    with ThreadPoolExecutor(40) as pool:
        with database.transaction() as connection:
            connection.execute("lock table tokens in access exclusive mode")
            waiting = [pool.submit(server.send, "GET", "/api/v1/tokens/current") for _ in range(20)]
            waiting += [pool.submit(server.send, "GET", "/state/net") for _ in range(20)]
            query = "select count(*) from pg_locks where not granted"
            eventually(lambda: connection.execute(query).fetchone() != (0,), what="a request that waits")
            for _ in range(5):
                assert server.send("GET", "/healthz", token=None).status == 200
            assert not any(request.done() for request in waiting)
        assert {request.result().status for request in waiting} == {200, 404}
