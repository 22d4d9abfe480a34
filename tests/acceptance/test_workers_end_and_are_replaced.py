"""A worker that ends, or whose machine is gone, loses nothing of an apply."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_stacks import lab_module
from program import Program, eventually
from served import serving
from server_runs_made import ServerRuns, server_runs, worker

from holdfast.store.blobs import encode_name
from holdfast.store.leases import Holder, Lease
from holdfast.system import clock, process_table
from provider.service import Fault, LabService

OBJECTS = """
resource "lab_object" "one" {
  name = "one"
}
resource "lab_object" "two" {
  name       = "two"
  depends_on = [lab_object.one]
}
"""


@pytest.fixture
def service() -> Iterator[LabService]:
    with LabService() as service:
        yield service


def lab_stack(program: Program, service: LabService, more: str = "") -> None:
    stack = f'{{name: a, module: a, environment: dev, env: {{LAB_URL: "{service.url}"}}}}'
    program.write("holdfast.yaml", f"version: 1\nstacks:\n  - {stack}\n{more}")
    program.write("a/main.tf", lab_module(OBJECTS))


def held_apply(runs: ServerRuns, service: LabService) -> str:
    service.misbehave(Fault(operation="create", what="hold", name="one"))
    change = runs.submit("apply", "a")
    eventually(lambda: service.held("create"), what="the create")
    return change


def ended(runs: ServerRuns, change: str) -> tuple[str, str | None]:
    (run,) = runs.wait(change).runs
    return run.phase.value, run.status


def made(service: LabService) -> dict[str, int]:
    return {name: len(ids) for name, ids in service.made().items()}


def test_a_worker_that_is_asked_to_end_finishes_its_apply(
    with_lab: Program, service: LabService, tmp_path: Path
) -> None:
    """After SIGTERM it claims nothing more, and Terraform is not interrupted: both objects are made."""
    data = tmp_path / "data"
    lab_stack(with_lab, service)
    with serving(with_lab, data), server_runs(with_lab, data) as runs, worker(with_lab, data) as pid:
        change = held_apply(runs, service)
        os.kill(pid, signal.SIGTERM)
        eventually(lambda: runs.workers() == {"draining"}, what="the worker drains")
        later = runs.submit("plan", "a")
        service.release()
        assert ended(runs, change) == ("done", "applied")
        eventually(lambda: runs.workers() == {"gone"}, what="the end of the worker")
        assert runs.now(later).phase.value == "queued"
    assert (made(service), service.stops) == ({"one": 1, "two": 1}, 0)


def test_an_upgrade_during_an_apply_loses_nothing(
    with_lab: Program, service: LabService, tmp_path: Path
) -> None:
    """Each worker is asked to end twice, and replaced: the apply goes on, and the last one records it."""
    data = tmp_path / "data"
    lab_stack(with_lab, service)
    with serving(with_lab, data), server_runs(with_lab, data) as runs:
        with worker(with_lab, data, code=1) as pid:
            change = held_apply(runs, service)
            _end_at_once(pid)
        with worker(with_lab, data, code=1) as pid:
            eventually(lambda: runs.now(change).fence >= 2, what="the apply is looked after")
            assert runs.run_of(change, "a").phase.value == "applying"
            _end_at_once(pid)
        with worker(with_lab, data):
            service.release()
            assert ended(runs, change) == ("done", "applied")
            assert ended(runs, runs.submit("plan", "a")) == ("done", "unchanged")
    assert (made(service), service.stops) == ({"one": 1, "two": 1}, 0)


def _end_at_once(pid: int) -> None:
    """A second signal, more than two seconds later, does not wait for what runs."""
    os.kill(pid, signal.SIGTERM)

    def asked_again() -> bool:
        try:
            os.kill(pid, signal.SIGTERM)
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    eventually(asked_again, what="the end of the worker")


def test_a_change_in_a_lane_of_the_command_line_is_cancelled_or_goes_back_to_the_queue(
    with_lab: Program, service: LabService, tmp_path: Path
) -> None:
    """It has begun nothing, so it neither fails when its worker ends nor when it is cancelled."""
    data = tmp_path / "data"
    lab_stack(with_lab, service)
    with serving(with_lab, data), server_runs(with_lab, data) as runs, worker(with_lab, data) as pid:
        process = process_table.this_process()
        holder = Holder(change="cli", who="bob", what="apply", process=process, since=clock.now().isoformat())
        assert isinstance(runs.store.leases.take(f"lanes/{encode_name('env:dev')}", holder), Lease)

        def waiting() -> str:
            change = runs.submit("apply", "a")
            eventually(lambda: bool(runs.now(change).runs), what="the run")
            log = runs.run_of(change, "a").id
            eventually(lambda: any("lane `env:dev`" in line for line in runs.log(log)), what="the lane")
            return change

        cancelled = waiting()
        runs.changes.request_cancel(cancelled, "ann")
        assert ended(runs, cancelled) == ("done", "cancelled")
        drained = waiting()
        os.kill(pid, signal.SIGTERM)
        eventually(lambda: runs.workers() == {"gone"}, what="the end of the worker")
        assert runs.now(drained).phase.value == "queued"
        runs.changes.request_cancel(drained, "ann")
        assert ended(runs, drained) == ("done", "cancelled")
