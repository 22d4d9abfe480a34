"""Ctrl-C and SIGTERM, with both engines: what was begun is finished and saved, and nothing stays behind."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_stacks import (
    ONE_THEN_TWO,
    ended,
    held,
    in_state,
    lab_module,
    left_behind,
    none_left,
    one_stack,
    with_engine,
)
from program import Program, eventually
from state_server import StateServer

from provider.service import Fault, LabService

_HTTP = ("TF_HTTP_ADDRESS", "TF_HTTP_LOCK_ADDRESS", "TF_HTTP_UNLOCK_ADDRESS")
ENGINES = pytest.mark.parametrize(
    "use",
    ["embedded", pytest.param("binary", marks=[pytest.mark.binary, pytest.mark.long])],
    ids=["embedded", "binary"],
)


def read_until(process: subprocess.Popen[str], text: str) -> None:
    """Wait for a line on standard error; fail when the program ends without it."""
    assert process.stderr is not None
    lines = ""
    while text not in lines:
        lines += process.stderr.readline() or pytest.fail(lines)


@pytest.fixture
def service() -> Iterator[LabService]:
    with LabService() as running:
        yield running


@ENGINES
@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)],
    ids=["ctrl-c", "sigterm"],
)
def test_once_is_graceful(
    with_lab: Program, service: LabService, terraform_folder: Path, use: str, number: signal.Signals
) -> None:
    """What was being made is finished and saved, nothing new is begun, the next plan knows what is left."""
    one_stack(with_lab, use=with_engine(with_lab, use, terraform_folder), env={"LAB_URL": service.url})
    service.misbehave(Fault(operation="create", what="hold", name="one"))
    process = with_lab.start("apply", "--yes", "--json")
    held(service, process, "create")
    process.send_signal(number)
    read_until(process, "Stopping")
    assert in_state(with_lab, "a") == set()
    eventually(lambda: service.stops > 0, what="Terraform tells its provider")
    service.release()
    results, _ = ended(process, code=1)
    assert not left_behind(with_lab)
    assert results["a"]["status"] == "cancelled"
    assert results["a"]["error"]["code"] == "HF-RUN-2"
    assert "1 of 2 changes completed and saved" in results["a"]["error"]["message"]
    assert in_state(with_lab, "a") == {"one"}
    assert [one["name"] for one in service.objects().values()] == ["one"]
    left = with_lab.results("plan")["a"]
    assert left["status"] == "planned"
    assert [one["address"] for one in left["resources"]] == ["lab_object.two"]


@ENGINES
def test_twice_is_at_once(with_lab: Program, service: LabService, terraform_folder: Path, use: str) -> None:
    """Nobody waits any more, the warning says so, and what was being made is unknown."""
    one_stack(with_lab, use=with_engine(with_lab, use, terraform_folder), env={"LAB_URL": service.url})
    service.misbehave(Fault(operation="create", what="hold", name="one"))
    process = with_lab.start("apply", "--yes", "--json")
    held(service, process, "create")
    process.send_signal(signal.SIGINT)
    read_until(process, "Ctrl-C again")
    process.send_signal(signal.SIGINT)
    results, rest = ended(process, code=6, seconds=20)
    assert "Stopping now" in rest
    none_left(with_lab)
    assert results["a"]["status"] == "unknown"
    assert results["a"]["error"]["code"] == "HF-RUN-7"
    assert "lab_object.one" in results["a"]["error"]["message"]
    assert "lab_object.two" not in results["a"]["error"]["message"]
    assert [one["name"] for one in service.objects().values()] == ["one"]


@ENGINES
def test_during_a_plan_nothing_is_changed(
    with_lab: Program, service: LabService, terraform_folder: Path, use: str
) -> None:
    """A stopped plan is cancelled, and stacks that had not begun are not begun."""
    one_stack(
        with_lab,
        use=with_engine(with_lab, use, terraform_folder),
        env={"LAB_URL": service.url},
        body='data "lab_object" "it" {\n  name = "x"\n}\n',
    )
    service.put("obj-1", {"name": "x"})
    service.misbehave(Fault(operation="find", what="hold"))
    process = with_lab.start("plan", "--json")
    held(service, process, "find")
    process.send_signal(signal.SIGINT)
    read_until(process, "Stopping")
    eventually(lambda: service.stops > 0, what="Terraform tells its provider")
    service.release()
    results, _ = ended(process, code=1)
    assert not left_behind(with_lab)
    assert results["a"]["status"] == "cancelled"
    assert "nothing was changed" in results["a"]["error"]["message"]
    assert with_lab.results("plan")["a"]["status"] == "unchanged"


def test_what_waits_is_not_begun(with_lab: Program, service: LabService) -> None:
    """After Ctrl-C only what is at work is finished; a stack that waited for it never begins."""
    entries = [
        {"name": "a", "module": "a", "env": {"LAB_URL": service.url}},
        {"name": "b", "module": "b", "depends_on": ["a"]},
    ]
    with_lab.write(
        "holdfast.yaml", json.dumps({"version": 1, "engine": {"use": "embedded"}, "stacks": entries})
    )
    with_lab.write("a/main.tf", lab_module(ONE_THEN_TWO))
    with_lab.write("b/main.tf", 'output "x" {\n  value = 1\n}\n')
    service.misbehave(Fault(operation="create", what="hold", name="one"))
    process = with_lab.start("apply", "--yes", "--json")
    held(service, process, "create")
    process.send_signal(signal.SIGINT)
    read_until(process, "Stopping")
    eventually(lambda: service.stops > 0, what="Terraform tells its provider")
    service.release()
    results, _ = ended(process, code=1)
    assert results["a"]["status"] == "cancelled"
    assert results["b"]["status"] == "blocked"
    none_left(with_lab)


@ENGINES
def test_a_provisioner_leaves_nothing_behind(
    holdfast: Program, terraform_folder: Path, tmp_path: Path, use: str
) -> None:
    """Terraform ends a provisioner's shell and not the shell's children: Holdfast ends those too."""
    one_stack(
        holdfast,
        use=with_engine(holdfast, use, terraform_folder),
        env={"STARTED": str(tmp_path / "user/started")},
        body="",
    )
    holdfast.write(
        "a/main.tf",
        """
        resource "terraform_data" "it" {
          provisioner "local-exec" {
            command = "touch $STARTED; sleep 600; true"
          }
        }
        """,
    )
    process = holdfast.start("apply", "--yes", "--json")
    eventually(
        lambda: (tmp_path / "user/started").exists() or process.poll() is not None, what="the provisioner"
    )
    process.send_signal(signal.SIGINT)
    results, _ = ended(process, code=1)
    none_left(holdfast)
    assert results["a"]["status"] == "cancelled"


@pytest.mark.long
def test_a_state_elsewhere_is_saved_and_read_again(with_lab: Program, service: LabService) -> None:
    """After Ctrl-C the state behind a server is written, unlocked and looked at, as after any apply."""
    with StateServer() as states:
        one_stack(
            with_lab,
            use="embedded",
            env={"LAB_URL": service.url, **dict.fromkeys(_HTTP, states.address("a"))},
            body='terraform {\n  backend "http" {}\n}\n' + ONE_THEN_TWO,
        )
        service.misbehave(Fault(operation="create", what="hold", name="one"))
        process = with_lab.start("apply", "--yes", "--json")
        held(service, process, "create")
        process.send_signal(signal.SIGINT)
        read_until(process, "Stopping")
        eventually(lambda: service.stops > 0, what="Terraform tells its provider")
        service.release()
        results, _ = ended(process, code=1)
        assert results["a"]["status"] == "cancelled"
        assert not [note for note in results["a"]["notes"] if "could not be read" in note]
        assert [one["name"] for one in states.state("a")["resources"]] == ["one"]
        assert states.locks == {}
