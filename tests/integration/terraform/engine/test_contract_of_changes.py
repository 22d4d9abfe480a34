"""The same for every engine as a user meets it: several stacks in one change, of which one goes wrong."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engines import EMBEDDED, PROGRAMS, EngineUnderTest
from lab_stacks import (
    ended,
    held,
    in_state,
    kept_state,
    lab_module,
    left_behind,
    none_left,
    one_stack,
    warm_processes,
)
from program import Program

from provider.service import Fault, LabService

pytestmark = pytest.mark.parametrize(
    "any_engine",
    [*EMBEDDED, *(pytest.param(*one.values, marks=[*one.marks, pytest.mark.long]) for one in PROGRAMS)],
    indirect=True,
)


@pytest.fixture
def service() -> Iterator[LabService]:
    with LabService() as running:
        yield running


def three_stacks(program: Program, service: LabService, body: str, *, use: str, **of_b: str) -> None:
    """The stacks a, b and c at the same time; `of_b` is in the environment of b only."""
    entries: list[dict[str, Any]] = [
        {"name": name, "module": "m", "env": {"LAB_URL": service.url, "WHO": f"stack-{name}"}}
        for name in "abc"
    ]
    entries[1]["env"] |= of_b
    configuration = {"version": 1, "stacks": entries, "engine": {"use": use, "parallelism": 3}}
    program.write("holdfast.yaml", json.dumps(configuration))
    program.write("m/main.tf", lab_module(body))


def statuses(results: dict[str, Any]) -> dict[str, str]:
    return {name: one["status"] for name, one in results.items()}


_SHOW_ENVIRONMENT = """
data "lab_environment" "here" {
  names = ["GOGC", "ONLY_A", "ONLY_B", "TOKEN"]
}

output "seen" {
  value = sort(keys(data.lab_environment.here.values))
}

