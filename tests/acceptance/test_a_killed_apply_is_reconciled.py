"""An apply is killed between "created" and "recorded": that is said, and reconcile brings everything back."""

from __future__ import annotations

import base64
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_stacks import held, in_state, none_left, one_stack, warm_processes, with_engine
from program import Program, eventually
from small import on_a_terminal

from holdfast.runs.intent import Intent
from holdfast.secrets.keys import Key
from holdfast.store.place import FolderBlobs
from holdfast.store.run_records import StoredClaim
from holdfast.store.run_store import RunStore
from holdfast.system import clock, process_table
from provider.service import Fault, LabService


@pytest.fixture
def service() -> Iterator[LabService]:
    with LabService() as running:
        yield running


def store_of(program: Program) -> RunStore:
    key = Key.of(base64.b64decode((program.home / "key").read_text()))
    return RunStore(FolderBlobs(program.folder / ".holdfast"), lambda: key)


def made(service: LabService) -> dict[str, str]:
    """The ids of what is there, by name."""
    return {one["name"]: id_ for id_, one in service.objects().items()}


def applying(program: Program, service: LabService) -> subprocess.Popen[str]:
    """An apply that has made `one` and heard so, and has made `two` and has not heard it."""
    service.misbehave(Fault(operation="create", what="hold", name="two"))
    process = program.start("apply", "--yes", "--json")
    held(service, process, "create", 2)
    eventually(lambda: service.held("create", "two"), what="two is made, and nobody knows")
    return process


