"""`holdfast … --server`: the command line uploads, submits, follows and decides. A worker is played."""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from plan_documents import change as planned
from plan_documents import plan
from program import Program, eventually, interrupt
from results_made import result, stack
from runs_made import made_worker
from server_made import MadeServer, made_server
from terminal import Terminal

from holdfast.config.guard import Effect, RequiredApprovals
from holdfast.database.database import Database
from holdfast.guard.decision import Allow, Decision, NeedApproval, Reason
from holdfast.identity.roles import Role
from holdfast.plans.status import Status
from holdfast.runs.document import result_document
from holdfast.runs.stored_plan import write_plan
from holdfast.secrets.redact import Redactor
from holdfast.server.audit_log import TenantStores, actor_of
from holdfast.store.server_runs.claiming import Claiming
from holdfast.store.server_runs.contents import (
    RunLog,
    checks_name,
    read_options,
    result_name,
    upload_name,
)
from holdfast.store.server_runs.phases import RunPhase
from holdfast.store.server_runs.rows import RUN, Change, ChangeRows, RunRows
from holdfast.system.source_archive import unpack

DIGEST = "d" * 64
FINDING = {
    **dict.fromkeys(("hint", "file", "line", "end_line", "column", "address", "novelty", "waiver")),
    "rule": "HF999",
    "severity": "error",
    "title": "A rule",
    "stack": "app",
    "stacks": ["app"],
    "waived": False,
    "also": [],
}
CHECKS = {
    "findings": [
        {**FINDING, "message": "found by the worker", "guard": False},
        {**FINDING, "message": "said by the guard", "guard": True},
    ],
    "skipped": [],
    "summary": {"rules": 70, "files": 1, "modules": 1, "stacks": 2, "baseline": None},
}
PLAN = plan([planned("terraform_data.app", "create", after={"input": "hello"})])


@pytest.fixture
def server(database: Database) -> Iterator[MadeServer]:
    with made_server(database) as made:
        yield made


@pytest.fixture
def repository(holdfast: Program, server: MadeServer) -> Program:
    stacks: list[dict[str, Any]] = [
        {"name": name, "module": "code", "environment": "dev"} for name in ("app", "db")
    ]
    stacks[1]["depends_on"] = ["app"]
    document = {"version": 1, "environments": {"dev": {}}, "stacks": stacks}
    holdfast.write("holdfast.yaml", json.dumps(document))
    holdfast.write("code/main.tf", 'resource "terraform_data" "app" {\n}\n')
    holdfast.write(".gitignore", "*.tfvars\n")
    holdfast.write("code/terraform.tfvars", 'x = "1"\n')
    holdfast.environment["HOLDFAST_URL"] = f"http://127.0.0.1:{server.port}"
    holdfast.environment["HOLDFAST_TOKEN"] = server.token(Role.OPERATOR, name="ada")
    holdfast.git("init", "--quiet")
    return holdfast


class Worker:
    """Does with a change what a worker does, without Terraform."""

    def __init__(self, server: MadeServer) -> None:
        self.server = server
        self.claiming: Claiming = made_worker(server.database)[0]
        self.store = TenantStores(server.database, server.parts.key).of("default")

    def claim(self) -> Change:
        claimed: list[Change] = []

        def claims() -> bool:
            claimed.extend(filter(None, [self.claiming.claim()]))
            return bool(claimed)

        eventually(claims, what="a change to claim")
        return claimed[0]

    def phase(self, change: Change, phase: RunPhase, status: Status | None = None, **more: str) -> None:
        for run in change.runs:
            self.claiming.set_phase(
                change.id, change.fence, run.id, phase, status=status.value if status else None, **more
            )

    def say(self, change: Change, *lines: str) -> None:
        for run in change.runs:
            log = RunLog(self.store.encrypted, run.id)
            log.append(log.end(), [f"{run.stack}: {line}" for line in lines])
            with self.server.database.transaction() as connection:
                connection.execute("select pg_notify(%s, %s)", (RUN, run.id))

    def finish(
        self, change: Change, status: Status, *, done: bool = False, decision: Decision | None = None
    ) -> None:
        phase = RunPhase.WAITING if status is Status.WAITING and not done else RunPhase.DONE
        for run in change.runs:
            made = structs.replace(
                result(stack(run.stack), status), plan=PLAN, run=run.id, decision=decision or Allow()
            )
            document = json.dumps(result_document(made)).encode()
            self.store.encrypted.write(result_name(run.id), document)
            write_plan(self.store, run.id, PLAN, Redactor())
            who = actor_of(change.requester, "worker").document()
            self.store.approvals.record_author(DIGEST, who, stack=run.stack, run=run.id)
        self.store.encrypted.write(checks_name(change.id), json.dumps(CHECKS).encode())
        self.phase(change, phase, status, digest=DIGEST)
        self.claiming.finish(change.id, change.fence)

    def play(self, status: Status) -> Change:
        change = self.claim()
        self.phase(change, RunPhase.PLANNING)
        self.say(change, "planning")
        self.finish(change, status)
        return change


