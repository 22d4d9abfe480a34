"""`holdfast worker` beside `holdfast serve`: changes are planned, decided on and applied."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import Literal
from urllib.request import Request, urlopen

import pytest
from lab_stacks import lab_module, left_behind
from program import Program, eventually
from served import serving
from server_runs_made import ServerRuns, server_runs, worker

from holdfast.audit.reader import all_lines
from holdfast.identity.roles import Role
from holdfast.runs.run import read_run
from holdfast.store.approvals import ApprovalKind
from holdfast.store.server_runs.claiming import Claiming
from holdfast.store.server_runs.contents import RunLog
from holdfast.store.server_runs.workers import NewWorker, WorkerRows
from holdfast.system import clock
from provider.service import Fault, LabService

CONFIGURATION = """\
version: 1
guard:
  environments:
    prod: {approvals: 1}
stacks:
  - {name: net, module: net, environment: prod}
  - {name: app, module: app, environment: dev, depends_on: [net]}
"""
ONE = 'resource "lab_object" "one" {\n  name = "one"\n}\n'
TWO = 'resource "lab_object" "two" {\n  name       = "two"\n  depends_on = [lab_object.one]\n}\n'
RESOURCE = 'resource "terraform_data" "x" {\n  input = %d\n}\n'


@pytest.fixture
def service() -> Iterator[LabService]:
    with LabService() as service:
        yield service


def statuses(runs: ServerRuns, change: str) -> dict[str, tuple[str, str | None]]:
    return {run.stack: (run.phase.value, run.status) for run in runs.wait(change).runs}


def test_a_change_waits_for_its_approval_and_is_applied(holdfast: Program, tmp_path: Path) -> None:
    """What depends on the plan that waits follows it; a plan that is stale is made and decided on again."""
    data = tmp_path / "data"
    holdfast.write("holdfast.yaml", CONFIGURATION)
    for name in ("net", "app"):
        holdfast.write(f"{name}/main.tf", RESOURCE % 1)
    with (
        serving(holdfast, data),
        server_runs(holdfast, data) as runs,
        worker(holdfast, data),
        worker(holdfast, data),
    ):
        ann, bob = runs.person("ann"), runs.person("bob", Role.APPROVER)
        first = runs.submit("apply", requester=ann)
        assert statuses(runs, first) == {"net": ("waiting", "waiting"), "app": ("queued", None)}
        second = runs.submit("apply", "net", requester=ann)
        assert statuses(runs, second) == {"net": ("waiting", "waiting")}
        waiting = runs.run_of(first, "net")
        assert any(f"holdfast runs approve {waiting.id}" in line for line in runs.log(waiting.id))
        runs.decide(waiting, ApprovalKind.APPROVAL, bob)
        assert statuses(runs, first) == {"net": ("done", "applied"), "app": ("done", "applied")}
        assert runs.log(waiting.id)[-1] == "net: applied"
        # Its plan creates what exists now: it is planned again, and has nothing to do.
        runs.decide(runs.run_of(second, "net"), ApprovalKind.APPROVAL, bob)
        assert statuses(runs, second) == {"net": ("done", "unchanged")}
        third = runs.submit("plan", "app")
        assert statuses(runs, third) == {"app": ("done", "unchanged")}
        holdfast.write("net/main.tf", RESOURCE % 2)
        older = runs.submit("apply", requester=ann)
        runs.wait(older)
        holdfast.write("net/main.tf", RESOURCE % 3)
        newer = runs.submit("apply", "net", requester=ann)
        runs.wait(newer)
        runs.decide(runs.run_of(newer, "net"), ApprovalKind.APPROVAL, bob)
        assert statuses(runs, newer) == {"net": ("done", "applied")}
        # It would set back what the newer change applied: it ends, and is not planned again.
        outdated = runs.run_of(older, "net")
        runs.decide(outdated, ApprovalKind.APPROVAL, bob)
        assert statuses(runs, older) == {"net": ("done", "refused"), "app": ("done", "blocked")}
        reason = f"HF-RUN-39 net: run {runs.run_of(newer, 'net').id}"
        assert any(reason in line for line in runs.log(outdated.id))
        holdfast.write("net/main.tf", RESOURCE % 4)
        cancelled = runs.submit("apply", "net", requester=ann)
        runs.wait(cancelled)
        runs.changes.request_cancel(cancelled, "ann")
        assert statuses(runs, cancelled) == {"net": ("done", "cancelled")}
        entries = [json.loads(line) for line in all_lines(runs.store)]
        assert {entry["who"]["name"] for entry in entries if entry["what"] == "apply"} == {"ann"}


def lab_stack(program: Program, service: LabService, more: str = "") -> None:
    stack = f'{{name: a, module: a, environment: dev, env: {{LAB_URL: "{service.url}"}}}}'
    program.write("holdfast.yaml", f"version: 1\nstacks:\n  - {stack}\n")
    program.write("a/main.tf", lab_module(ONE + more))


def test_an_apply_outlives_its_worker(with_lab: Program, service: LabService, tmp_path: Path) -> None:
    """Its supervisor finishes it, the next worker records that, and nothing is applied twice."""
    data = tmp_path / "data"
    lab_stack(with_lab, service)
    with serving(with_lab, data), server_runs(with_lab, data) as runs:
        service.misbehave(Fault(operation="create", what="hold", name="one"))
        with worker(with_lab, data) as pid:
            change = runs.submit("apply", "a")
            eventually(lambda: service.held("create"), what="the create")
            assert runs.run_of(change, "a").phase.value == "applying"
            later = runs.submit("plan", "a")
            os.kill(pid, signal.SIGKILL)
        with worker(with_lab, data):
            service.release()
            assert statuses(runs, change) == {"a": ("done", "applied")}
            assert statuses(runs, later) == {"a": ("done", "unchanged")}
        lines = [text for _, text in RunLog(runs.store.encrypted, runs.run_of(change, "a").id).lines()]
        *_, made, last = lines
        assert made.startswith("a: lab_object.one: create complete (")
        assert len(lines) == len(set(lines))
        assert last == "a: the apply went on without its worker, and is applied now"
        assert {name: len(ids) for name, ids in service.made().items()} == {"one": 1}


def test_a_killed_apply_is_reconciled_on_the_server(
    with_lab: Program, service: LabService, tmp_path: Path
) -> None:
    """Worker and Terraform die: its outcome is unknown, and nothing more is applied."""
    data = tmp_path / "data"
    lab_stack(with_lab, service)
    with serving(with_lab, data), server_runs(with_lab, data) as runs:
        ann = runs.person("ann")
        with worker(with_lab, data) as pid:
            service.misbehave(Fault(operation="create", what="hold", name="one"))
            change = runs.submit("apply", "a", requester=ann)
            eventually(lambda: service.held("create"), what="the create")
            lost = runs.run_of(change, "a")
            # The supervisor has the worker's home among its arguments; the worker itself is killed first.
            os.kill(pid, signal.SIGKILL)
            for process in left_behind(with_lab):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        service.release()
        with worker(with_lab, data) as pid:
            assert statuses(runs, change) == {"a": ("done", "unknown")}
            assert statuses(runs, runs.submit("apply", "a", requester=ann)) == {"a": ("done", "unknown")}
            again = runs.submit("reconcile", "a", requester=ann, retried_from=lost.id)
            # It needs a decision: the resource may exist.
            assert statuses(runs, again) == {"a": ("done", "unknown")}
            assert any(line.startswith("HF-REC-") for line in runs.log(runs.run_of(again, "a").id))
        assert {name: len(ids) for name, ids in service.made().items()} == {"one": 1}


@pytest.mark.long
def test_a_change_is_cancelled_and_a_worker_ends(
    with_lab: Program, service: LabService, tmp_path: Path
) -> None:
    """In every phase; a cancelled apply keeps its state. After SIGTERM nothing is lost or left."""
    data = tmp_path / "data"
    lab_stack(with_lab, service, TWO)

    def cancel(runs: ServerRuns, operation: Literal["read", "create"], phase: str) -> None:
        service.misbehave(Fault(operation=operation, what="hold", name="one"))
        change = runs.submit("apply", "a")
        eventually(lambda: service.held(operation), what=operation)
        run = runs.run_of(change, "a")
        assert run.phase.value == phase
        runs.changes.request_cancel(change, "ann")
        eventually(lambda: any("Stopping" in line for line in runs.log(run.id)), what="the cancel")
        service.release()
        assert statuses(runs, change) == {"a": ("done", "cancelled")}

    with serving(with_lab, data), server_runs(with_lab, data) as runs:
        queued = runs.submit("apply", "a", retried_from="none")
        runs.changes.request_cancel(queued, "ann")
        assert statuses(runs, queued) == {"a": ("done", "cancelled")}
        with worker(with_lab, data) as pid:
            cancel(runs, "create", "applying")
            cancel(runs, "read", "planning")
            assert {name: len(ids) for name, ids in service.made().items()} == {"one": 1}
            assert statuses(runs, runs.submit("apply", "a")) == {"a": ("done", "applied")}
            os.kill(pid, signal.SIGTERM)
            eventually(lambda: runs.workers() == {"gone"}, what="the end of the worker")
        assert {name: len(ids) for name, ids in service.made().items()} == {"one": 1, "two": 1}


def test_a_cancelled_apply_is_stopped_at_once_when_asked_again(
    with_lab: Program, service: LabService, tmp_path: Path
) -> None:
    """As the second Ctrl-C: its outcome is unknown, never taken for cancelled, and it can be reconciled."""
    data = tmp_path / "data"
    lab_stack(with_lab, service)
    with serving(with_lab, data), server_runs(with_lab, data) as runs, worker(with_lab, data):
        service.misbehave(Fault(operation="create", what="hold", name="one"))
        change = runs.submit("apply", "a")
        eventually(lambda: service.held("create"), what="the create")
        run = runs.run_of(change, "a")
        runs.changes.request_cancel(change, "ann")
        eventually(lambda: any("Stopping after" in line for line in runs.log(run.id)), what="the cancel")
        assert runs.run_of(change, "a").phase.value == "applying"
        runs.changes.request_cancel(change, "ann", force=True)
        assert statuses(runs, change) == {"a": ("done", "unknown")}
        assert any("may be lost from the state" in line for line in runs.log(run.id))
        service.release()


def test_a_worker_that_was_stopped_applies_nothing(
    with_lab: Program, service: LabService, tmp_path: Path
) -> None:
    """It is silent while it plans, so another worker has its change when it goes on."""
    data = tmp_path / "data"
    lab_stack(with_lab, service)
    with serving(with_lab, data), server_runs(with_lab, data) as runs, worker(with_lab, data) as stopped:
        assert statuses(runs, runs.submit("apply", "a")) == {"a": ("done", "applied")}
        lab_stack(with_lab, service, TWO)
        service.misbehave(Fault(operation="read", what="hold", name="one"))
        change = runs.submit("apply", "a")
        eventually(lambda: service.held("read"), what="the plan")
        os.kill(stopped, signal.SIGSTOP)
        before = runs.now(change)
        service.release()
        with worker(with_lab, data):
            runs.execute("update changes set beat = now() - interval '1 hour' where id = %s", change)
            # Taken over, queued, and claimed again.
            eventually(lambda: runs.now(change).fence >= before.fence + 2, what="the other worker")
            os.kill(stopped, signal.SIGCONT)
            assert statuses(runs, change) == {"a": ("done", "applied")}
            run = runs.run_of(change, "a").id
            log = runs.log(run)
            os.kill(stopped, signal.SIGTERM)
            eventually(lambda: runs.workers() == {"gone", "ready"}, what="the end of the stopped one")
            assert (runs.log(run), log[-1]) == (log, "a: applied")
            record = read_run(runs.store, run)
            assert record is not None
            assert record.status.value == "applied"
        assert len(service.calls("create")) == 2
        assert {name: len(ids) for name, ids in service.made().items()} == {"one": 1, "two": 1}


def test_a_server_without_workers_looks_after_silent_ones(holdfast: Program, tmp_path: Path) -> None:
    """What one of them had is queued again. Streams of logs do not delay the end of the server."""
    data = tmp_path / "data"
    holdfast.write("holdfast.yaml", CONFIGURATION)
    for name in ("net", "app"):
        holdfast.write(f"{name}/main.tf", RESOURCE % 1)
    with contextlib.ExitStack() as after:
        with serving(holdfast, data) as client, server_runs(holdfast, data) as runs:
            change = runs.submit("plan", "net", retried_from="none")
            dead = NewWorker(host="elsewhere", slot=1, version="0")
            WorkerRows(runs.database).register(dead)
            claimed = Claiming(runs.database, dead).claim()
            assert claimed is not None
            runs.execute("update changes set beat = now() - interval '1 hour' where id = %s", change)
            runs.wait(change, lambda now: now.phase.value == "queued")
            assert runs.now(change).fence == claimed.fence + 1
            stream = after.enter_context(follow_log(client, claimed.runs[0].id))
            assert b"status" in stream.readline()
            began = clock.monotonic()
        assert clock.monotonic() - began < 8.0  # An open request would get ten seconds.


def follow_log(client: dict[str, str | None], run: str) -> HTTPResponse:
    token = Path(str(client["HOLDFAST_TOKEN_FILE"])).read_text().strip()
    headers = {"authorization": f"Bearer {token}", "accept": "text/event-stream"}
    address = f"{client['HOLDFAST_URL']}/api/v1/runs/{run}/log"
    request = Request(address, headers=headers)  # noqa: S310 - our own server
    answer: HTTPResponse = urlopen(request, timeout=30)  # noqa: S310 - our own server
    return answer
