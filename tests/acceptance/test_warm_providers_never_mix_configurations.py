"""Warm providers: the same results as without, and one provider process for each configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from engines import EngineUnderTest
from lab_stacks import lab_module, none_left
from program import Program

CODE = """
variable "directory" {
  type = string
}

variable "names" {
  type = set(string)
}

provider "lab" {
  directory = var.directory
}

resource "lab_object" "it" {
  for_each = var.names
  name     = each.key
}

data "lab_environment" "here" {
  names = ["SECRET"]
}

output "pid" {
  value = data.lab_environment.here.pid
}

output "environment" {
  value = data.lab_environment.here.values
}
"""


def stacks(
    program: Program, entries: list[dict[str, Any]], *, parallelism: int = 4, warm: bool = True, use: str = ""
) -> None:
    shared = {"module": "a", "environment": "dev", "warm_providers": warm}
    document = {
        "version": 1,
        "environments": {"dev": {"match": ["dev"]}},
        "engine": {"use": use or "embedded", "parallelism": parallelism},
        "stacks": [{**shared, **entry} for entry in entries],
    }
    program.write("holdfast.yaml", json.dumps(document))
    program.write("a/main.tf", lab_module(CODE))


def directory(tmp_path: Path, name: str) -> Path:
    folder = tmp_path / "objects" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def names_in(folder: Path) -> set[str]:
    return {json.loads(file.read_text())["name"] for file in folder.glob("*.json")}


def outputs(program: Program, stack: str) -> dict[str, Any]:
    found = program.json("output", stack)["outputs"]
    return {name: output["value"] for name, output in found.items()}


@pytest.mark.parametrize(
    ("any_engine", "parallelism"),
    [
        pytest.param("embedded-terraform", 1, marks=pytest.mark.long),
        ("embedded-terraform", 4),
        pytest.param("embedded-tofu", 4, marks=pytest.mark.long),
    ],
    indirect=["any_engine"],
)
def test_two_configurations_never_mix(
    with_lab: Program, tmp_path: Path, any_engine: EngineUnderTest, parallelism: int
) -> None:
    """Stacks of two accounts over the same pool, in turns and side by side: each object is in its account."""
    accounts, numbers = ("one", "two"), range(4)
    entries = [
        {
            "name": f"{number}-{account}",
            "variables": {"directory": str(directory(tmp_path, account)), "names": [f"{account}-{number}"]},
        }
        for number in numbers
        for account in accounts
    ]
    stacks(with_lab, entries, parallelism=parallelism, use=any_engine.install(with_lab))
    done = with_lab.results("apply", "--yes")
    assert {stack["status"] for stack in done.values()} == {"applied"}
    assert {stack["engine"]["kind"] for stack in done.values()} == {"embedded"}
    assert {stack["engine"]["product"] for stack in done.values()} <= {any_engine.identity.product.value}
    assert not [note for stack in done.values() for note in stack["notes"] if "warm providers" in note]
    pids = {}
    for account in accounts:
        assert names_in(directory(tmp_path, account)) == {f"{account}-{number}" for number in numbers}
        pids[account] = {outputs(with_lab, f"{number}-{account}")["pid"] for number in numbers}
    assert not pids["one"] & pids["two"]
    assert len(pids["one"] | pids["two"]) < len(entries), "no process served two stacks"
    none_left(with_lab)


def test_a_process_with_credentials_serves_only_their_owner(with_lab: Program, tmp_path: Path) -> None:
    """The same provider configuration, other credentials in the environment: other processes."""
    entries = [
        {
            "name": f"{number}-{owner}",
            "env": {"SECRET": f"of {owner}"},
            "variables": {"directory": str(directory(tmp_path, "all")), "names": [f"{owner}-{number}"]},
        }
        for number in range(2)
        for owner in ("alice", "bob")
    ]
    stacks(with_lab, entries)
    with_lab.results("apply", "--yes")
    names = [str(entry["name"]) for entry in entries]
    found = {name: outputs(with_lab, name) for name in names}
    for name, values in found.items():
        assert values["environment"] == {"SECRET": f"of {name.partition('-')[2]}"}
    pids = {name: values["pid"] for name, values in found.items()}
    assert not {pids["0-alice"], pids["1-alice"]} & {pids["0-bob"], pids["1-bob"]}


@pytest.mark.long
def test_results_are_the_same_as_without(with_lab: Program, tmp_path: Path) -> None:
    """Plan, apply, a second plan, an update and a destroy: status, changes and objects are equal."""
    seen = []
    for warm in (False, True):
        folder = directory(tmp_path, f"warm-{warm}")
        steps: list[Any] = []
        for names in (["a", "b"], ["a", "b"], ["b", "c"]):
            entry = {"name": f"s-{warm}", "variables": {"directory": str(folder), "names": names}}
            stacks(with_lab, [entry], warm=warm)
            for words in (("plan",), ("apply", "--yes")):
                (result,) = with_lab.results(*words).values()
                steps.append((result["status"], result["changes"]))
            steps.append(names_in(folder))
        (result,) = with_lab.results("destroy", f"s-{warm}", "--yes-destroy", f"s-{warm}").values()
        steps.append((result["status"], names_in(folder)))
        seen.append(steps)
    assert seen[0] == seen[1]


def test_a_stack_that_cannot_have_them_says_why(with_lab: Program, tmp_path: Path) -> None:
    """It runs without, with the same result."""
    values = {"directory": str(directory(tmp_path, "all")), "names": ["a"]}
    stacks(with_lab, [{"name": "s", "variables": values}])
    module = with_lab.folder / "a/main.tf"
    module.write_text(module.read_text().replace("each.key\n", "each.key\n  body     = path.module\n"))
    ran = with_lab.ok("apply", "--yes")
    assert "warm providers are not used: the code in a uses path.module" in ran.err
    assert names_in(directory(tmp_path, "all")) == {"a"}


@pytest.mark.binary
def test_the_binary_engine_runs_without(with_lab: Program, tmp_path: Path, terraform_folder: Path) -> None:
    """A stack that moves to the binary engine needs no other configuration."""
    with_lab.environment["PATH"] = f"{terraform_folder}:{with_lab.environment['PATH']}"
    values = {"directory": str(directory(tmp_path, "all")), "names": ["a"]}
    stacks(with_lab, [{"name": "s", "variables": values}], use="binary")
    assert "only an embedded engine can keep them" in with_lab.ok("apply", "--yes").err
    assert names_in(directory(tmp_path, "all")) == {"a"}
