"""`state mv` inside a stack and to another one: shown, guarded, recorded, and never in no state at all."""

from __future__ import annotations

import base64
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_stacks import left_behind, none_left
from program import Program, eventually
from small import on_a_terminal
from state_server import StateServer
from terminal import Terminal

KEY = base64.b64encode(bytes(range(32))).decode()
TWO = 'resource "terraform_data" "x" {\n  count = 2\n}\nresource "terraform_data" "y" {}\n'
HTTP = 'terraform {\n  backend "http" {}\n}\n'
LOCAL = 'terraform {\n  backend "local" {}\n}\n'
MOVE = ("state", "mv", "a", "terraform_data.x", "module.m.terraform_data.z", "--to", "b")
MODULE = 'module "m" {\n  source = "../m"\n}\n'


@pytest.fixture
def server() -> Iterator[StateServer]:
    with StateServer() as running:
        yield running


def repository(holdfast: Program, *, a: str = "", b: str = "", server: StateServer | None = None) -> None:
    """Stack `a` has two resources, `b` will have them in a module; by default both states are managed."""
    stacks: list[dict[str, Any]] = [
        {"name": name, "module": name, "environment": "dev", "target": name} for name in ("a", "b")
    ]
    for stack, code in zip(stacks, (a, b), strict=True):
        if code == HTTP and server is not None:
            address = server.address(str(stack["name"]))
            settings = {"address": address, "lock_address": address, "unlock_address": address}
            stack["backend"] = {"type": "http", "settings": settings}
            stack["env"] = {"TF_HTTP_RETRY_MAX": "0"}
    configure(holdfast, stacks)
    holdfast.write("a/main.tf", a + TWO)
    holdfast.write("b/main.tf", b + MODULE)
    holdfast.write("m/main.tf", 'resource "terraform_data" "z" {\n  count = 2\n}\n')


def configure(holdfast: Program, stacks: list[dict[str, Any]], **more: Any) -> None:
    document = {
        "version": 1,
        "environments": {"dev": {"match": ["dev"]}},
        "targets": {"a": {"owner": "developers"}, "b": {"owner": "developers"}},
        "stacks": stacks,
        **more,
    }
    holdfast.environment["HOLDFAST_KEY"] = KEY
    holdfast.write("holdfast.yaml", json.dumps(document))


def addresses(holdfast: Program, stack: str) -> list[str]:
    listed: list[str] = holdfast.json("state", "list", stack)["resources"]
    return listed


def refusal(holdfast: Program, *arguments: str, code: int) -> dict[str, Any]:
    document = holdfast.json(*arguments, code=code)
    problem: dict[str, Any] = (document.get("errors") or [document["stacks"][0]["error"]])[0]
    return problem


BOTH = ["terraform_data.x[0]", "terraform_data.x[1]"]
MOVED = ["module.m.terraform_data.z[0]", "module.m.terraform_data.z[1]"]


