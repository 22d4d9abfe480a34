from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from program import ME, Program
from small import on_a_terminal
from state_server import StateServer

SECRET = "correct-horse-9-battery"
CODE = """
    {backend}
    resource "terraform_data" "a" {{
      input = "{value}"
    }}
    resource "terraform_data" "locked" {{
      input = sensitive("{secret}-{value}")
    }}
    output "value" {{
      value = "{value}"
    }}
    output "password" {{
      value     = "{secret}-{value}"
      sensitive = true
    }}
"""
HOMES = {
    "kept": "",
    "local": 'terraform {\n  backend "local" {}\n}',
    "http": 'terraform {\n  backend "http" {}\n}',
}


@pytest.fixture
def server() -> Iterator[StateServer]:
    with StateServer() as running:
        yield running


def repository(holdfast: Program, server: StateServer, home: str) -> None:
    stack: dict[str, Any] = {"name": "a", "module": "app", "environment": "dev"}
    if home == "http":
        address = server.address("a")
        names = ("address", "lock_address", "unlock_address")
        stack["backend"] = {"type": "http", "settings": dict.fromkeys(names, address)}
    document = {"version": 1, "environments": {"dev": {"match": ["dev"]}}, "stacks": [stack]}
    holdfast.write("holdfast.yaml", json.dumps(document))
    code(holdfast, home, "one")


def code(holdfast: Program, home: str, value: str) -> None:
    holdfast.write("app/main.tf", CODE.format(backend=HOMES[home], value=value, secret=SECRET))


def applied(holdfast: Program, home: str, *values: str) -> None:
    for value in values:
        code(holdfast, home, value)
        holdfast.ok("apply", "--yes")


def versions(holdfast: Program) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = holdfast.json("state", "versions", "a")["versions"]
    return found


