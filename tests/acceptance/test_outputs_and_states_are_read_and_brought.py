from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from program import Program

CODE = """
    resource "terraform_data" "a" {
      input = "here"
    }
    resource "terraform_data" "many" {
      for_each = toset(["x"])
    }
    output "name" {
      value = "reader"
    }
    output "list" {
      value = ["a", "ü"]
    }
    output "password" {
      value     = "hush-hush-hush"
      sensitive = true
    }
"""


def one_stack(holdfast: Program, code: str = CODE) -> Path:
    holdfast.write("holdfast.yaml", "version: 1\nstacks:\n  - {name: only, module: app}\n")
    holdfast.write("app/main.tf", code)
    return holdfast.folder / ".holdfast/states/only"


def error(holdfast: Program, *arguments: str, code: int) -> dict[str, Any]:
    found: dict[str, Any] = holdfast.json(*arguments, code=code)["errors"][0]
    return found


def test_outputs_are_shown_and_sensitive_ones_masked(holdfast: Program) -> None:
    """Text for people, JSON for machines, a secret for nobody; a name that is unknown is a mistake."""
    one_stack(holdfast)
    applied = holdfast.ok("apply", "--yes")
    assert "hush-hush-hush" not in applied.text
    assert holdfast.ok("output", "only").out.splitlines() == [
        'list = ["a", "ü"]',
        "name = reader",
        "password = (sensitive)",
    ]
    assert holdfast.ok("output", "only", "name").out == "reader\n"
    masked = holdfast.ok("output", "only", "password", code=1)
    assert "hush" not in masked.text
    assert "holdfast output only password --raw" in masked.err
    assert holdfast.json("output", "only") == {
        "version": 1,
        "stack": "only",
        "outputs": {
            "list": {"value": ["a", "ü"], "sensitive": False},
            "name": {"value": "reader", "sensitive": False},
            "password": {"value": None, "sensitive": True},
        },
    }
    unknown = error(holdfast, "output", "only", "nme", code=64)
    assert unknown["code"] == "HF-USE-9"
    assert "name" in unknown["hint"]


def test_a_value_for_a_script_is_printed_alone_and_recorded(holdfast: Program) -> None:
    """As Terraform prints it with -raw; a sensitive one only after the audit log has it."""
    more = 'output "number" {\n value = 1.5\n}\noutput "flag" {\n value = true\n}\n'
    one_stack(holdfast, CODE + more)
    holdfast.ok("apply", "--yes")
    for name, text in {"name": "reader", "number": "1.5", "flag": "true"}.items():
        assert holdfast.ok("output", "only", name, "--raw").out == text
    assert [entry["what"] for entry in holdfast.json("audit", "show")["entries"]] == ["apply", "apply"]
    assert holdfast.ok("output", "only", "password", "-raw").out == "hush-hush-hush"
    entry = holdfast.json("audit", "show")["entries"][0]
    assert (entry["what"], entry["stack"], entry["details"]) == ("output", "only", {"name": "password"})
    assert "name: password" in holdfast.ok("audit", "show").out
    holdfast.ok("audit", "verify")
    assert error(holdfast, "output", "only", "password", "--raw", code=64)["code"] == "HF-USE-29"
    masked = holdfast.json("output", "only", "password")["outputs"]["password"]
    assert masked == {"value": None, "sensitive": True}
    wrong = holdfast.ok("output", "only", "list", "--raw", code=1)
    assert wrong.out == ""
    assert "holdfast output only list --json" in wrong.err


def test_terraform_reads_several_stacks(holdfast: Program) -> None:
    """In order, each below its name; nothing that writes; the most severe result is the exit code."""
    names = ("dev/a", "dev/b", "dev/c")
    stacks = ", ".join(f"{{name: {name}, module: {name}, environment: dev}}" for name in names)
    holdfast.write(
        "holdfast.yaml", f"version: 1\nenvironments: {{dev: {{match: [dev]}}}}\nstacks: [{stacks}]\n"
    )
    for name in names:
        holdfast.write(f"{name}/main.tf", f'resource "terraform_data" "of_{name[-1]}" {{}}\n{CODE}')
    holdfast.ok("apply", "--yes")
    listed = holdfast.ok("terraform", "dev/*", "--", "state", "list").out.split("# ")
    assert [part.split("\n")[0] for part in listed] == ["", *names]
    assert "terraform_data.of_b\n" in listed[2]
    assert "terraform_data.of_b\n" not in listed[1]
    two = holdfast.ok("tofu", "dev/a", "dev/c", "--", "output", "-json", "password")
    assert two.out.count("# dev/") == 2
    assert "hush" not in two.text
    one = holdfast.ok("terraform", "dev/*", "--", "state", "show", "terraform_data.of_b", code=1)
    assert 'resource "terraform_data" "of_b"' in one.out
    refused = holdfast.ok("terraform", "dev/*", "--", "state", "rm", "terraform_data.of_b", code=3)
    assert "HF-USE-11" in refused.err
    assert holdfast.ok("terraform", "dev/b", "output", "name").out == '"reader"\n'