@pytest.fixture
def worker(server: MadeServer) -> Worker:
    return Worker(server)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_a_plan_is_uploaded_followed_and_shown(repository: Program, worker: Worker, tmp_path: Path) -> None:
    """The same document and the same text as without a server."""
    process = repository.start("plan", "--server", "--json", "--detailed-exitcode", "-var", "size=3")
    change = worker.play(Status.PLANNED)
    code, out, err = ended(process)
    document = json.loads(out)
    assert (code, document["change"]) == (2, change.id)
    runs = {run.stack: run.id for run in change.runs}
    assert {item["name"]: item["run"] for item in document["stacks"]} == runs
    assert document["summary"]["planned"] == 2
    assert document["stacks"][0].keys() == result_document(result(stack("app"), Status.PLANNED)).keys()
    assert document["summary"]["changes"]["create"] == 2
    assert document["checks"] == CHECKS
    assert "app: planning" in err
    assert "Git ignores them: code/terraform.tfvars" in err
    assert read_options(worker.store.encrypted, change.id).variables == {"size": "3"}
    blob = worker.store.encrypted.read(upload_name(change.source))
    assert blob is not None
    unpack(io.BytesIO(blob.data), tmp_path / "unpacked")
    names = sorted(
        path.relative_to(tmp_path / "unpacked").as_posix() for path in (tmp_path / "unpacked").rglob("*.*")
    )
    assert names == [".gitignore", "code/main.tf", "holdfast.yaml"]

    process = repository.start("plan", "app", "--server", "--no-color")
    worker.play(Status.PLANNED)
    code, out, err = ended(process)
    assert code == 0, err
    assert "+ terraform_data.app" in out
    assert 'input   "hello"' in out
    assert "1 ready" in out
    assert "Found by the worker" in out
    assert "Said by the guard" not in out
    assert "checks: 2 errors" in out


def test_a_waiting_run_is_approved_by_another_person(
    repository: Program, server: MadeServer, worker: Worker
) -> None:
    process = repository.start("apply", "app", "--server", "--yes", "--reason", "release")
    change = worker.play(Status.WAITING)
    (run,) = change.runs
    code, out, err = ended(process)
    assert code == 5, err
    assert f"holdfast runs approve {run.id} --reason TEXT --server" in out
    own = repository.run("runs", "approve", run.id[:20], "--reason", "mine", "--server")
    assert (own.code, "HF-" in own.err) == (3, True)
    bob = {"HOLDFAST_TOKEN": server.token(Role.APPROVER, name="bob")}
    given = repository.json("runs", "approve", run.id, "--reason", "fine", "--server", env=bob)
    assert (given["digest"], given["decision"], given["phase"]) == (DIGEST, "approve", "waiting")
    assert (change_of(worker, change).phase, change_of(worker, change).reason) == ("queued", "release")

    again = worker.claim()
    worker.phase(again, RunPhase.APPLYING)
    watching = repository.start("runs", "watch", run.id, "--server")
    worker.say(again, "terraform_data.app: created")
    worker.finish(again, Status.APPLIED)
    code, out, err = ended(watching)
    assert (code, "app: terraform_data.app: created" in out, "applied" in out) == (0, True, True), err
    log = repository.json("runs", "log", run.id)
    approved, created = "app: approved by bob: fine", "app: terraform_data.app: created"
    assert log["lines"] == ["app: planning", approved, created]
    shown = repository.json("runs", "show", "--server", run.id)["run"]
    assert (shown["status"], shown["who"], shown["phase"]) == ("applied", "ada", "done")
    assert "+ terraform_data.app" in repository.ok("runs", "show", run.id, "--plan").out
    listed = repository.json("runs", "list", "--server")["runs"]
    assert [item["id"] for item in listed] == [run.id]
    assert "Nothing is in progress" in repository.ok("runs", "watch", "--server").out