def pulled(holdfast: Program, *version: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(holdfast.ok("state", "pull", "a", *version).out)
    return found


def error(holdfast: Program, *arguments: str, code: int) -> dict[str, Any]:
    found: dict[str, Any] = holdfast.json(*arguments, code=code)["errors"][0]
    return found


@pytest.mark.parametrize(
    "home", ["kept", *(pytest.param(home, marks=pytest.mark.long) for home in ("local", "http"))]
)
def test_an_earlier_version_is_found_compared_and_brought_back(
    holdfast: Program, server: StateServer, home: str
) -> None:
    """Old content, a greater serial, the same lineage, what was there kept; and nothing secret is shown."""
    repository(holdfast, server, home)
    assert versions(holdfast) == []
    applied(holdfast, home, "one", "two")
    before = pulled(holdfast)
    document = holdfast.json("state", "versions", "a")
    found = document["versions"]
    assert document["managed"] is (home == "kept")
    assert (document["current"]["serial"], document["current"]["resources"]) == (before["serial"], 2)
    assert [one["current"] for one in found] == ([True, False] if home == "kept" else [False])
    goal = found[-1]
    assert (goal["serial"] < before["serial"], goal["lineage"]) == (True, before["lineage"])
    assert all(one["who"].startswith(f"{ME}@") and one["run"] and one["at"] for one in found)

    changed = holdfast.ok("state", "diff", "a", "--json").text
    _compare(json.loads(changed))
    shown = holdfast.ok("state", "show", "a", goal["name"]).text
    rolled = holdfast.ok("state", "rollback", "a", goal["name"], "--yes", "--json").text
    assert all(SECRET not in text for text in (changed, shown, rolled))
    assert [
        line.strip()
        for line in shown.splitlines()
        if line.strip().startswith(("terraform_data.a", "pass", "val"))
    ] == ["terraform_data.a", "password = (sensitive)", 'value = "one"']

    done = json.loads(rolled[: rolled.rindex("}") + 1])
    assert done["previous_serial"] == before["serial"] < done["serial"]
    assert done["plan"]["stacks"][0]["changes"]["update"] == 2
    after, old = pulled(holdfast), pulled(holdfast, goal["name"])
    assert (after["serial"], after["lineage"]) == (done["serial"], before["lineage"])
    assert (after["resources"], after["outputs"]) == (old["resources"], old["outputs"])
    assert pulled(holdfast, done["backup"])["resources"] == before["resources"]
    assert holdfast.json("runs", "list", "--limit", "2")["runs"][1]["operation"] == "rollback"


def _compare(changed: dict[str, Any]) -> None:
    assert changed["from"]["serial"] < changed["to"]["serial"]
    attributes = {
        one["address"]: {each["path"]: (each["before"], each["after"]) for each in one["attributes"]}
        for one in changed["resources"]
    }
    assert attributes["terraform_data.a"]["input.value"] == ("one", "two")
    assert attributes["terraform_data.locked"]["input"] == ("(sensitive)", "(sensitive)")
    assert [(one["name"], one["before"], one["after"]) for one in changed["outputs"]] == [
        ("password", "(sensitive)", "(sensitive)"),
        ("value", '"one"', '"two"'),
    ]


@pytest.mark.long
def test_without_a_yes_nothing_moves_and_with_one_older_plans_are_void(
    holdfast: Program, server: StateServer
) -> None:
    """Without a terminal it is a mistake; on one, the question follows what would change, and no means no."""
    repository(holdfast, server, "kept")
    applied(holdfast, "kept", "one", "two")
    assert error(holdfast, "state", "rollback", "a", "1", code=64)["code"] == "HF-USE-5"
    assert error(holdfast, "state", "rollback", "a", "serial:2", "--yes", code=64)["code"] == "HF-STATE-27"
    assert error(holdfast, "state", "show", "a", "7", code=64)["code"] == "HF-STATE-20"
    ended, shown, asked = on_a_terminal(
        holdfast, ["state", "rollback", "a", "1", "--no-color"], answers=["n"]
    )
    assert ended == 1
    assert "output value" in asked[0]
    assert SECRET not in shown
    assert pulled(holdfast)["serial"] == 2

    code(holdfast, "kept", "three")
    holdfast.ok("plan", "--out", "bundle")
    ended, shown, _ = on_a_terminal(holdfast, ["state", "rollback", "a", "1", "--no-color"], answers=["y"])
    assert ended == 0
    assert "Only the state changed" in shown
    holdfast.ok("apply", "--plan", "bundle", code=3)
    now = pulled(holdfast)
    assert (now["serial"], now["outputs"]["value"]["value"]) == (3, "one")


@pytest.mark.long
def test_a_damaged_local_state_comes_back_from_a_copy(holdfast: Program, server: StateServer) -> None:
    """What is left of the file stays beside it. Old copies go by count and age, as the configuration says."""
    repository(holdfast, server, "local")
    document = json.loads((holdfast.folder / "holdfast.yaml").read_text())
    holdfast.write("holdfast.yaml", json.dumps({**document, "backups": {"keep": 1, "max_age": "0s"}}))
    assert error(holdfast, "state", "backup", "a", code=64)["code"] == "HF-STATE-22"
    applied(holdfast, "local", "one")
    holdfast.ok("state", "backup", "a")
    copy = holdfast.json("state", "backup", "a")["name"]
    assert [(one["name"], one["current"]) for one in versions(holdfast)] == [(copy, True)]

    file = holdfast.folder / "app/terraform.tfstate"
    file.write_bytes(b"{ half")
    assert holdfast.results("plan", code=6)["a"]["status"] == "unknown"
    done = holdfast.json("state", "rollback", "a", copy.lower()[:-1], "--yes")
    assert (done["to"], done["previous_serial"], done["backup"]) == (copy, None, None)
    assert done["plan"]["stacks"][0]["status"] == "unchanged"
    assert [one.read_bytes() for one in file.parent.glob("terraform.tfstate.damaged-*")] == [b"{ half"]


@pytest.mark.long
def test_a_wrong_answer_and_a_lock_of_somebody_else_stop_it(holdfast: Program, server: StateServer) -> None:
    """No old state over a real one that is only out of sight; the copies are listed all the same."""
    repository(holdfast, server, "http")
    applied(holdfast, "http", "one", "two")
    kept = list(server.versions["a"])
    server.forget = True
    document = holdfast.json("state", "versions", "a")
    assert document["current"] is None
    assert "no state" in document["reason"]
    (copy,) = document["versions"]
    assert error(holdfast, "state", "rollback", "a", copy["name"], "--yes", code=6)["code"] == "HF-STATE-3"
    server.forget = False
    server.lock_as("a", "alice@laptop")
    found = error(holdfast, "state", "rollback", "a", copy["name"], "--yes", code=4)
    assert found["code"] == "HF-LOCK-1"
    assert "alice@laptop" in found["message"]
    assert server.versions["a"] == kept
