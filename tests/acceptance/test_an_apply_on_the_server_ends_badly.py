"""A run of a worker that is stopped at its limit, or whose provider is killed, ends with its code.

The worker lives on, with its engine loaded, and nothing waits for it.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from lab_stacks import lab_module
from program import Program, descendants, eventually
from served import serving
from server_runs_made import ServerRuns, server_runs, worker

from holdfast.store.server_runs.contents import result_name
from provider.service import Fault, LabService

LIMIT, GRACE = {"apply": "4s"}, {"apply": "4s", "grace": "1s"}


def held_apply(runs: ServerRuns, service: LabService, stack: str, limits: dict[str, str]) -> str:
    """Its change, when the provider waits for an answer."""
    write_stack(runs, service, stack, limits)
    service.misbehave(Fault(operation="create", what="hold", name=stack))
    change = runs.submit("apply", stack)
    eventually(lambda: service.held("create", stack), what="the create")
    return change


def write_stack(runs: ServerRuns, service: LabService, stack: str, limits: dict[str, str]) -> None:
    entry = {"name": stack, "module": stack, "environment": "dev", "env": {"LAB_URL": service.url}}
    document = {"version": 1, "stacks": [entry], "engine": {"time_limits": limits}}
    runs.program.write("holdfast.yaml", json.dumps(document))
    runs.program.write(
        f"{stack}/main.tf", lab_module(f'resource "lab_object" "it" {{\n  name = "{stack}"\n}}\n')
    )


def end_of(runs: ServerRuns, change: str) -> tuple[str | None, str | None]:
    """The status of its run and the code of its error."""
    (run,) = runs.wait(change).runs
    blob = runs.store.encrypted.read(result_name(run.id))
    assert blob is not None
    return run.status, (json.loads(blob.data)["error"] or {}).get("code")


@pytest.mark.long
def test_it_ends_with_its_code_and_nothing_waits(with_lab: Program, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with (
        LabService() as service,
        serving(with_lab, data),
        server_runs(with_lab, data) as runs,
        worker(with_lab, data),
    ):
        # At its limit it is interrupted, and may end what it began.
        change = held_apply(runs, service, "limit", LIMIT)
        eventually(lambda: service.stops > 0, what="the interrupt")
        service.release()
        assert end_of(runs, change) == ("failed", "HF-TIME-1")
        assert end_of(runs, runs.submit("plan", "limit")) == ("unchanged", None)
        # So is a plan, which changes nothing.
        write_stack(runs, service, "limit", {"plan": "4s"})
        service.misbehave(Fault(operation="read", what="hold", name="limit"))
        assert end_of(runs, runs.submit("plan", "limit")) == ("failed", "HF-TIME-1")
        service.behave()
        assert end_of(runs, runs.submit("plan", "limit")) == ("unchanged", None)
        # After its grace period it is stopped.
        assert end_of(runs, held_apply(runs, service, "grace", GRACE)) == ("unknown", "HF-TIME-2")
        # The engine, which the worker keeps for the next run, does not count as still at work.
        change = held_apply(runs, service, "provider", {})
        for pid in descendants(with_lab.environment["HOME"]):
            if b"provider/main.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
        assert end_of(runs, change)[0] == "unknown"
        assert end_of(runs, runs.submit("plan", "provider")) == ("unknown", "HF-RUN-8")
    assert {name: len(ids) for name, ids in service.made().items()} == {"limit": 1, "grace": 1, "provider": 1}
