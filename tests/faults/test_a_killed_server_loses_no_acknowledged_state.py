"""The state backend under load: the server or its database is killed in the middle of writes."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from program import eventually
from state_backend_made import KEY, StateBackend, state

from holdfast.database.database import Database, DatabaseAddress
from holdfast.database.migrations import migrate
from holdfast.database.postgres import hold_cluster
from holdfast.store.server_states.changes import StateKey
from holdfast.store.server_states.cipher import StateCipher
from holdfast.store.server_states.rows import StateRows
from holdfast.store.server_states.versions import StateVersions

pytestmark = [pytest.mark.faults, pytest.mark.long]
_KILLS = max(3, int(os.environ.get("FAULTS", "0")) // 20)
_CLIENTS = 3
_STARTS = 60


class Server:
    """A process that is started again after each kill. Its port changes."""

    def __init__(self, address: DatabaseAddress) -> None:
        self._address = address
        self.port = 0
        self.start()

    def start(self) -> None:
        """Again and again for a while: the database may be recovering."""
        for _ in range(_STARTS):
            if port := self._start():
                self.port = int(port)
                return
            self.kill()
        pytest.fail("the server does not start: its database does not answer")

    def _start(self) -> bytes:
        script = Path(__file__).parents[1] / "support" / "state_backend_process.py"
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        self._process = subprocess.Popen(
            [sys.executable, str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(self._address.parameters).encode() + b"\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


class Client(threading.Thread):
    """Writes one state again and again as Terraform does: what got no answer or a 5xx is sent again."""

    def __init__(self, number: int, server: Server, stop: threading.Event) -> None:
        super().__init__()
        self.state = f"net/{number}"
        self.server = server
        self.stop = stop
        self.acknowledged = 0
        self.tried = 0

    def run(self) -> None:
        while not self.stop.is_set():
            if self._send("LOCK") != 200:
                continue
            self.tried = self.acknowledged + 1
            while not self.stop.is_set():
                if (status := self._send("POST")) == 200:
                    self.acknowledged = self.tried
                    break
                assert status in (0, 500, 503), status
            self._send("UNLOCK")

    def content(self, serial: int) -> bytes:
        return state(serial, values={"a": f"{self.state} {serial} " * 20_000})

    def _send(self, method: str) -> int:
        """Its status; 0: no answer."""
        backend = StateBackend(rows=None, port=self.server.port, faults=[])  # type: ignore[arg-type]
        with suppress(OSError, http.client.HTTPException):
            if method == "POST":
                return backend.send("POST", f"{self.state}?ID=id", self.content(self.tried)).status
            return (
                backend.lock(self.state, "id").status
                if method == "LOCK"
                else backend.unlock(self.state, "id").status
            )
        return 0

    def check(self, rows: StateRows) -> None:
        stored = rows.read(StateKey("default", self.state))
        assert stored is not None
        assert self.acknowledged <= stored.serial <= self.tried
        versions = StateVersions(rows)
        listed = versions.list("default", stored.state, limit=100_000)
        assert [version.serial for version in listed] == list(range(stored.serial, 0, -1))
        for version in listed[:20]:
            content = versions.content("default", stored.state, version.number)
            assert content == self.content(version.serial)


@contextmanager
def clients(server: Server) -> Iterator[list[Client]]:
    stop = threading.Event()
    load = [Client(number, server, stop) for number in range(_CLIENTS)]
    for client in load:
        client.start()
    try:
        yield load
    finally:
        stop.set()
        for client in load:
            client.join(60)


def _wait_for(load: list[Client], writes: int) -> None:
    def count() -> int:
        return sum(client.acknowledged for client in load)

    wanted = count() + writes
    eventually(lambda: count() >= wanted, what=f"{writes} more writes")


def test_every_acknowledged_state_survives_a_kill(scratch: Path) -> None:
    chosen = random.Random(os.environ.get("SEED", "1"))  # noqa: S311 - a repeatable choice
    with hold_cluster(scratch / "data", "tests") as cluster:
        with Database.open(cluster.address(), size=2) as database:
            migrate(database)
        server = Server(cluster.address())
        try:
            with clients(server) as load:
                for kill in range(_KILLS):
                    _wait_for(load, chosen.randint(5, 30))
                    if kill % 3 == 2:
                        pid = cluster.running_pid()
                        assert pid is not None
                        os.kill(pid, signal.SIGKILL)
                    else:
                        server.kill()
                        server.start()
                _wait_for(load, 5)
        finally:
            server.kill()
        with Database.open(cluster.address(), size=2, wait_seconds=20) as database:
            rows = StateRows(database, StateCipher([KEY]))
            for client in load:
                client.check(rows)