def test_a_move_is_shown_confirmed_written_and_recorded(holdfast: Program) -> None:
    """Between managed states, into a stack without one. Afterwards neither stack has anything to do."""
    repository(holdfast)
    holdfast.ok("apply", "a", "--yes")
    asked = holdfast.ok(*MOVE, code=64)
    assert "terraform_data.x[1]  to  module.m.terraform_data.z[1]" in asked.text
    assert "--to b --yes" in asked.text
    code, _, questions = on_a_terminal(holdfast, MOVE, answers=["n"])
    assert (code, len(questions), addresses(holdfast, "b")) == (1, 1, [])
    terminal = Terminal(holdfast, MOVE)
    terminal.until("[y/N]")
    terminal.press("\x03")
    assert (terminal.end(), addresses(holdfast, "b")) == (1, [])
    done = holdfast.json(*MOVE, "--yes", "--reason", "b owns them")
    assert [(one["from"], one["to"]) for one in done["moved"]] == list(zip(BOTH, MOVED, strict=True))
    assert (done["backup"], done["destination"]["stack"], done["destination"]["resources"]) == ("1", "b", 2)
    assert "still declares terraform_data.x" in done["notes"][0]
    holdfast.write("a/main.tf", 'resource "terraform_data" "y" {}\n')
    plans = holdfast.results("plan")
    assert {name: plan["status"] for name, plan in plans.items()} == {"a": "unchanged", "b": "unchanged"}
    entries = [one for one in holdfast.json("audit", "show")["entries"] if one["what"] == "mv"]
    assert {(one["stack"], one["outcome"], one["reason"]) for one in entries} == {
        (stack, outcome, "b owns them") for stack in ("a", "b") for outcome in ("begun", "done")
    }
    assert {(one["details"]["from"], one["details"]["to"]) for one in entries} == {("a", "b")}
    runs = [one for one in holdfast.json("runs", "list")["runs"] if one["operation"] == "mv"]
    assert {(one["stack"], one["status"]) for one in runs} == {("a", "applied"), ("b", "applied")}
    assert [one["id"] for one in runs if one["stack"] == "b"] == [done["destination"]["run"]]


def test_inside_a_stack_terraform_decides_what_can_move(holdfast: Program) -> None:
    """An address that is taken, another type and a missing resource are refused; the state stays."""
    repository(holdfast)
    holdfast.ok("apply", "a", "--yes")
    move = ("state", "mv", "a", "terraform_data.x[0]")
    assert refusal(holdfast, *move, "terraform_data.x[1]", "--yes", code=3)["code"] == "HF-STATE-15"
    assert "types don't match" in refusal(holdfast, *move, "null_resource.x[0]", "--yes", code=3)["message"]
    for wrong in (("terraform_data.w", "terraform_data.v"), ("-lock=false", "x")):
        assert refusal(holdfast, "state", "mv", "a", "--yes", "--", *wrong, code=64)["code"] in {
            "HF-STATE-14",
            "HF-USE-1",
        }
    before = holdfast.json("state", "show", "a")["serial"]
    done = holdfast.json(*move, "terraform_data.first", "--yes")
    assert done["destination"] is None
    assert done["serial"] > before
    assert "terraform_data.first" in addresses(holdfast, "a")
    holdfast.ok("state", "mv", "a", "terraform_data.first", "terraform_data.x[0]", "--yes")
    assert holdfast.results("plan", "a")["a"]["status"] == "unchanged"


def test_to_weaker_rules_only_by_an_override_of_exactly_this_move(holdfast: Program) -> None:
    """From production to dev, or from CI to developers. The digest fits no other move."""
    repository(holdfast)
    stacks = json.loads((holdfast.folder / "holdfast.yaml").read_text())["stacks"]
    production = [{**stacks[0], "environment": "prod"}, stacks[1]]
    configure(holdfast, production)
    holdfast.ok("apply", "a", "--yes")
    problem = refusal(holdfast, *MOVE, "--yes", code=3)
    assert problem["code"] == "HF-GUARD-20"
    assert "production (prod) → dev" in problem["message"]
    digest = problem["hint"].split("--override ")[1].split()[0]
    other = ("state", "mv", "a", "terraform_data.y", "terraform_data.y", "--to", "b")
    assert refusal(holdfast, *other, "--override", digest, "--reason", "x", code=3)["code"] == "HF-STATE-12"
    # An edited checkout does not help: the last apply counts too.
    configure(holdfast, stacks)
    assert refusal(holdfast, *MOVE, "--yes", code=3)["code"] == "HF-GUARD-20"
    configure(holdfast, production, targets={"a": {"owner": "ci"}, "b": {"owner": "developers"}})
    assert refusal(holdfast, *MOVE, "--yes", code=3)["code"] == "HF-OWN-1"
    overridden = (*MOVE, "--override", digest, "--reason", "they were never in production")
    configure(holdfast, production, targets={"a": {"owner": "developers"}, "b": {"owner": "ci"}})
    assert refusal(holdfast, *overridden, code=3)["code"] == "HF-OWN-1"
    configure(holdfast, production)
    holdfast.ok(*overridden)
    assert addresses(holdfast, "b") == MOVED
    entries = [one for one in holdfast.json("audit", "show")["entries"] if one["what"] == "mv"]
    assert {one["break_glass"] for one in entries if one["stack"] == "a"} == {True}


