"""Terraform is stopped by force during a change, or killed before it starts: nothing is guessed."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from lab_stacks import held, lab_module, none_left, one_stack, with_engine
from program import Program, eventually

from provider.service import Fault, LabService

ENGINES = pytest.mark.parametrize(
    "use",
    ["embedded", pytest.param("binary", marks=[pytest.mark.binary, pytest.mark.long])],
    ids=["embedded", "binary"],
)
ONE = 'resource "lab_object" "one" {\n  name = "one"\n}\n'


def open_run(program: Program) -> str:
    (run,) = [run["id"] for run in program.json("runs", "list")["runs"] if run["status"] == "unknown"]
    return str(run)


def still_unknown(program: Program, address: str) -> dict[str, Any]:
    """Of plan, apply and a reconcile that only says yes: each names the resource and changes nothing."""
    for command in (("plan",), ("apply", "--yes")):
        result = program.results(*command, code=6)["a"]
        assert (result["status"], result["error"]["code"]) == ("unknown", "HF-RUN-8")
        assert "Started, outcome unknown: 1." in result["error"]["message"]
        assert f"{address}   started" in result["error"]["message"]
    run = open_run(program)
    (error,) = program.json("runs", "reconcile", run, "--yes", code=6)["errors"]
    assert (error["code"], address in error["message"]) == ("HF-REC-11", True)
    assert f"--recreate {address}" in error["hint"]
    assert open_run(program) == run
    return {"run": run}


@ENGINES
def test_a_time_limit_that_ends_a_create(with_lab: Program, terraform_folder: Path, use: str) -> None:
    """Terraform exits with 1, saves its state and calls the create failed. Nothing is created twice."""
    objects = Path(with_lab.environment["TF_VAR_objects"])
    stack = {
        "name": "a",
        "module": "a",
        "environment": "dev",
        "env": {"LAB_DELAY": "6", "LAB_DIRECTORY": str(objects)},
    }
    document = {
        "version": 1,
        "environments": {"dev": {"match": ["dev"]}},
        "stacks": [stack],
        "engine": {
            "use": with_engine(with_lab, use, terraform_folder),
            "time_limits": {"apply": "3s", "grace": "1s"},
        },
    }
    with_lab.write("holdfast.yaml", json.dumps(document))
    with_lab.write("a/main.tf", lab_module(ONE))
    result = with_lab.results("apply", "--yes", code=6)["a"]
    assert (result["status"], result["error"]["code"]) == ("unknown", "HF-TIME-2")
    assert "lab_object.one" in result["error"]["message"]
    none_left(with_lab)
    (there,) = objects.iterdir()
    run = still_unknown(with_lab, "lab_object.one")["run"]
    shown = with_lab.json("runs", "show", run)["run"]
    assert (shown["status"], shown["journal"]["ended"]["forced"]) == ("unknown", True)
    assert [path.name for path in objects.iterdir()] == [there.name]
    # What a person names is imported, and the stack goes on.
    id_ = json.loads(there.read_text())["id"]
    reconciled = with_lab.json("runs", "reconcile", run, "--yes", "--import", f"lab_object.one={id_}")
    assert [imported["id"] for imported in reconciled["imported"]] == [id_]
    assert with_lab.results("plan")["a"]["status"] == "unchanged"
    assert [path.name for path in objects.iterdir()] == [there.name]


def test_a_second_ctrl_c_during_an_update_and_a_create(with_lab: Program) -> None:
    """An update that was cut off is unknown too; the next plan refreshes it, so only creates need a word."""
    with LabService() as service:
        one_stack(with_lab, use="embedded", env={"LAB_URL": service.url}, body=ONE)
        with_lab.ok("apply", "--yes")
        changed = 'resource "lab_object" "one" {\n  name = "one"\n  body = "new"\n}\n'
        two = 'resource "lab_object" "two" {\n  name = "two"\n}\n'
        one_stack(with_lab, use="embedded", env={"LAB_URL": service.url}, body=changed + two)
        service.misbehave(Fault(operation="update", what="hold"))
        service.misbehave(Fault(operation="create", what="hold"))
        process = with_lab.start("apply", "--yes", "--json")
        held(service, process, "update")
        eventually(lambda: service.held("create", "two"), what="two is made, and Terraform waits")
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            eventually(lambda: service.stops > 0 or process.poll() is not None, what="Terraform stops")
        out, err = process.communicate(timeout=60)
        assert process.returncode == 6, out + err
        service.behave()
        none_left(with_lab)
        message = with_lab.results("plan", code=6)["a"]["error"]["message"]
        assert "Started, outcome unknown: 2." in message
        run = open_run(with_lab)
        (error,) = with_lab.json("runs", "reconcile", run, "--yes", code=6)["errors"]
        assert error["code"] == "HF-REC-11"
        assert "lab_object.two" in error["message"]
        assert "lab_object.one" not in error["message"]
        names = sorted(each["name"] for each in service.objects().values())
        assert names == ["one", "two"]
        for id_, each in service.objects().items():
            if each["name"] == "two":
                service.remove(id_)
        # The person looked: it does not exist, and is created by name.
        document = with_lab.json("runs", "reconcile", run, "--yes", "--recreate", "lab_object.two")
        assert document["remaining"]["status"] == "applied"
        assert sorted(each["name"] for each in service.objects().values()) == ["one", "two"]
        assert with_lab.results("plan")["a"]["status"] == "unchanged"


def test_a_terraform_whose_version_query_is_killed(holdfast: Program, tmp_path: Path) -> None:
    """It is asked again; if it is killed each time, that run fails. It is never "not installed" (exit 64)."""
    folder = tmp_path / "killed"
    folder.mkdir()
    counter = folder / "count"
    program = folder / "terraform"
    program.write_text(f"#!/bin/sh\necho x >> {counter}\nkill -9 $$\n")
    program.chmod(0o755)
    holdfast.environment["PATH"] = f"{folder}:{holdfast.environment['PATH']}"
    one_stack(holdfast, use="binary", env={}, body="")
    holdfast.write("a/main.tf", 'output "x" {\n  value = 1\n}\n')
    result = holdfast.results("apply", "--yes", code=1)["a"]
    assert (result["status"], result["error"]["code"]) == ("failed", "HF-ENG-8")
    assert str(program) in result["error"]["message"]
    assert counter.read_text().count("x") == 3
    shown = holdfast.json("doctor", code=64)
    assert {"path": str(program), "reason": "`version -json` was killed"} in shown["unusable"]
