"""A lane has one change at a time: the next one is told who is first, or waits."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from lab_stacks import ended, held, lab_module, none_left
from program import ME, Program, eventually
from small import on_a_terminal

from provider.service import Fault, LabService

KEY = base64.b64encode(bytes(32)).decode()


@pytest.fixture
def service() -> Iterator[LabService]:
    with LabService() as running:
        yield running


def repository(program: Program, service: LabService, **more: Any) -> None:
    """`a` and `a2` are in the lane `east`, `b` is in the lane `west`: each makes one object of its name."""
    lanes = {"a": "east", "a2": "east", "b": "west"}
    document = {
        "version": 1,
        "environments": {"dev": {"match": ["dev"]}},
        "targets": {lane: {"lane": lane} for lane in sorted(set(lanes.values()))},
        "stacks": [
            {
                "name": name,
                "module": name,
                "environment": "dev",
                "target": lane,
                "env": {"LAB_URL": service.url},
            }
            for name, lane in lanes.items()
        ],
        "engine": {"use": "embedded"},
        **more,
    }
    program.write("holdfast.yaml", json.dumps(document))
    for name in lanes:
        program.write(
            f"{name}/main.tf", lab_module(f'resource "lab_object" "it" {{\n  name = "{name}"\n}}\n')
        )


def at_work(
    program: Program, service: LabService, *arguments: str, on: str, env: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    """A change that holds its lanes until the service is told to go on."""
    service.misbehave(Fault(operation="create", what="hold", name=on))
    process = program.start("apply", *arguments, "--yes", "--json", env=env)
    held(service, process, "create")
    return process


def refused(program: Program, *arguments: str) -> dict[str, Any]:
    (error,) = program.json("apply", *arguments, code=4)["errors"]
    assert error["code"] == "HF-LOCK-4"
    found: dict[str, Any] = error
    return found


def made(service: LabService) -> dict[str, int]:
    return {name: len(ids) for name, ids in service.made().items()}


def waits(process: subprocess.Popen[str]) -> str:
    """What it says when it begins to wait."""
    assert process.stderr is not None
    said = ""
    while "waiting: " not in said:
        line = process.stderr.readline()
        assert line, f"it never waited: {said}"
        said += line
    return said


def test_the_second_change_of_a_lane_is_told_who_is_first(with_lab: Program, service: LabService) -> None:
    """Exit 4 names the lane, the change, who asked, what for and since when; plan needs no lane."""
    repository(with_lab, service)
    first = at_work(with_lab, service, "a", on="a")
    error = refused(with_lab, "a2", "--yes")
    words = ("lane `east`", "held by change 01", f"{ME}@", "apply of 1 stack,", "for ", "last heartbeat ")
    assert [word for word in words if word not in error["message"]] == []
    assert "--wait" in error["hint"]
    with_lab.ok("plan", "a2", "--out", "bundle")
    assert refused(with_lab, "--plan", "bundle")["message"].startswith("lane `east`")
    code, shown, asked = on_a_terminal(with_lab, ["apply", "a2", "--no-color"], answers=["y"])
    assert (code, asked) == (4, [])
    assert "HF-LOCK-4" in shown
    service.release()
    results, _ = ended(first, code=0)
    assert results["a"]["run"] in error["message"]
    assert with_lab.results("apply", "--plan", "bundle")["a2"]["status"] == "applied"
    assert made(service) == {"a": 1, "a2": 1}


@pytest.mark.long
def test_other_lanes_are_free_and_one_change_of_two_needs_both(
    with_lab: Program, service: LabService
) -> None:
    """While `west` is held, `east` goes on; a change of both begins nothing and gives `east` back."""
    repository(with_lab, service)
    first = at_work(with_lab, service, "b", on="b")
    assert refused(with_lab, "a", "b", "--yes")["message"].startswith("lane `west`")
    assert made(service) == {"b": 1}
    assert with_lab.results("apply", "a", "--yes")["a"]["status"] == "applied"
    service.release()
    ended(first, code=0)
    results = with_lab.results("apply", "--yes")
    assert {name: one["status"] for name, one in results.items()} == {
        "a": "unchanged",
        "a2": "applied",
        "b": "unchanged",
    }


@pytest.mark.long
def test_in_ci_the_next_change_waits_until_the_lane_is_free(with_lab: Program, service: LabService) -> None:
    """Nobody sits there to try again: it says whom it waits for, and then does what it was asked."""
    repository(with_lab, service, store=".holdfast")
    env = {"CI": "true", "HOLDFAST_KEY": KEY}
    first = at_work(with_lab, service, "a", on="a", env=env)
    second = with_lab.start("apply", "a", "a2", "--yes", "--json", env=env)
    assert "lane `east` is held by change" in waits(second)
    service.release()
    ended(first, code=0)
    results, _ = ended(second, code=0)
    assert {name: one["status"] for name, one in results.items()} == {"a": "unchanged", "a2": "applied"}
    assert made(service) == {"a": 1, "a2": 1}


@pytest.mark.long
def test_a_killed_change_keeps_its_lane_while_terraform_works(with_lab: Program, service: LabService) -> None:
    """The one who asked is dead, and what it began is not: the lane is free when that has ended too."""
    repository(with_lab, service)
    first = at_work(with_lab, service, "a", on="a")
    first.send_signal(signal.SIGKILL)
    first.communicate(timeout=60)
    error = refused(with_lab, "a2", "--yes")
    assert "its Holdfast process is gone, but Terraform is still running" in error["message"]
    assert "; stack a, run" in error["message"]
    second = with_lab.start("apply", "a2", "--yes", "--json", "--wait", "2m")
    assert "Terraform is still running" in waits(second)
    service.release()
    results, _ = ended(second, code=0)
    assert results["a2"]["status"] == "applied"
    assert with_lab.results("plan", "a")["a"]["status"] == "unchanged"
    assert made(service) == {"a": 1, "a2": 1}
    none_left(with_lab)


@pytest.mark.long
def test_a_change_killed_before_it_began_anything_leaves_its_lane_to_the_next(
    with_lab: Program, service: LabService
) -> None:
    """Its process is gone and nothing of it is at work: nobody has to say so."""
    repository(with_lab, service)
    service.misbehave(Fault(operation="create", what="hold", name="a"))
    first = with_lab.start("apply", "a", "--yes", "--json")
    lease = with_lab.folder / ".holdfast/leases/lanes/east"
    eventually(lease.exists, what="the lane is taken")
    first.send_signal(signal.SIGKILL)
    first.communicate(timeout=60)
    service.release()
    assert with_lab.results("apply", "a2", "--yes", "--wait", "1m")["a2"]["status"] == "applied"
    none_left(with_lab)


def test_without_a_target_each_environment_has_its_lane(with_lab: Program, service: LabService) -> None:
    """An apply in dev does not block one in prod; two in dev queue."""
    stacks = {"a": "dev", "a2": "dev", "b": "prod"}
    repository(
        with_lab,
        service,
        environments={"dev": {}, "prod": {}},
        stacks=[
            {"name": name, "module": name, "environment": environment, "env": {"LAB_URL": service.url}}
            for name, environment in stacks.items()
        ],
    )
    first = at_work(with_lab, service, "a", on="a")
    assert refused(with_lab, "a2", "--yes")["message"].startswith("lane `env:dev` is held by change")
    assert with_lab.results("apply", "b", "--yes")["b"]["status"] == "applied"
    service.release()
    ended(first, code=0)
