"""A provider that looks in the wrong account finds nothing: nothing is created twice or forgotten."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lab_stacks import ONE_THEN_TWO, in_state, lab_module
from program import Program


def repository(program: Program, account: Path, *, environment: str) -> None:
    account.mkdir(exist_ok=True)
    stack = {"name": "a", "module": "a", "environment": environment, "env": {"LAB_DIRECTORY": str(account)}}
    document = {"version": 1, "environments": {"dev": {"match": ["dev"]}}, "stacks": [stack]}
    program.write("holdfast.yaml", json.dumps(document))
    program.write("a/main.tf", lab_module(ONE_THEN_TWO))


def codes(result: dict[str, Any]) -> set[str]:
    return {reason["code"] for reason in result["guard"]["reasons"] if reason["effect"] == "deny"}


@pytest.mark.parametrize("environment", ["dev", "prod"])
def test_a_wrong_account_neither_creates_nor_forgets_anything(
    with_lab: Program, tmp_path: Path, environment: str
) -> None:
    """Refused everywhere with the question to ask, also as --refresh-only; the state stays as it was."""
    repository(with_lab, tmp_path / "right", environment=environment)
    with_lab.ok("apply", "--yes")
    repository(with_lab, tmp_path / "wrong", environment=environment)
    for arguments in (("plan",), ("apply", "--yes"), ("plan", "--refresh-only")):
        result = with_lab.results(*arguments, code=3)["a"]
        assert "HF-GUARD-21" in codes(result)
        assert "right account, region and endpoint?" in result["error"]["message"]
    assert list((tmp_path / "wrong").iterdir()) == []
    assert in_state(with_lab, "a") == {"one", "two"}
    # A destroy does not say "no changes" about it: it empties the state, as Terraform does.
    destroy = ("destroy", "a", "--yes-destroy", "a")
    destroyed = with_lab.results(*destroy, code=0 if environment == "dev" else 3)["a"]
    assert any("right account, region and endpoint?" in note for note in destroyed["notes"])
    if environment == "dev":
        assert (destroyed["status"], in_state(with_lab, "a")) == ("applied", set())
    else:
        assert (codes(destroyed), in_state(with_lab, "a")) == ({"HF-GUARD-10"}, {"one", "two"})


def test_a_plan_in_the_wrong_account_does_not_make_a_lost_state_look_new(
    with_lab: Program, tmp_path: Path
) -> None:
    """What the plan did not find is still recorded: the state that then disappears is missed."""
    repository(with_lab, tmp_path / "right", environment="dev")
    code = with_lab.folder / "a/main.tf"
    code.write_text(code.read_text() + 'terraform {\n  backend "local" {}\n}\n')
    with_lab.ok("apply", "--yes")
    written = code.read_text()
    repository(with_lab, tmp_path / "wrong", environment="dev")
    code.write_text(written)
    with_lab.ok("plan", code=3)
    (with_lab.folder / "a/terraform.tfstate").unlink()
    error = with_lab.results("plan", code=6)["a"]["error"]
    assert (error["code"], "2 resources" in error["message"]) == ("HF-STATE-3", True)


def test_a_refresh_only_plan_shows_what_it_writes_and_the_guard_sees_it(
    with_lab: Program, tmp_path: Path
) -> None:
    """In production one missing resource is refused until a person overrides the denial of that plan."""
    account = tmp_path / "account"
    repository(with_lab, account, environment="prod")
    with_lab.ok("apply", "--yes")
    state = json.loads(with_lab.ok("state", "pull", "a").out)
    [deleted] = [
        one["instances"][0]["attributes"]["id"] for one in state["resources"] if one["name"] == "two"
    ]
    [file] = [file for file in account.iterdir() if deleted in file.name]
    file.unlink()
    assert codes(with_lab.results("apply", "--yes", code=3)["a"]) == {"HF-GUARD-15"}
    bundle = tmp_path / "bundle"
    shown = with_lab.ok("plan", "--refresh-only", "--out", str(bundle), code=3)
    assert "lab_object.two  removed from the state because it was not found" in shown.text
    result = with_lab.results("plan", "--refresh-only", code=3)["a"]
    assert [(one["address"], one["actions"], one["drift"]) for one in result["resources"]] == [
        ("lab_object.two", ["delete"], True)
    ]
    with_lab.ok("apply", "--plan", str(bundle), code=3)
    assert in_state(with_lab, "a") == {"one", "two"}
    [digest] = [json.loads(path.read_text())["digest"] for path in bundle.rglob("summary.json")]
    with_lab.ok("apply", "--plan", str(bundle), "--override", digest, "--reason", "deleted by hand")
    assert in_state(with_lab, "a") == {"one"}
