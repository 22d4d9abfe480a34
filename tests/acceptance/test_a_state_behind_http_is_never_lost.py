from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program import Program
from state_server import StateServer

SECRET = "correct-horse-battery"
CODE = """
    terraform {
      backend "http" {}
    }
    variable "n" {
      default = 1
    }
    resource "terraform_data" "a" {
      input = "a-value-only-the-state-knows"
    }
    output "n" {
      value = var.n
    }
"""


@pytest.fixture
def server() -> Iterator[StateServer]:
    with StateServer() as running:
        yield running


def configuration(server: StateServer, state: str = "net", more: str = "") -> str:
    address = server.address(state)
    return f"""
        version: 1
        stacks:
          - name: only
            module: app
            backend:
              type: http
              settings: {{address: "{address}", lock_address: "{address}", unlock_address: "{address}"{more}}}
            env: {{TF_HTTP_RETRY_MAX: "0", TF_HTTP_RETRY_WAIT_MIN: "1", TF_HTTP_RETRY_WAIT_MAX: "1"}}
    """


def one_stack(holdfast: Program, server: StateServer) -> None:
    holdfast.write("holdfast.yaml", configuration(server))
    holdfast.write("app/main.tf", CODE)


def error(holdfast: Program, *arguments: str, code: int) -> dict[str, Any]:
    document = holdfast.json(*arguments, code=code)
    found: dict[str, Any] = document["errors"][0] if "errors" in document else document["stacks"][0]["error"]
    return found


def holding(folder: Path, text: str) -> list[str]:
    """Files below a folder that hold a text."""
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and text.encode() in path.read_bytes()
    ]


def test_a_lock_that_somebody_holds_says_who(holdfast: Program, server: StateServer) -> None:
    """Exit 4 at once, with the holder's name; nothing is written and the lock stays theirs."""
    one_stack(holdfast, server)
    server.lock_as("net", "ada@workstation")
    for command in (("plan",), ("apply", "--yes")):
        found = error(holdfast, *command, code=4)
        assert found["code"] == "HF-LOCK-1"
        assert "ada@workstation" in found["message"]
    assert server.locks["net"]["Who"] == "ada@workstation"
    assert server.versions == {}


def test_a_state_that_could_not_be_saved_stops_the_stack_until_it_is_pushed(
    holdfast: Program, server: StateServer
) -> None:
    """The only copy is kept sealed, named with the command that recovers it, and nothing is lost."""
    one_stack(holdfast, server)
    server.refuse_writes = 500
    found = error(holdfast, "apply", "--yes", code=6)
    assert found["code"] == "HF-STATE-5"
    sealed = holdfast.folder / ".holdfast/errored/only/unsaved"
    assert "holdfast runs reconcile" in found["hint"]
    assert sealed.stat().st_mode & 0o777 == 0o600
    assert holding(holdfast.folder, "a-value-only-the-state-knows") == ["app/main.tf"]
    assert list(holdfast.home.rglob("errored.tfstate")) == []
    server.refuse_writes = None
    for command in (("plan",), ("apply", "--yes")):
        again = error(holdfast, *command, code=6)
        assert again["code"] == "HF-RUN-8"
        assert "holdfast runs reconcile" in again["hint"]
    assert server.versions == {}
    holdfast.ok("state", "push", "only")
    assert len(server.state("net")["resources"]) == 1
    planned = holdfast.results("plan")["only"]
    assert planned["status"] == "unchanged"
    assert not sealed.exists()
    assert len(list(sealed.parent.glob("pushed-*"))) == 1


@pytest.mark.long
def test_only_the_unsaved_state_itself_settles_it(
    holdfast: Program, server: StateServer, tmp_path: Path
) -> None:
    """An older copy pushed meanwhile does not make the unsaved one go away."""
    one_stack(holdfast, server)
    holdfast.ok("apply", "--yes")
    older = tmp_path / "older.json"
    older.write_bytes(server.versions["net"][-1])
    holdfast.write("app/more.tf", 'resource "terraform_data" "b" {}\n')
    server.refuse_writes = 403
    error(holdfast, "apply", "--yes", code=6)
    server.refuse_writes = None
    holdfast.ok("state", "push", "only", str(older))
    assert error(holdfast, "plan", code=6)["code"] == "HF-STATE-5"
    holdfast.ok("state", "push", "only")
    assert holdfast.results("plan")["only"]["status"] == "unchanged"
    assert len(server.state("net")["resources"]) == 2


def test_an_unsaved_state_of_a_killed_run_is_found_by_the_next_one(
    holdfast: Program, server: StateServer
) -> None:
    """Holdfast itself was killed before it could keep the copy: it still lies in the work directory."""
    one_stack(holdfast, server)
    holdfast.ok("apply", "--yes")
    left = json.loads(server.versions["net"][-1])
    left["serial"] += 1
    left["outputs"]["n"]["value"] = 2
    [module] = holdfast.home.glob("work/*/only/0/tree/app")
    (module / "errored.tfstate").write_text(json.dumps(left))
    holdfast.write("app/main.tf", CODE.replace("default = 1", "default = 2"))
    found = error(holdfast, "plan", code=6)
    assert found["code"] == "HF-STATE-5"
    assert not (module / "errored.tfstate").exists()
    holdfast.ok("state", "push", "only")
    assert holdfast.results("plan")["only"]["status"] == "unchanged"


def test_a_server_that_forgets_a_state_is_not_believed(holdfast: Program, server: StateServer) -> None:
    """A 404 where resources were is an unknown outcome, never `create everything`."""
    one_stack(holdfast, server)
    holdfast.ok("apply", "--yes")
    server.forget = True
    for command in (("plan",), ("apply", "--yes"), ("output", "only"), ("state", "list", "only")):
        found = error(holdfast, *command, code=6)
        assert found["code"] == "HF-STATE-3"
        assert "1 resource" in found["message"]
    server.forget = False
    assert holdfast.results("plan")["only"]["status"] == "unchanged"
    assert len(server.versions["net"]) == 1


def test_another_address_that_is_empty_is_refused_with_both_places_in_words(
    holdfast: Program, server: StateServer
) -> None:
    """Two addresses can be told apart by a person, and no password in one is shown."""
    one_stack(holdfast, server)
    holdfast.ok("apply", "--yes")
    holdfast.write("holdfast.yaml", configuration(server, "other"))
    found = error(holdfast, "plan", code=3)
    assert found["code"] == "HF-STATE-2"
    assert server.address("net") in found["message"]
    assert server.address("other") in found["message"]


def test_a_password_goes_by_environment_and_stays_nowhere(holdfast: Program, tmp_path: Path) -> None:
    """Not in what init remembers, the work directory, the record, the bundle or on the screen."""
    with StateServer(user=("robot", SECRET)) as server:
        more = ', username: robot, password: {secret: "env:STATE_PASSWORD"}'
        holdfast.write("holdfast.yaml", configuration(server, more=more))
        holdfast.write("app/main.tf", CODE)
        holdfast.environment["STATE_PASSWORD"] = SECRET
        planned = holdfast.ok("plan", "--out", str(tmp_path / "bundle"))
        applied = holdfast.ok("apply", "--plan", str(tmp_path / "bundle"))
        assert "only" in planned.text
        assert SECRET not in planned.text + applied.text
        assert server.state("net")["resources"]
        for folder in (holdfast.folder, holdfast.home, tmp_path / "bundle"):
            assert holding(folder, SECRET) == []
        remembered = next(holdfast.home.rglob(".terraform/terraform.tfstate")).read_text()
        assert server.address("net") in remembered
        assert holdfast.results("plan")["only"]["status"] == "unchanged"
