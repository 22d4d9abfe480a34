"""A worker and its Terraform are stopped in an apply, declared dead, and resumed after a takeover."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lab_stacks import ONE_THEN_TWO, lab_module
from program import Program, descendants, eventually
from served import serving
from server_fleet import Process, machines_there, on_machine
from server_runs_made import ServerRuns, server_runs, worker

from holdfast.store.server_blobs import ServerBlobs
from holdfast.store.server_store import ServerRunStore
from provider.service import Fault, LabService

pytestmark = pytest.mark.skipif(not machines_there(), reason="no other host names here")


@contextmanager
def worker_elsewhere(program: Program, folder: Path) -> Iterator[tuple[Process, list[int]]]:
    """On another machine, as its host name and home say; with a list for what is stopped there."""
    away = Program(
        program.folder,
        home=folder / "machine1",
        path=program.environment["PATH"],
        user_home=folder / "~away",
    )
    away.environment = {**program.environment, **away.environment}
    command = on_machine(1, [sys.executable, "-m", "holdfast", "worker", "--data", str(folder / "data")])
    process, stopped = Process("away", command, away, folder), list[int]()
    process.keep()
    try:
        yield process, stopped
    finally:
        resume(stopped)
        process.end()


def resume(stopped: list[int]) -> None:
    while stopped:
        os.kill(stopped.pop(), signal.SIGCONT)


def pass_time(runs: ServerRuns, change: str, run: str) -> None:
    """Until what is silent counts as dead."""
    runs.execute("update changes set beat = now() - interval '1 hour' where id = %s", change)
    runs.execute(
        "update state_locks set beat = now() - interval '1 hour', expires = now() - interval '59 minutes'"
    )
    runs.store.runs.write(run, "heartbeat", b"2020-01-01T00:00:00+00:00")


@pytest.mark.long
def test_its_state_is_refused_and_collected(with_lab: Program, tmp_path: Path) -> None:
    """What was reconciled meanwhile stays the state; the refused one is kept, and blocks the stack."""
    data = tmp_path / "data"
    with (
        LabService() as service,
        serving(with_lab, data) as client,
        server_runs(with_lab, data) as runs,
        worker_elsewhere(with_lab, tmp_path) as (away, stopped),
    ):
        stack = f'{{name: a, module: a, environment: dev, env: {{LAB_URL: "{service.url}"}}}}'
        with_lab.write("holdfast.yaml", f"version: 1\nstacks:\n  - {stack}\n")
        with_lab.write("a/main.tf", lab_module(ONE_THEN_TWO))
        service.misbehave(Fault(operation="create", what="hold", name="two"))
        change = runs.submit("apply", "a")
        eventually(lambda: service.held("create", "two"), what="the create")
        lost = runs.run_of(change, "a").id
        store = ServerRunStore(
            ServerBlobs(str(client["HOLDFAST_URL"]), (data / "admin-token").read_text().strip, {})
        )
        eventually(
            lambda: b"two: Creating" in b"".join(store.runs.journal(lost).lines), what="the journal of it"
        )
        stopped.extend(descendants(away.program.environment["HOME"]))
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        pass_time(runs, change, lost)
        with worker(with_lab, data):
            runs.wait(change)
            assert runs.run_of(change, "a").status == "unknown"
            (two,) = service.made()["two"]
            dead = ("--holder-dead", "--reason", "its machine is gone", "--import", f"lab_object.two={two}")
            with_lab.ok("runs", "reconcile", lost, "--yes", *dead, env=client)
            reconciled = store.states.current("a")
            assert reconciled is not None
            resume(stopped)
            service.release()
            eventually(lambda: "unsaved" in runs.store.errored_names("a"), what="the refused state")
            assert store.states.current("a") == reconciled
            assert two.encode() in (runs.store.errored("a") or b"")
            assert not list((tmp_path / "machine1").rglob("errored.tfstate"))
            assert runs.run_of(change, "a").status == "unknown"
            blocked = with_lab.run("plan", "a", "--server", str(client["HOLDFAST_URL"]), env=client)
            assert "HF-STATE-5" in blocked.text
    assert {name: len(ids) for name, ids in service.made().items()} == {"one": 1, "two": 1}