output "sum" {
  value = try(nonsensitive(sha256(data.lab_environment.here.values["TOKEN"])), "")
}
"""


def test_no_variable_leaks_from_one_stack_to_another(with_lab: Program, any_engine: EngineUnderTest) -> None:
    """In one change each stack's provider sees what its own configuration names, and nothing of another's."""
    entries = [
        {"name": "a", "module": "m", "env": {"ONLY_A": "1", "TOKEN": {"secret": "env:TOKEN_OF_A"}}},
        {"name": "b", "module": "m", "env": {"ONLY_B": "1"}},
        {"name": "without-provider", "module": "n"},
    ]
    with_lab.write(
        "holdfast.yaml",
        json.dumps(
            {
                "version": 1,
                "stacks": entries,
                "engine": {"use": any_engine.install(with_lab), "parallelism": 1},
            }
        ),
    )
    with_lab.write("m/main.tf", lab_module(_SHOW_ENVIRONMENT))
    with_lab.write("n/main.tf", 'resource "terraform_data" "it" {}\n')
    with_lab.environment |= {"TOKEN_OF_A": "hush-hush", "TOKEN": "callers", "ONLY_B": "callers"}
    ran = with_lab.ok("apply", "--yes", "--json")
    results = {one["name"]: one["outputs"] for one in json.loads(ran.out)["stacks"]}
    assert results["a"]["seen"]["value"] == ["ONLY_A", "TOKEN"]
    assert results["a"]["sum"]["value"] == hashlib.sha256(b"hush-hush").hexdigest()
    assert results["b"]["seen"]["value"] == ["ONLY_B"]
    assert "hush-hush" not in ran.text
    none_left(with_lab)


@pytest.mark.long
def test_two_provider_versions_in_one_change(
    with_lab: Program, any_engine: EngineUnderTest, tmp_path: Path
) -> None:
    """Schemas are kept without versions: stacks on two versions never share a process."""
    entries = [
        {"name": name, "module": name, "env": {"LAB_DIRECTORY": str(tmp_path / "objects")}} for name in "ab"
    ]
    with_lab.write(
        "holdfast.yaml",
        json.dumps(
            {
                "version": 1,
                "stacks": entries,
                "engine": {"use": any_engine.install(with_lab), "parallelism": 1},
            },
        ),
    )
    plain = 'resource "lab_object" "it" {\n  name = "x"\n}\n'
    colored = 'resource "lab_object" "it" {\n  name  = "x"\n  color = "red"\n}\n'
    with_lab.write("a/main.tf", lab_module(plain, version="1.0.0"))
    with_lab.write("b/main.tf", lab_module(colored, version="2.0.0"))
    results = with_lab.results("apply", "--yes")
    assert {name: one["status"] for name, one in results.items()} == dict.fromkeys("ab", "applied")


def test_a_panic_of_the_engine_harms_one_run(
    with_lab: Program, any_engine: EngineUnderTest, service: LabService
) -> None:
    """A real panic of Terraform or OpenTofu itself: its stack failed, with the reason; the others go on."""
    body = 'resource "lab_object" "it" {\n  name = "x"\n}\n'
    three_stacks(with_lab, service, body, use=any_engine.install(with_lab), LAB_PANIC="1")
    results = with_lab.results("apply", "--yes", code=1)
    assert statuses(results) == {"a": "applied", "b": "failed", "c": "applied"}
    error = results["b"]["error"]
    assert error["code"] == "HF-ENG-6"
    assert "runtime error: invalid memory address" in error["message"]
    assert len(service.objects()) == 2
    none_left(with_lab)
    three_stacks(with_lab, service, body, use=any_engine.use)
    assert statuses(with_lab.results("apply", "--yes")) == {
        "a": "unchanged",
        "b": "applied",
        "c": "unchanged",
    }


def test_a_process_that_dies_during_a_plan_harms_one_run(
    with_lab: Program, any_engine: EngineUnderTest, service: LabService
) -> None:
    """Kill a warm process while it plans: its stack failed with an engine error, the others are planned."""
    three_stacks(
        with_lab, service, 'data "lab_object" "it" {\n  name = "x"\n}\n', use=any_engine.install(with_lab)
    )
    service.put("obj-1", {"name": "x"})
    service.misbehave(Fault(operation="find", what="hold", count=3))
    process = with_lab.start("plan", "--json")
    held(service, process, "find", 3)
    (victim,) = warm_processes(with_lab, "WHO=stack-b")
    os.kill(victim, signal.SIGKILL)
    service.release()
    results, _ = ended(process, code=1)
    assert statuses(results) == {"a": "unchanged", "b": "failed", "c": "unchanged"}
    assert results["b"]["error"]["code"] == "HF-ENG-6"
    none_left(with_lab)


def test_a_process_that_dies_during_an_apply_is_unknown(
    with_lab: Program, any_engine: EngineUnderTest, service: LabService
) -> None:
    """A worker aborts during an apply, as after a fatal error in Go: its outcome is unknown, and found."""
    three_stacks(
        with_lab, service, 'resource "lab_object" "it" {\n  name = "x"\n}\n', use=any_engine.install(with_lab)
    )
    service.misbehave(Fault(operation="create", what="hold", count=3))
    process = with_lab.start("apply", "--yes", "--json")
    held(service, process, "create", 3)
    (victim,) = warm_processes(with_lab, "WHO=stack-b")
    os.kill(victim, signal.SIGABRT)
    service.release()
    results, _ = ended(process, code=6)
    assert statuses(results) == {"a": "applied", "b": "unknown", "c": "applied"}
    assert results["b"]["error"]["code"] == "HF-RUN-6"
    none_left(with_lab)
    recorded = {
        kept_state(with_lab, name)["resources"][0]["instances"][0]["attributes"]["id"] for name in "ac"
    }
    (lost,) = set(service.objects()) - recorded
    with_lab.ok("runs", "reconcile", results["b"]["run"], "--yes", "--import", f"lab_object.it={lost}")
    assert set(statuses(with_lab.results("plan")).values()) == {"unchanged"}
    assert len(service.objects()) == 3


def test_an_apply_survives_its_parent(
    with_lab: Program, any_engine: EngineUnderTest, service: LabService
) -> None:
    """Kill Holdfast itself during an apply: the warm process finishes, saves the state and ends."""
    one_stack(with_lab, use=any_engine.install(with_lab), env={"LAB_URL": service.url})
    service.misbehave(Fault(operation="create", what="hold", name="one"))
    process = with_lab.start("apply", "--yes")
    held(service, process, "create")
    process.kill()
    process.communicate(timeout=30)
    assert left_behind(with_lab)
    assert in_state(with_lab, "a") == set()
    service.release()
    none_left(with_lab)
    assert in_state(with_lab, "a") == {"one", "two"}
    assert {one["name"] for one in service.objects().values()} == {"one", "two"}
    assert with_lab.results("plan")["a"]["status"] == "unchanged"