def test_decisions_and_what_is_missing_are_shown(
    repository: Program, server: MadeServer, worker: Worker
) -> None:
    """Who decided what, and whether it was enough: to who decides, and to who asked."""
    needed = NeedApproval(
        reasons=(Reason(code="HF-GUARD-14", message="needs approvals", effect=Effect.APPROVE),),
        approvals=1,
        approvers=(RequiredApprovals(count=1, group="dba"),),
    )
    process = repository.start("apply", "app", "--server", "--yes")
    change = worker.claim()
    worker.phase(change, RunPhase.PLANNING)
    worker.finish(change, Status.WAITING, decision=needed)
    assert ended(process)[0] == 5
    (run,) = change.runs
    bob, dora = (
        {"HOLDFAST_TOKEN": server.token(Role.APPROVER, name=name, groups=groups)}
        for name, groups in (("bob", ()), ("dora", ("dba",)))
    )
    approve = ("runs", "approve", run.id, "--reason", "fine")
    assert (
        "Still missing: 1 approval of the group dba. Yours does not" in repository.ok(*approve, env=bob).out
    )
    assert "Your decision was recorded before." in repository.ok(*approve, env=bob).out
    shown = repository.ok("runs", "show", run.id).out
    assert "missing: 1 approval of the group dba" in shown
    assert shown.count("approved by bob at ") == 2
    assert "a worker applies it now" in repository.ok(*approve, env=dora).out
    repository.ok("runs", "reject", run.id, "--reason", "not this week", env=bob)
    rejected = repository.json("runs", "show", run.id)["run"]
    assert (rejected["status"], rejected["decisions"][-1]["decision"]) == ("refused", "reject")
    assert rejected["error"]["message"] == "app: rejected by bob: not this week"
    assert "runs approve" not in str(rejected["error"]["hint"])
    assert "app: rejected by bob: not this week" in repository.ok("runs", "log", run.id).out


def test_a_stack_follows_one_that_waits(repository: Program, server: MadeServer, worker: Worker) -> None:
    """The exit code is that of the plan that waits. Its change is approved as a whole."""
    process = repository.start("apply", "--server", "--yes")
    change = worker.claim()
    app, db = change.runs
    first = structs.replace(change, runs=(app,))
    worker.phase(first, RunPhase.PLANNING)
    worker.finish(first, Status.WAITING)
    code, out, err = ended(process)
    assert code == 5, err
    assert "queued     follows app" in out
    assert f"Change {change.id}\n   run {app.id}  app\n   run {db.id}  db" in out
    bob = {"HOLDFAST_TOKEN": server.token(Role.APPROVER, name="bob")}
    given = repository.json("runs", "approve", change.id, "--reason", "fine", env=bob)
    assert [item["stack"] for item in given["approvals"]] == ["app"]
    again = repository.run("runs", "approve", db.id, "--reason", "fine", env=bob)
    assert (again.code, "there is no plan to approve" in again.err) == (3, True)