@pytest.mark.long
def test_between_a_local_file_and_an_http_backend(holdfast: Program, server: StateServer) -> None:
    """Both are backed up first. A lock, an older state and a foreign one stop it, and nothing changes."""
    repository(holdfast, a=LOCAL, b=HTTP, server=server)
    holdfast.ok("apply", "a", "--yes")
    server.lock_as("b", "ada@workstation")
    assert "ada@workstation" in refusal(holdfast, *MOVE, "--yes", code=4)["message"]
    server.locks.clear()
    assert (server.versions, len(addresses(holdfast, "a"))) == ({}, 3)
    file = holdfast.folder / "a/terraform.tfstate"
    content = file.read_text()
    for changed in ({"serial": 0}, {"lineage": "another"}):
        file.write_text(json.dumps(json.loads(content) | changed))
        assert refusal(holdfast, *MOVE, "--yes", code=6)["code"] == "HF-STATE-10"
    file.write_text(content)
    done = holdfast.json(*MOVE, "--yes")
    assert addresses(holdfast, "a") == ["terraform_data.y"]
    assert [one["name"] for one in server.state("b")["resources"]] == ["z"]
    assert done["backup"] in {one["name"] for one in holdfast.json("state", "versions", "a")["versions"]}
    back = ("state", "mv", "b", "module.m.terraform_data.z", "terraform_data.x", "--to", "a", "--yes")
    assert holdfast.json(*back)["backup"] is not None
    assert server.state("b")["resources"] == []
    assert holdfast.results("plan", "a")["a"]["status"] == "unchanged"


def connected(server: StateServer) -> bool:
    """A killed process is gone a moment before its last thread, which still holds the connection."""
    port = f":{int(server.address('').split(':')[2].strip('/')):04X}"
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return any(row[2].endswith(port) and row[3] == "01" for row in rows)


def killed_while_writing(holdfast: Program, server: StateServer, *, workers: bool) -> None:
    """The destination has the write and has not answered. Terraform itself may finish, or is killed too."""
    process = holdfast.start(*MOVE, "--yes")
    eventually(lambda: server.held > 0 or process.poll() is not None, what="the destination is written")
    assert process.poll() is None, process.communicate()
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    if workers:
        for worker in left_behind(holdfast):
            os.kill(worker, signal.SIGKILL)
        eventually(lambda: not connected(server), what="the sender has hung up")
    server.release()
    none_left(holdfast)