def test_a_stack_that_was_never_applied_has_no_outputs_and_no_state(holdfast: Program) -> None:
    """Nothing to show is no failure, and looking leaves no state behind."""
    state = one_stack(holdfast)
    assert holdfast.json("output", "only") == {"version": 1, "stack": "only", "outputs": {}}
    assert holdfast.json("state", "list", "only")["resources"] == []
    assert holdfast.ok("state", "pull", "only").out == ""
    assert not state.exists()


def test_a_state_is_listed_pulled_and_pushed(holdfast: Program, tmp_path: Path) -> None:
    """What is pulled is what Terraform holds, byte for byte, and can be pushed back."""
    one_stack(holdfast)
    holdfast.ok("apply", "--yes")
    assert holdfast.json("state", "list", "only")["resources"] == [
        "terraform_data.a",
        'terraform_data.many["x"]',
    ]
    pulled = json.loads(holdfast.ok("state", "pull", "only").out)
    assert {one["type"] for one in pulled["resources"]} == {"terraform_data"}
    pulled["serial"] += 5
    file = tmp_path / "state.json"
    file.write_text(json.dumps(pulled))
    pushed = holdfast.json("state", "push", "only", str(file))
    assert pushed["resources"] == 2
    assert pushed["lineage"] == pulled["lineage"]
    assert pushed["serial"] >= pulled["serial"]
    assert holdfast.results("plan")["only"]["status"] == "unchanged"


def test_a_managed_state_is_read_without_an_engine(holdfast: Program) -> None:
    """Holdfast stores it: a machine without a fitting engine can still look at it."""
    one_stack(holdfast)
    holdfast.ok("apply", "--yes")
    config = holdfast.folder / "holdfast.yaml"
    config.write_text(config.read_text() + 'engine: { version: "= 0.1.0" }\n')
    assert error(holdfast, "output", "only", code=64)["code"] == "HF-ENG-1"
    assert holdfast.ok("state", "list", "only").out.split() == [
        "terraform_data.a",
        'terraform_data.many["x"]',
    ]
    assert json.loads(holdfast.ok("state", "pull", "only").out)["serial"]


@pytest.mark.long
def test_a_push_that_would_lose_something_is_refused_and_the_state_untouched(
    holdfast: Program, tmp_path: Path
) -> None:
    """Garbage and a missing file are mistakes; another lineage and an older serial Terraform refuses."""
    one_stack(holdfast)
    holdfast.ok("apply", "--yes")
    before = holdfast.ok("state", "pull", "only").out
    file = tmp_path / "state.json"
    for content in (b"garbage", b'{"version": 4, "serial": 1}'):
        file.write_bytes(content)
        found = error(holdfast, "state", "push", "only", str(file), code=64)
        assert found["code"] == "HF-STATE-6"
    missing = error(holdfast, "state", "push", "only", str(tmp_path / "nowhere.json"), code=64)
    assert missing["code"] == "HF-STATE-6"
    for change in ({"lineage": "another"}, {"serial": 0}):
        file.write_text(json.dumps({**json.loads(before), **change}))
        assert error(holdfast, "state", "push", "only", str(file), code=1)["code"] == "HF-TF-5"
    assert holdfast.ok("state", "pull", "only").out == before
    assert holdfast.results("plan")["only"]["status"] == "unchanged"


@pytest.mark.parametrize("command", ["list", "pull", "push"])
def test_a_state_command_takes_one_stack_that_exists(holdfast: Program, command: str) -> None:
    """A name that means no stack is a mistake with a hint."""
    one_stack(holdfast)
    found = error(holdfast, "state", command, "onyl", *(["x"] if command == "push" else []), code=64)
    assert found["code"] == "HF-USE-8"
    assert "only" in found["hint"]