@pytest.fixture
def killed(with_lab: Program, service: LabService) -> Program:
    """The process that ran Terraform was killed there."""
    one_stack(with_lab, use="embedded", env={"LAB_URL": service.url})
    process = applying(with_lab, service)
    (victim,) = warm_processes(with_lab)
    os.kill(victim, signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == 6
    service.release()
    none_left(with_lab)
    return with_lab


def error_of(program: Program, *arguments: str, code: int) -> dict[str, Any]:
    """The first error of a document, of a stack or of the whole."""
    document = program.json(*arguments, code=code)
    errors = document["errors"] if "errors" in document else [document["stacks"][0]["error"]]
    error: dict[str, Any] = errors[0]
    return error


def open_run(program: Program) -> str:
    found = re.search(r"runs reconcile (\w+)", error_of(program, "plan", code=6)["hint"])
    assert found is not None
    return found[1]


def test_the_next_command_says_what_is_known(killed: Program, service: LabService) -> None:
    """Plan shows counts, addresses, ids and the one command that goes on; nothing is planned or applied."""
    one = made(service)["one"]
    error = error_of(killed, "plan", code=6)
    assert error["code"] == "HF-RUN-8"
    assert "The last apply of a was interrupted; its outcome is unknown." in error["message"]
    assert "Terraform exited without an exit record." in error["message"]
    assert (
        "Recorded in the state: 0 of 2.  Created and not recorded: 1.  Started, outcome unknown: 1."
        in error["message"]
    )
    assert re.search(rf"lab_object\.one +{one} +created .*, not in the state", error["message"])
    assert re.search(r"lab_object\.two +started .*, no output since", error["message"])
    run = open_run(killed)
    assert run in error["message"]
    for command in (("apply", "--yes"), ("plan", "--out", "bundle"), ("plan", "--destroy")):
        assert error_of(killed, *command, code=6)["code"] == "HF-RUN-8"
    assert not (killed.folder / "bundle/a").exists()
    text = killed.ok("plan", code=6).text
    assert f"holdfast runs reconcile {run}" in text
    killed.ok("state", "pull", "a")
    assert len(service.objects()) == 2


@pytest.mark.long
def test_a_wrong_reconcile_changes_nothing(killed: Program, service: LabService) -> None:
    """Without a yes, with nonsense, for what is not open: 64. A no is an answer, too."""
    run, before = open_run(killed), service.objects()
    wrong = {
        ("runs", "reconcile", run): "HF-USE-14",
        ("runs", "reconcile", run, "--yes", "--import", "nonsense"): "HF-USE-15",
        ("runs", "reconcile", run, "--yes", "--import", "=x"): "HF-USE-15",
        ("runs", "reconcile", run, "--yes", "--import", "a.b=1", "--import", "a.b=2"): "HF-USE-15",
        ("runs", "reconcile", run, "--yes", "--import", "lab_object.zero=x"): "HF-REC-8",
        ("runs", "reconcile", run, "--yes", "--holder-dead"): "HF-USE-13",
        ("runs", "reconcile", run, "--yes", "--reason", "so"): "HF-USE-13",
        ("runs", "reconcile", "01ZZZZ", "--yes"): "HF-RUN-20",
    }
    for command, code in wrong.items():
        assert error_of(killed, *command, code=64)["code"] == code, command
    code_, shown, asked = on_a_terminal(killed, ["runs", "reconcile", run], answers=["n"])
    assert code_ == 6, shown
    (question,) = asked
    assert "Created and not recorded: 1" in question
    assert re.search(rf"lab_object\.one +import {made(service)['one']}", question)
    assert "Nothing was changed" in shown
    assert "reconcile a: declined" in killed.ok("audit", "show").text
    assert in_state(killed, "a") == set()
    assert open_run(killed) == run
    assert service.objects() == before


def test_reconcile_brings_back_what_was_made(killed: Program, service: LabService) -> None:
    """What the journal knows is imported, and what a person names; nothing is made twice."""
    run, ids = open_run(killed), made(service)
    document = killed.json("runs", "reconcile", run, "--yes", "--import", f"lab_object.two={ids['two']}")
    assert {one["address"]: (one["id"], one["given"]) for one in document["imported"]} == {
        "lab_object.one": (ids["one"], False),
        "lab_object.two": (ids["two"], True),
    }
    assert document["resolved"]
    assert made(service) == ids
    assert killed.results("plan")["a"]["status"] == "unchanged"
    again = killed.ok("runs", "reconcile", run, "--yes")
    assert "Nothing to reconcile" in again.out
    none_left(killed)


AGAIN = ("--recreate", "lab_object.two")
"""A person looked for it, and it is not there."""


def held_reconcile(program: Program, service: LabService, run: str) -> subprocess.Popen[str]:
    """One that is in the middle of planning its imports."""
    service.forget_calls()
    service.misbehave(Fault(operation="read", what="hold", name="one"))
    process = program.start("runs", "reconcile", run, "--yes", *AGAIN, "--json")
    held(service, process, "read")
    return process


@pytest.mark.long
def test_one_reconcile_at_a_time(killed: Program, service: LabService) -> None:
    """The second one is told who is at it, changes nothing, and finds the run settled afterwards."""
    run = open_run(killed)
    service.remove(made(service)["two"])
    first = held_reconcile(killed, service, run)
    assert error_of(killed, "runs", "reconcile", run, "--yes", code=4)["code"] == "HF-LOCK-5"
    service.behave()
    out, err = first.communicate(timeout=60)
    assert first.returncode == 0, out + err
    assert "Nothing to reconcile" in killed.ok("runs", "reconcile", run, "--yes").out
    assert len(service.objects()) == 2


@pytest.mark.long
@pytest.mark.parametrize("moment", ["plan", "apply"])
def test_a_killed_reconcile_is_done_again(killed: Program, service: LabService, moment: str) -> None:
    """Killed while it plans its imports, or as it begins to apply them: the second time ends it.

    What nobody knows the end of is named, and made again; what is known is not.
    """
    run, one = open_run(killed), made(service)["one"]
    service.remove(made(service)["two"])
    if moment == "plan":
        process = held_reconcile(killed, service, run)
    else:
        process = killed.start("runs", "reconcile", run, "--yes", *AGAIN, "--json")
        begun = killed.folder / f".holdfast/runs/{run}/importing"
        eventually(lambda: begun.exists() or process.poll() is not None, what="the imports begin")
    process.kill()
    process.communicate(timeout=30)
    service.behave()
    none_left(killed)
    ran = killed.ok("runs", "reconcile", run, "--yes", *AGAIN)
    assert re.search(r"\? +lab_object\.two", ran.text)
    assert killed.results("plan")["a"]["status"] == "unchanged"
    assert made(service).keys() == {"one", "two"}
    assert made(service)["one"] == one
    none_left(killed)


@pytest.mark.parametrize(
    "use", ["embedded", pytest.param("binary", marks=[pytest.mark.binary, pytest.mark.long])]
)
def test_a_killed_holdfast_harms_nothing(
    with_lab: Program, service: LabService, terraform_folder: Path, use: str
) -> None:
    """While Terraform goes on, the stack is busy; afterwards plan works and says that the run was applied."""
    one_stack(with_lab, use=with_engine(with_lab, use, terraform_folder), env={"LAB_URL": service.url})
    process = applying(with_lab, service)
    process.kill()
    process.communicate(timeout=30)
    assert error_of(with_lab, "plan", code=4)["code"] == "HF-LOCK-2"
    (claim,) = store_of(with_lab).claims.all()
    assert error_of(with_lab, "runs", "reconcile", claim.run, "--yes", code=4)["code"] == "HF-LOCK-2"
    service.release()
    none_left(with_lab)
    result = with_lab.results("plan")["a"]
    assert result["status"] == "unchanged"
    assert any("was applied" in note for note in result["notes"]), result
    assert len(service.objects()) == 2
    assert "applied" in with_lab.ok("runs", "reconcile", claim.run, "--yes").out


def held_by_dead_process(program: Program, *, host: str | None, operation: str = "apply") -> str:
    """A claim of a process that is gone from this machine, or was on another one."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    store = store_of(program)
    process = process_table.this_process()._replace(pid=gone.pid, started="1")
    if host is not None:
        process = process._replace(host=host, machine="elsewhere")
    run = clock.new_id()
    started = "2026-01-02T03:04:05+00:00"
    intent = Intent(operation=operation, who="ci", started=started, process=process)
    assert store.claims.take(StoredClaim("a", run, intent.document())).run == run
    return run


@pytest.mark.long
def test_a_claim_of_the_dead_is_given_up(with_lab: Program, service: LabService) -> None:
    """Nothing here proves that a push elsewhere is over: a person's word frees the stack.

    A run that died here before Terraform was started needs no word: that is said, and the stack is planned.
    """
    one_stack(with_lab, use="embedded", env={"LAB_URL": service.url})
    with_lab.ok("plan")
    run = held_by_dead_process(with_lab, host="runner-9", operation="push")
    # What was written down of its plan is not its end.
    store_of(with_lab).runs.finish(run, {"id": run, "stack": "a", "status": "planned"})
    assert error_of(with_lab, "plan", code=6)["code"] == "HF-RUN-8"
    assert error_of(with_lab, "runs", "reconcile", run, "--yes", code=4)["code"] == "HF-LOCK-3"
    assert with_lab.results("plan", code=6)["a"]["status"] == "unknown"
    said = ("--holder-dead", "--reason", "the runner was shut down")
    document = with_lab.json("runs", "reconcile", run, "--yes", *said)
    assert (document["resolved"], document["status"]) == (True, "failed")
    held_by_dead_process(with_lab, host=None)
    result = with_lab.results("plan")["a"]
    assert result["status"] == "planned"
    assert any("before Terraform was started" in note for note in result["notes"]), result
    assert store_of(with_lab).claims.all() == ()
