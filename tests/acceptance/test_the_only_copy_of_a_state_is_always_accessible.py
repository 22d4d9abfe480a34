"""A backend that answers nothing leaves a state without serial and lineage, and its own lock behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program import Program, eventually
from state_server import StateServer

CODE = """
    terraform {{
      backend "http" {{}}
    }}
    resource "terraform_data" "a" {{
      input = "one"
      provisioner "local-exec" {{
        command = "touch {reached}; while [ ! -e {go} ]; do sleep 0.05; done"
      }}
    }}
"""


@pytest.fixture
def server() -> Iterator[StateServer]:
    with StateServer() as running:
        yield running


def repository(holdfast: Program, server: StateServer, code: str) -> None:
    settings = dict.fromkeys(("address", "lock_address", "unlock_address"), server.address("a"))
    retry = {"TF_HTTP_RETRY_MAX": "0", "TF_HTTP_RETRY_WAIT_MIN": "1", "TF_HTTP_RETRY_WAIT_MAX": "1"}
    stack = {"name": "a", "module": "app", "backend": {"type": "http", "settings": settings}, "env": retry}
    document = {
        "version": 1,
        "environments": {"dev": {"match": ["dev"]}},
        "stacks": [stack | {"environment": "dev"}],
    }
    holdfast.write("holdfast.yaml", json.dumps(document))
    holdfast.write("app/main.tf", code)


def error(holdfast: Program, *arguments: str, code: int) -> dict[str, Any]:
    document = holdfast.json(*arguments, code=code)
    problem: dict[str, Any] = (
        document["errors"][0] if "errors" in document else document["stacks"][0]["error"]
    )
    return problem


def apply_into_an_outage(holdfast: Program, server: StateServer, tmp_path: Path) -> dict[str, Any]:
    """The backend stops answering in the middle of the first apply. The error of the apply."""
    signals = tmp_path / "signals"
    signals.mkdir()
    reached, go = signals / "reached", signals / "go"
    repository(holdfast, server, CODE.format(reached=reached, go=go))
    process = holdfast.start("apply", "--yes", "--json")
    eventually(lambda: reached.exists() or process.poll() is not None, what="the resource is created")
    server.outage = True
    go.touch()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 6, out + err
    problem: dict[str, Any] = json.loads(out)["stacks"][0]["error"]
    return problem


@pytest.mark.long
def test_a_first_apply_in_an_outage_is_saved_by_the_command_that_the_hint_names(
    holdfast: Program, server: StateServer, tmp_path: Path
) -> None:
    """The copy can be listed and read; a refused reconcile leaves it; reconcile saves it and unlocks."""
    problem = apply_into_an_outage(holdfast, server, tmp_path)
    assert problem["code"] == "HF-STATE-5"
    listed = holdfast.json("state", "versions", "a")["unsaved"]
    assert [(one["name"], one["serial"], one["lineage"], one["resources"]) for one in listed] == [
        ("unsaved", 0, "", 1)
    ]
    shown = holdfast.json("state", "show", "a", "--unsaved")
    assert [one["address"] for one in shown["resources"]] == ["terraform_data.a"]
    copy = holdfast.ok("state", "pull", "a", "--unsaved").out
    run = problem["hint"].rpartition(" ")[2]
    holdfast.run("runs", "reconcile", run, "--yes")
    assert holdfast.ok("state", "pull", "a", "--unsaved").out == copy
    server.outage = False
    assert server.locks["a"]
    assert error(holdfast, "plan", code=6)["code"] == "HF-RUN-8"
    assert f"holdfast runs reconcile {run}" in error(holdfast, "state", "push", "a", code=4)["hint"]
    holdfast.ok("runs", "reconcile", run, "--yes")
    assert server.state("a")["resources"][0]["instances"][0]["attributes"]["input"]["value"] == "one"
    assert not server.locks
    assert holdfast.results("plan")["a"]["status"] == "unchanged"


@pytest.mark.parametrize("strict", [False, True], ids=["usual", "one lineage"])
def test_a_push_into_an_emptied_backend_keeps_the_lineage(
    holdfast: Program, server: StateServer, tmp_path: Path, *, strict: bool
) -> None:
    """Then earlier versions can still be restored. A backend that refuses the lineage gets the content."""
    server.one_lineage = strict
    code = (
        'terraform {{\n  backend "http" {{}}\n}}\nresource "terraform_data" "a" {{\n  input = "{value}"\n}}\n'
    )
    for value in ("one", "two", "three"):
        repository(holdfast, server, code.format(value=value))
        holdfast.ok("apply", "--yes")
    before = server.state("a")
    file = tmp_path / "state.json"
    file.write_text(holdfast.ok("state", "pull", "a").out)
    server.versions.clear()
    assert error(holdfast, "plan", code=6)["code"] == "HF-STATE-3"
    holdfast.ok("state", "push", "a", str(file))
    now = server.state("a")
    assert now["resources"] == before["resources"]
    assert now["serial"] > before["serial"]
    assert holdfast.results("plan")["a"]["status"] == "unchanged"
    assert (now["lineage"] == before["lineage"]) != strict
    if not strict:
        [first, *_] = reversed(holdfast.json("state", "versions", "a")["versions"])
        holdfast.ok("state", "rollback", "a", first["name"], "--yes")
        assert server.state("a")["resources"][0]["instances"][0]["attributes"]["input"]["value"] == "one"


def test_a_file_with_the_name_of_an_unsaved_state_is_not_believed(holdfast: Program, tmp_path: Path) -> None:
    """From the repository or from a provisioner: no state loses a resource by it."""
    stack = {"name": "a", "module": "app", "environment": "prod"}
    prod = {"environments": {"prod": {"provisioners": "allow"}}}
    document = {"version": 1, "environments": {"prod": {"match": ["prod"]}}, "guard": prod, "stacks": [stack]}
    holdfast.write("holdfast.yaml", json.dumps(document))
    both = 'resource "terraform_data" "a" {}\nresource "terraform_data" "b" {}\n'
    holdfast.write("app/main.tf", both)
    holdfast.ok("apply", "--yes")
    state = json.loads(holdfast.ok("state", "pull", "a").out)
    forged = json.dumps(state | {"resources": state["resources"][:1], "serial": state["serial"] + 9})
    held = {"terraform_data.a", "terraform_data.b"}
    # In the repository: not copied.
    holdfast.write("app/errored.tfstate", forged)
    holdfast.write("app/main.tf", f'{both}output "x" {{\n  value = fileexists("errored.tfstate")\n}}\n')
    for _ in range(2):
        holdfast.ok("plan")
    assert holdfast.json("state", "versions", "a")["unsaved"] == []
    # By the apply itself, which may do more: its loss is refused like any other.
    (holdfast.folder / "app/errored.tfstate").unlink()
    source = tmp_path / "forged.json"
    source.write_text(forged)
    provisioner = f'provisioner "local-exec" {{\n    command = "cp {source} errored.tfstate"\n  }}'
    holdfast.write("app/main.tf", f'{both}resource "terraform_data" "c" {{\n  {provisioner}\n}}\n')
    assert error(holdfast, "apply", "--yes", code=6)["code"] == "HF-STATE-5"
    run = holdfast.json("runs", "list")["runs"][0]["id"]
    refused = error(holdfast, "runs", "reconcile", run, "--yes", code=3)
    assert refused["code"] == "HF-GUARD-1"
    assert "holdfast state push a --override" in refused["hint"]
    assert held <= set(holdfast.json("state", "list", "a")["resources"])
