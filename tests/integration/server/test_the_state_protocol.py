"""The state backend over HTTP, as Terraform and OpenTofu use it, and as nobody should."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from postgres_made import MadePostgres
from program import eventually
from state_backend_made import StateBackend, envelope, lock_info, state, state_backend

from holdfast.database.database import Database
from holdfast.database.programs import programs
from holdfast.server.state_protocol import StateLimits
from holdfast.store.server_states.changes import Author, StateKey
from holdfast.store.server_states.cipher import VersionPlace
from holdfast.store.server_states.locks import Caller, StateRefusal, run_lease
from holdfast.store.server_states.rules import read_new_state


@pytest.fixture(scope="module")
def shared(postgres: MadePostgres) -> Iterator[StateBackend]:
    limits = StateLimits(body=1 << 20, seconds=0.5)
    with (
        postgres.new_database() as address,
        Database.open(address, size=20) as database,
        state_backend(database, limits) as backend,
    ):
        yield backend


@pytest.fixture
def backend(shared: StateBackend) -> Iterator[StateBackend]:
    """Without any state."""
    with shared.rows.database.transaction() as connection:
        connection.execute("truncate states cascade")
    yield shared
    assert shared.faults == []


def test_a_state_is_locked_written_read_and_unlocked(backend: StateBackend) -> None:
    name = "network/prod%20eu"
    assert backend.send("GET", name).status == 404
    lock = backend.lock(name, "one")
    assert (lock.status, lock.body) == (200, b"")
    assert backend.lock(name, "one").status == 200  # Terraform repeats it after a lost response.
    written = backend.send("POST", f"{name}?ID=one", state(1))
    assert (written.status, written.body) == (200, b"")
    assert backend.send("POST", f"{name}?ID=one", state(1)).status == 200
    read = backend.send("GET", "network%2Fprod%20eu")
    assert (read.status, read.body) == (200, state(1))
    assert (
        base64.b64decode(read.headers["content-md5"]) == hashlib.md5(state(1), usedforsecurity=False).digest()
    )
    head = backend.send("HEAD", name)
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", str(len(state(1))))
    assert backend.unlock(name, "one").status == 200
    assert backend.unlock(name, "one").status == 200
    assert backend.unlock(name, "two").problem["code"] == "HF-STATE-47"


def test_a_lock_conflict_names_the_holder(backend: StateBackend) -> None:
    backend.lock("net", "one")
    for refused in (
        backend.lock("net", "two"),
        backend.send("POST", "net?ID=two", state(1)),
        backend.send("POST", "net", state(1)),
        backend.send("DELETE", "net"),
    ):
        assert (refused.status, refused.body) == (423, lock_info("one"))
        assert refused.headers["content-type"] == "application/json"
    assert backend.unlock("net", "two").status == 409
    backend.send("LOCK", "short", b'{"ID":"only"}')
    assert json.loads(backend.lock("short", "two").body).keys() == json.loads(lock_info("one")).keys()


def test_a_write_without_a_lock_says_what_to_set(backend: StateBackend) -> None:
    problem = backend.send("POST", "net", state(1)).problem
    assert (problem["status"], problem["code"]) == (409, "HF-STATE-43")
    assert "lock_address" in problem["hint"]
    backend.rows.allow_unlocked_writes(StateKey("default", "net"), Caller(who="root"), allowed=True)
    assert backend.send("POST", "net", state(1)).status == 200
    # A writer whose lock was taken away must notice.
    assert backend.send("POST", "net?ID=gone", state(2)).problem["code"] == "HF-STATE-43"


def test_force_unlock_is_for_admins_and_recorded(backend: StateBackend) -> None:
    """Terraform sends no id at all: the role decides."""
    backend.lock("net", "one")
    assert backend.send("UNLOCK", "net", b"").problem["code"] == "HF-STATE-46"
    assert backend.send("UNLOCK", "net", b"", token="admin").status == 200
    assert backend.send("POST", "net?ID=one", state(1)).status == 409
    assert backend.unlock("net", "one").status == 200
    with backend.rows.database.transaction() as connection:
        events = connection.execute("select who, what, reason from state_events").fetchall()
    assert events == [("admin", "force-unlock", "lock one of me")]


def test_only_a_successor_of_the_stored_state_is_accepted(backend: StateBackend) -> None:
    backend.lock("net", "one")
    assert backend.send("POST", "net?ID=one", state(4)).status == 200
    for wrong, code in (
        (state(5, lineage="other"), "HF-STATE-44"),
        (state(3), "HF-STATE-44"),
        (state(4, values={"a": "else"}), "HF-STATE-44"),
    ):
        answer = backend.send("POST", "net?ID=one", wrong)
        assert (answer.status, answer.problem["code"]) == (409, code)
    assert backend.send("POST", "net?ID=one", state(9)).status == 200
    assert backend.send("POST", "net?ID=one", envelope(10)).status == 200
    assert backend.send("GET", "net").body == envelope(10)


def test_deleting_keeps_the_versions(backend: StateBackend) -> None:
    backend.lock("net", "one")
    backend.send("POST", "net?ID=one", state(7))
    assert backend.send("DELETE", "net?ID=one").status == 200
    assert backend.send("DELETE", "net?ID=one").status == 200
    assert backend.send("GET", "net").status == 404
    # What follows is a later version, or another state if an admin deleted the first.
    assert backend.send("POST", "net?ID=one", state(8, lineage="new")).status == 409
    assert backend.send("POST", "net?ID=one", state(7)).status == 409
    assert backend.send("POST", "net?ID=one", state(8)).status == 200
    assert backend.unlock("net", "one").status == 200
    assert (backend.send("DELETE", "net").status, backend.send("GET", "net").status) == (409, 200)
    with backend.rows.database.transaction() as connection:
        serials = connection.execute("select serial from state_versions order by written").fetchall()
    assert [int(serial) for (serial,) in serials] == [7, 8]


def test_a_name_that_is_not_one_is_refused(backend: StateBackend) -> None:
    """Never a 404, which would mean "there is no state"."""
    for name in ("", "a/../b", "a/%2E%2E/b", "a%00b", "x" * 501):
        for method in ("GET", "LOCK", "POST"):
            answer = backend.send(method, name, lock_info("one"))
            assert (answer.status, answer.problem["code"]) == (400, "HF-STATE-40")


def test_a_name_is_decoded_once(backend: StateBackend) -> None:
    backend.lock("a%252Fb", "one")
    assert backend.send("LOCK", "a%252Fb", lock_info("two")).status == 423
    assert backend.lock("a%2Fb", "two").status == 200


def test_what_is_not_a_state_is_refused(backend: StateBackend) -> None:
    backend.lock("net", "one")
    address = "net?ID=one"
    missing = backend.send("POST", address, state(1), md5=False)
    wrong = backend.send("POST", address, state(1), headers={"content-md5": "AAAAAAAAAAAAAAAAAAAAAA=="})
    odd = backend.send("POST", address, state(1), headers={"content-md5": "é"})
    for answer in (missing, wrong, odd):
        assert (answer.status, answer.problem["code"]) == (400, "HF-STATE-41")
    for body in (
        b"{}",
        b"[]",
        b"",
        b"\xff",
        b'{"version":3,"serial":1,"lineage":"a"}',
        b'{"version":4,"serial":-1}',
        b'{"version":4,"serial":1,"lineage":"\\u0000"}',
    ):
        answer = backend.send("POST", address, body, headers={"content-md5": _md5(body)})
        assert (answer.status, answer.problem["code"]) == (400, "HF-STATE-42"), body
    for body in (b"{}", b"nothing", b'{"ID":""}', b'{"ID":"a\\u0000"}'):
        assert backend.send("LOCK", "net", body).problem["code"] == "HF-STATE-42"
    assert backend.send("UNLOCK", "net", b"{}").problem["code"] == "HF-STATE-42"
    assert backend.send("GET", "net").status == 404


def test_methods_tokens_and_permissions(backend: StateBackend) -> None:
    for method in ("PATCH", "OPTIONS", "PROPFIND"):
        refused = backend.send(method, "net")
        assert (refused.status, refused.headers["allow"]) == (
            405,
            "GET, HEAD, POST, PUT, LOCK, UNLOCK, DELETE",
        )
    for token in (None, "wrong"):
        answer = backend.send("GET", "net", token=token)
        assert (answer.status, answer.problem["code"]) == (401, "HF-TOK-1")
        assert "Basic" in answer.headers["www-authenticate"]
    basic = base64.b64encode(b"anyone:me").decode()
    answer = backend.send(
        "LOCK", "net", lock_info("one"), token=None, headers={"authorization": f"Basic {basic}"}
    )
    assert answer.status == 200
    assert backend.send("LOCK", "net", lock_info("one"), token="viewer").problem["code"] == "HF-STATE-53"
    assert backend.send("GET", "network", token="narrow").status == 404
    assert backend.send("GET", "private", token="narrow").problem["code"] == "HF-STATE-53"
    backend.send("POST", "net?ID=one", state(1))
    assert backend.send("GET", "net", token="viewer").status == 403  # A state contains secrets.
    assert backend.send("GET", "net", token="me@other").status == 404


def test_a_large_slow_or_cut_body_stores_nothing(backend: StateBackend) -> None:
    backend.lock("net", "one")
    large = state(1, values={"a": "x" * (1 << 20)})
    assert backend.send("POST", "net?ID=one", large).problem["code"] == "HF-STATE-57"
    assert _raw(
        backend, b"transfer-encoding: chunked", b"%x\r\n%s\r\n0\r\n\r\n" % (len(large), large)
    ).startswith(b"HTTP/1.1 413")
    assert _raw(backend, b"content-length: 100", b"{").startswith(b"HTTP/1.1 408")
    with socket.create_connection(("127.0.0.1", backend.port)) as connection:
        connection.sendall(_head(b"content-length: %d" % len(state(1))) + state(1)[:-1])
    assert backend.send("GET", "net").status == 404
    assert backend.send("POST", "net?ID=one", state(1)).status == 200


def test_two_hundred_states_at_once(backend: StateBackend) -> None:
    def use(number: int) -> list[int]:
        name = f"fleet/{number}"
        return [
            backend.lock(name, "id").status,
            backend.send("POST", f"{name}?ID=id", state(1, lineage=name)).status,
            backend.send("GET", name).status,
            backend.unlock(name, "id").status,
        ]

    with ThreadPoolExecutor(32) as pool:
        assert list(pool.map(use, range(200))) == [[200] * 4] * 200


def test_of_many_clients_one_gets_the_lock(backend: StateBackend) -> None:
    with ThreadPoolExecutor(16) as pool:
        locks = list(pool.map(lambda number: backend.lock("net", str(number)), range(16)))
        assert sorted(answer.status for answer in locks) == [200] + [423] * 15
        holder = next(str(number) for number, answer in enumerate(locks) if answer.status == 200)
        assert {json.loads(answer.body)["ID"] for answer in locks if answer.status == 423} == {holder}
        # Each sends the same version at once: only the holder's is stored, and only once.
        writes = list(
            pool.map(lambda number: backend.send("POST", f"net?ID={number}", state(1)).status, range(16))
        )
    assert sorted(writes) == [200] + [423] * 15
    row, waiting = backend.rows.look(StateKey("default", "net"))
    assert row is not None
    assert row.current is not None
    assert row.current.number == 1
    assert {entry.id for entry in waiting} == {str(number) for number in range(16)} - {holder}


def test_a_database_that_is_away_is_a_503_and_never_a_404(postgres: MadePostgres) -> None:
    with (
        postgres.new_database() as address,
        Database.open(address, size=2, wait_seconds=0.2) as database,
        state_backend(database) as backend,
    ):
        database.close()
        for method in ("GET", "LOCK", "POST", "UNLOCK", "DELETE"):
            body = state(1) if method == "POST" else lock_info("one")
            answer = backend.send(method, "net", body)
            assert (answer.status, answer.problem["code"]) == (503, "HF-DB-1"), method
            assert answer.headers["retry-after"]


def test_a_dump_of_the_database_contains_no_secret(backend: StateBackend) -> None:
    backend.lock("net", "one")
    canary = "canary-5f0c2e"
    backend.send("POST", "net?ID=one", state(1, values={"password": canary}))
    assert canary.encode() in backend.send("GET", "net").body
    dump = _dump(backend.rows.database)
    assert b"state_versions" in dump
    assert canary.encode() not in dump
    assert canary.encode().hex().encode() not in dump
    assert b"terraform_data" not in dump


def test_a_version_is_bound_to_its_place(backend: StateBackend) -> None:
    """Bytes of another version or state are a fault, never served."""
    for name in ("one", "two"):
        backend.lock(name, "id")
        backend.send("POST", f"{name}?ID=id", state(1, values={"a": name}))
    with backend.rows.database.transaction() as connection:
        connection.execute(
            "update state_versions v set data = o.data from state_versions o where o.state <> v.state"
        )
    answer = backend.send("GET", "one")
    assert (answer.status, answer.problem["code"]) == (500, "HF-KEY-6")
    backend.faults.clear()


def _md5(body: bytes) -> str:
    return base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()


def _head(field: bytes) -> bytes:
    return b"POST /state/net?ID=one HTTP/1.1\r\nhost: x\r\nauthorization: Bearer me\r\n" + field + b"\r\n\r\n"


def _raw(backend: StateBackend, field: bytes, body: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", backend.port)) as connection:
        connection.sendall(_head(field) + body)
        return connection.recv(1 << 16)


def _dump(database: Database) -> bytes:
    parameters = database.address.parameters
    environment = {
        variable: parameters[name]
        for variable, name in (
            ("PGHOST", "host"),
            ("PGPORT", "port"),
            ("PGUSER", "user"),
            ("PGPASSWORD", "password"),
        )
        if name in parameters
    }
    argv = [str(programs(Path("/nowhere")) / "pg_dump"), "--dbname", parameters["dbname"]]
    return subprocess.run(argv, env=environment, check=True, capture_output=True).stdout


def test_two_holders_never_both_write(backend: StateBackend) -> None:
    """Runs that are slow, declared dead and overtaken: each version is from the holder at that time."""
    rows, key = backend.rows, StateKey("default", "net")
    written: list[tuple[str, int]] = []

    def work(name: str) -> None:
        for turn in range(12):
            request = run_lease(f"{name}-{turn}", f"{name}-{turn}", who=name, created="", version="1")
            try:
                lock = rows.lock(key, request)
            except StateRefusal:
                row, _ = rows.look(key)
                if row is None or row.lock is None:
                    continue
                with rows.database.transaction() as connection:
                    connection.execute("update state_locks set expires = clock_timestamp()")
                try:
                    lock = rows.take_over(
                        key, request, number=row.lock.number, dead=False, declared=f"{name}: it hangs"
                    )
                except StateRefusal:
                    continue
            for _ in range(2):
                stored = rows.read(key)
                content = state((stored.serial if stored is not None else 0) + 1, values={"a": request.id})
                new = read_new_state(content)
                author = Author(who=name, why="test", run=request.run)
                with contextlib.suppress(StateRefusal):
                    rows.write(key, new, author, Caller(who=name), lock=lock.id, number=lock.number)
                    written.append((request.id, lock.number))
            if turn % 2:
                with contextlib.suppress(StateRefusal):
                    rows.unlock(key, lock.id, Caller(who=name))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, "abcdef"))
    with rows.database.transaction() as connection:
        stored = connection.execute("select run, fence from state_versions order by number").fetchall()
    fences = [fence for _, fence in stored]
    assert len(stored) > 10
    assert sorted(stored) == sorted(written)
    assert fences == sorted(fences)
    assert len({fence for _, fence in stored}) == len(set(stored))


def test_what_follows_a_write_delays_no_request(postgres: MadePostgres) -> None:
    """It runs after the response, for as many versions as there is memory for, and may fail."""
    go_on, done = threading.Event(), list[int]()

    def after_write(place: VersionPlace, _: bytes) -> None:
        go_on.wait(60)
        done.append(place.number)
        raise ZeroDivisionError

    limits = StateLimits(waiting=2 * len(state(1)) + 10)
    with (
        postgres.new_database() as address,
        Database.open(address) as database,
        state_backend(database, limits, after_write) as backend,
    ):
        backend.lock("net", "one")
        for serial in range(1, 6):
            assert backend.send("POST", "net?ID=one", state(serial)).status == 200
        assert done == []
        go_on.set()
        eventually(lambda: len(done) == 2, what="two versions that did not wait in vain")
        assert backend.send("POST", "net?ID=one", state(6)).status == 200
        eventually(lambda: done == [1, 2, 6], what="the version after the load")
    assert [type(fault) for fault in backend.faults] == [ZeroDivisionError] * 3
