"""Runs on the server beside the command line: many stacks, a warm worker, and how soon a worker begins."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import importlib.util
import io
import json
import statistics
import subprocess
import tarfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from psycopg.conninfo import make_conninfo
from server_bench import HOLDFAST, Running, running

from holdfast.database.database import Database
from holdfast.database.postgres import Cluster

if TYPE_CHECKING:
    from bench import Bench, Prepare

PICKUPS = 40
SERVED = 200
"""Runs whose size in the database is measured."""


class Api:
    def __init__(self, server: Running) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=120)
        self._token = server.token

    def call(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Any:
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        fields = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
        self._connection.request(method, f"/api/v1{path}", data, fields)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status >= http.client.BAD_REQUEST:
            raise AssertionError(content)
        return json.loads(content)

    def upload(self, folder: Path) -> str:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            archive.add(folder, arcname=".")
        return str(self.call("POST", "/uploads", packed.getvalue(), "application/gzip")["id"])

    def run(self, upload: str, stack: str, operation: str = "plan") -> dict[str, Any]:
        """Submit a run and follow it until it has ended."""
        wanted = {"stack": stack, "operation": operation, "source": {"upload": upload}}
        submitted: dict[str, Any] = self.call("POST", "/runs", wanted)
        while True:
            run: dict[str, Any] = self.call("GET", f"/runs/{submitted['id']}")
            if run["phase"] in {"waiting", "done"}:
                if run["status"] not in {"planned", "unchanged", "applied"}:
                    raise AssertionError(run)
                return run
            time.sleep(0.002)


def hundred(bench: Bench, prepare: Prepare) -> tuple[float, float]:
    """Apply with two workers, from the command line to the last result; against the command line alone."""
    with running(bench, bench.place / "hundred", _serve(bench.place / "hundred", workers=2)) as server:

        def through_the_server() -> Callable[[], None]:
            """In a new tenant: the states of another round would leave nothing to apply."""
            folder = bench.fresh("server-runs", prepare)
            words = [str(HOLDFAST), "apply", "--yes", "--quiet", "--server", server.url]
            variables: dict[str, Any] = {
                "HOLDFAST_HOME": str(bench.place / "home"),
                "HOLDFAST_URL": server.url,
            }
            create = [str(HOLDFAST), "token", "create", "--role", "operator", "--tenant", folder.name]
            admin = {**bench.environment, **variables, "HOLDFAST_TOKEN": server.token}
            token = subprocess.run(create, env=admin, capture_output=True, text=True, check=True).stdout
            return lambda: bench.run(words, folder, **variables, HOLDFAST_TOKEN=token.strip())

        def alone() -> Callable[[], None]:
            folder = bench.fresh("own-runs", prepare)
            return lambda: bench.holdfast(folder, "apply", "--yes", "--quiet")

        through_the_server()()
        return bench.side_by_side(through_the_server, alone)


def second_plan(bench: Bench, prepare: Prepare) -> tuple[float, float]:
    """Of one small stack on a worker that has planned it before, against `holdfast plan`."""
    data = bench.place / "second"
    with running(bench, data, _serve(data, workers=1)) as server:
        api, folder = Api(server), bench.fresh("planned", prepare)
        upload, stack = api.upload(folder), "stacks/s00"
        api.run(upload, stack)

        def again() -> None:
            api.run(upload, stack)

        return bench.side_by_side(
            lambda: again,
            lambda: lambda: bench.holdfast(folder, "plan", stack, "--quiet"),
        )


def pickup(bench: Bench, prepare: Prepare) -> tuple[float, float | None, float]:
    """Milliseconds until a worker begins a run, the same of bare Procrastinate; bytes stored for a run."""
    data = bench.place / "pickup"
    with running(bench, data, _serve(data, workers=1)) as server:
        api = Api(server)
        upload = api.upload(bench.fresh("picked-up", prepare))
        api.run(upload, "stacks/s00")
        address = Cluster(data).address()
        with Database.open(address) as database:
            before = _size(database)
            for _ in range(SERVED):
                api.run(upload, "stacks/s00")
            bytes_of_a_run = (_size(database) - before) / SERVED
        runs = api.call("GET", f"/runs?limit={PICKUPS}")["runs"]
        bare = asyncio.run(_procrastinate(make_conninfo(**address.parameters)))
    waited = [_time(run["started"]) - _time(run["created"]) for run in runs]
    return 1000 * statistics.median(waited), bare, bytes_of_a_run


async def _procrastinate(address: str) -> float | None:
    if importlib.util.find_spec("procrastinate") is None:
        return None
    from procrastinate import App, PsycopgConnector  # noqa: PLC0415 - not always installed

    app, waited, begun = App(connector=PsycopgConnector(conninfo=address)), [], asyncio.Event()

    @app.task(name="nothing")
    async def nothing(deferred: float) -> None:
        waited.append(time.time() - deferred)
        begun.set()

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        worker = asyncio.create_task(app.run_worker_async(install_signal_handlers=False))
        for _ in range(PICKUPS):
            begun.clear()
            await nothing.defer_async(deferred=time.time())
            await begun.wait()
        worker.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await worker
    return 1000 * statistics.median(waited)


def _serve(data: Path, *, workers: int) -> list[str]:
    words = [str(HOLDFAST), "serve", "--listen", "127.0.0.1:0", "--data", str(data)]
    return [*words, "--workers", str(workers)]


def _size(database: Database) -> int:
    with database.transaction() as connection:
        row = connection.execute("select pg_database_size(current_database())").fetchone()
    return int(row[0]) if row is not None else 0


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