def test_a_plan_is_not_approved_but_its_apply_is(
    repository: Program, server: MadeServer, worker: Worker
) -> None:
    process = repository.start("plan", "app", "--server")
    change = worker.claim()
    worker.phase(change, RunPhase.PLANNING)
    worker.finish(change, Status.WAITING, done=True)
    code, out, _ = ended(process)
    assert (code, "runs approve" in out) == (5, False)
    (run,) = change.runs
    bob = {"HOLDFAST_TOKEN": server.token(Role.APPROVER, name="bob")}
    refused = repository.run("runs", "approve", run.id, "--reason", "fine", env=bob)
    assert (refused.code, "holdfast apply app --server" in refused.err) == (3, True)
    path = f"/api/v1/changes/{change.id}/apply"
    token = repository.environment["HOLDFAST_TOKEN"]
    applying = server.send("POST", path, {"plans": {run.id: DIGEST}}, token=token).document["runs"][0]["id"]
    refused = repository.run("runs", "approve", run.id, "--reason", "fine", env=bob)
    assert (refused.code, f"That is run {applying}" in refused.err) == (3, True)


def test_a_run_is_looked_for_on_the_server_that_is_known(repository: Program) -> None:
    """Also after an empty run store was asked. The message says where it was looked for."""
    (run,) = repository.json("plan", "app", "--server", "--detach")["runs"]
    shown = repository.ok("runs", "show", run["id"])
    assert f"{run['id']}  plan of app: queued" in shown.out
    missing = repository.run("runs", "log", "01AAAAAAAAAAAAAAAAAAAAAAAA")
    assert (missing.code, "neither in the run store nor on the server" in missing.err) == (64, True)
    reconciled = repository.run("runs", "reconcile", run["id"])
    assert (reconciled.code, "no unknown outcome" in reconciled.err) == (3, True)
    assert "holdfast runs list --server" in repository.ok("runs", "list").out
    alone = repository.run("runs", "show", run["id"], env={"HOLDFAST_URL": ""})
    assert (alone.code, "holdfast login URL" in alone.err) == (64, True)


def test_an_apply_shows_what_it_did(repository: Program, worker: Worker) -> None:
    process = repository.start("apply", "app", "--server", "--yes")
    change = worker.claim()
    worker.phase(change, RunPhase.PLANNING)
    (run,) = change.runs
    write_plan(worker.store, run.id, PLAN, Redactor())
    worker.phase(change, RunPhase.APPLYING)
    lines: list[str] = []
    while "+ terraform_data.app" not in (lines or [""])[-1]:  # Its apply is not over yet.
        lines.append(process.stdout.readline())  # type: ignore[union-attr]
        assert lines[-1], lines
    worker.finish(change, Status.APPLIED)
    code, out, err = ended(process)
    assert (code, "+ terraform_data.app" in out, "1 applied" in out) == (0, False, True), err


@pytest.mark.usefixtures("worker")
def test_workers_and_the_audit_log_are_shown(repository: Program, server: MadeServer) -> None:
    (only,) = repository.json("runs", "workers")["workers"]
    assert f"{only['id']}  host  ready" in repository.ok("runs", "workers").out
    submitted = repository.json("plan", "app", "--server", "--detach")
    repository.ok("runs", "cancel", submitted["runs"][0]["id"], "--reason", "no")
    admin = {"HOLDFAST_TOKEN": server.admin}
    shown = repository.json("audit", "show", "--server", "--stack", "app", "--limit", "5", env=admin)
    assert [(entry["what"], entry["reason"]) for entry in shown["entries"]] == [("cancel", "no")]
    assert repository.json("audit", "show", "--server", "--since", "2999-01-01", env=admin)["entries"] == []
    assert "holdfast audit show --server" in repository.ok("audit", "show").out


def test_a_run_is_cancelled_retried_and_detached(repository: Program) -> None:
    submitted = repository.json("plan", "app", "--server", "--detach")
    (run,) = submitted["runs"]
    assert run["phase"] == "queued"
    cancelled = repository.json("runs", "cancel", run["id"], "--server", "--reason", "no")
    assert cancelled["run"]["status"] == "cancelled"
    shown = repository.json("runs", "show", run["id"])["run"]
    assert (shown["error"]["code"], shown["error"]["message"]) == ("HF-RUN-40", "cancelled by ada: no")
    assert repository.json("runs", "log", run["id"])["lines"] == ["app: cancelled by ada: no"]
    retried = repository.json("runs", "retry", run["id"], "--server", "--detach")["run"]
    assert (retried["retried_from"], retried["phase"]) == (run["id"], "queued")
    refused = repository.run("runs", "reconcile", run["id"], "--server")
    assert (refused.code, "no unknown outcome" in refused.err) == (3, True)