def test_a_kill_between_the_two_writes_is_found_and_finished(holdfast: Program, server: StateServer) -> None:
    """First the destination was not written, then both states have the resources: both stacks say so.

    `runs reconcile` finds out which, finishes the move, and releases the lock of the killed push.
    """
    repository(holdfast, b=HTTP, server=server)
    holdfast.ok("apply", "a", "--yes")
    server.versions["b"] = [json.dumps({"version": 4, "serial": 1, "lineage": "l", "resources": []}).encode()]
    server.hold_writes = "fragile"
    killed_while_writing(holdfast, server, workers=True)
    run = refusal(holdfast, "plan", "b", code=6)["hint"].split()[-1]
    assert "nothing was moved" in holdfast.json("runs", "reconcile", run, "--yes")["notes"][0]
    assert (server.state("b")["resources"], server.locks) == ([], {})
    server.hold_writes = "saved"
    killed_while_writing(holdfast, server, workers=False)
    assert len(server.state("b")["resources"]) == 1
    for command in (("plan", "a"), ("plan", "b"), (*MOVE, "--yes")):
        problem = refusal(holdfast, *command, code=6)
        assert problem["code"] == "HF-RUN-8"
        assert "terraform_data.x[0] → module.m.terraform_data.z[0]" in problem["message"]
    runs = [one for one in holdfast.json("runs", "list")["runs"] if one["operation"] == "mv"]
    assert [one["status"] for one in runs] == ["unknown"] * 2 + ["failed"] * 2
    ended = holdfast.json("runs", "reconcile", runs[0]["id"], "--yes")
    assert "is complete" in ended["notes"][0]
    assert (addresses(holdfast, "a"), addresses(holdfast, "b")) == (["terraform_data.y"], MOVED)
    holdfast.write("a/main.tf", 'resource "terraform_data" "y" {}\n')
    assert {plan["status"] for plan in holdfast.results("plan").values()} == {"unchanged"}


@pytest.mark.long
def test_a_source_that_cannot_be_written_leaves_a_move_to_be_finished(
    holdfast: Program, server: StateServer
) -> None:
    """Exit 6 at once; before the destination has it, `runs reconcile` says that nothing was moved."""
    repository(holdfast, a=HTTP, server=server)
    holdfast.ok("apply", "a", "--yes")
    server.refuse_writes = 500
    problem = refusal(holdfast, *MOVE, "--yes", code=6)
    assert problem["code"] == "HF-STATE-17"
    run = problem["hint"].split()[-1]
    assert addresses(holdfast, "b") == MOVED
    server.refuse_writes = None
    assert "is complete" in holdfast.json("runs", "reconcile", run, "--yes")["notes"][0]
    assert addresses(holdfast, "a") == ["terraform_data.y"]
    back = ("state", "mv", "b", "module.m.terraform_data.z", "terraform_data.x", "--to", "a", "--yes")
    server.refuse_writes = 500
    run = refusal(holdfast, *back, code=6)["hint"].split()[-1]
    server.refuse_writes = None
    assert "nothing was moved" in holdfast.json("runs", "reconcile", run, "--yes")["notes"][0]
    assert (addresses(holdfast, "a"), addresses(holdfast, "b")) == (["terraform_data.y"], MOVED)


@pytest.mark.long
def test_others_at_work_are_neither_disturbed_nor_overwritten(holdfast: Program, server: StateServer) -> None:
    """While an apply runs: exit 4. What another writer puts into the source meanwhile stays there."""
    repository(holdfast, a=HTTP, b=HTTP, server=server)
    server.hold_writes = "saved"
    apply = holdfast.start("apply", "a", "--yes")
    eventually(lambda: server.held > 0 or apply.poll() is not None, what="the apply saves its state")
    for command in (MOVE, ("state", "rm", "a", "terraform_data.y")):
        assert refusal(holdfast, *command, "--yes", code=4)["code"] == "HF-LOCK-2"
    server.release()
    apply.communicate()
    assert (apply.returncode, len(addresses(holdfast, "a"))) == (0, 3)
    server.hold_writes = "saved"
    move = holdfast.start(*MOVE, "--yes")
    eventually(lambda: server.held > 0 or move.poll() is not None, what="the destination is written")
    state = server.state("a")
    state["serial"] += 5
    state["outputs"] = {"theirs": {"value": "x", "type": "string"}}
    server.versions["a"].append(json.dumps(state).encode())
    server.release()
    move.communicate()
    assert move.returncode == 6
    run = refusal(holdfast, "plan", "a", code=6)["hint"].split()[-1]
    assert "is complete" in holdfast.json("runs", "reconcile", run, "--yes")["notes"][0]
    assert (addresses(holdfast, "a"), addresses(holdfast, "b")) == (["terraform_data.y"], MOVED)
    assert "theirs" in server.state("a")["outputs"]