def test_ctrl_c_without_a_terminal_cancels_and_then_detaches(repository: Program, worker: Worker) -> None:
    process = repository.start("plan", "app", "--server")
    change = worker.claim()
    worker.phase(change, RunPhase.PLANNING)
    worker.say(change, "planning")
    eventually(lambda: "planning" in process.stdout.readline(), what="the first line")  # type: ignore[union-attr]
    interrupt(process)
    eventually(lambda: change_of(worker, change).cancel is not None, what="the request to cancel")
    interrupt(process)
    code, _, err = ended(process)
    assert (code, "continues on the server" in err) == (1, True), err


def test_a_terminal_is_asked_and_shows_what_is_in_progress(repository: Program, worker: Worker) -> None:
    """Ctrl-C asks; `no` leaves the change alone. A live table shows it."""
    following = Terminal(repository, ["plan", "app", "--server"], columns=100)
    change = worker.claim()
    worker.phase(change, RunPhase.PLANNING)
    worker.say(change, "planning")
    following.until("app: planning")
    following.press("\x03")
    following.until("Cancel the change on the server?")
    following.press("n\n")
    following.until("continues on the server")
    assert following.end() == 1
    assert change_of(worker, change).cancel is None
    watching = Terminal(repository, ["runs", "watch"], columns=100)
    watching.until("1 run in progress · 1 planning")
    worker.finish(change, Status.PLANNED)
    watching.until("0 runs in progress")
    watching.press("\x03")
    assert watching.end() == 0


def test_a_second_ctrl_c_on_a_terminal_asks_whether_to_stop_at_once(
    repository: Program, worker: Worker
) -> None:
    """What is in progress may be lost then, so it is never done without an answer; a third one leaves it."""
    submitted = repository.json("plan", "app", "--server", "--detach")
    following = Terminal(repository, ["runs", "watch", submitted["change"], "--server"], columns=160)
    change = worker.claim()
    worker.phase(change, RunPhase.PLANNING)
    worker.say(change, "planning")
    following.until("app: planning")

    def forced() -> bool:
        return change.id in worker.claiming.beat({change.id: change.fence}).forced

    following.press("\x03")
    following.until("Cancel the change on the server?")
    following.press("y\n")
    following.until("Press Ctrl-C again to stop it at once.")
    assert not forced()
    following.press("\x03")
    following.until("may be lost from the state")
    assert not forced()
    following.press("y\n")
    following.until("Stopping now")
    assert forced()
    following.press("\x03")
    following.until("continues")
    assert following.end() == 0


def test_options_that_a_server_does_not_have_are_refused(repository: Program) -> None:
    for arguments in (
        ("plan", "--server", "--out", "bundle"),
        ("apply", "--yes", "--server", "--continue"),
        ("plan", "--detach"),
        ("plan", "--server=app"),
    ):
        assert repository.run(*arguments).code == 64, arguments


def change_of(worker: Worker, change: Change) -> Any:
    return ChangeRows(worker.server.database).of(change.id)


def test_a_run_that_ended_without_a_result_is_shown(repository: Program, worker: Worker) -> None:
    """Its change failed before a plan existed: the error is that of the change."""
    process = repository.start("plan", "app", "--server", "--json")
    change = worker.claim()
    error = {"code": "HF-SRC-2", "message": "the uploaded archive was refused", "hint": None}
    worker.claiming.finish(change.id, change.fence, error)
    code, out, _ = ended(process)
    (item,) = json.loads(out)["stacks"]
    assert (code, item["status"], item["error"]["code"]) == (1, "failed", "HF-SRC-2")
    assert RunRows(worker.server.database).of(item["run"]) is not None
