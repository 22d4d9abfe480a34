from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from program import Program

CODE = """
    variable "n" {
      type    = number
      default = 1
    }
    resource "terraform_data" "a" {
      input = var.n
    }
    output "n" {
      value = terraform_data.a.output
    }
"""


def one_stack(holdfast: Program, code: str = CODE) -> None:
    holdfast.write("holdfast.yaml", "version: 1\nstacks:\n  - name: only\n    module: app\n")
    holdfast.write("app/main.tf", code)


def a_state(lineage: str = "11111111-2222-3333-4444-555555555555", serial: int = 7) -> str:
    """What `terraform apply` of CODE by hand would have left."""
    kept: dict[str, Any] = {
        "version": 4,
        "terraform_version": "1.9.0",
        "serial": serial,
        "lineage": lineage,
        "outputs": {"n": {"value": 1, "type": "number"}},
        "resources": [
            {
                "mode": "managed",
                "type": "terraform_data",
                "name": "a",
                "provider": 'provider["terraform.io/builtin/terraform"]',
                "instances": [
                    {
                        "schema_version": 0,
                        "attributes": {
                            "id": "6f0e0d52-0000-4000-8000-000000000001",
                            "input": {"value": 1, "type": "number"},
                            "output": {"value": 1, "type": "number"},
                            "triggers_replace": None,
                        },
                    }
                ],
            }
        ],
        "check_results": None,
    }
    return json.dumps(kept)


def modes(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in sorted(folder.rglob("*"))
    }


def error(holdfast: Program, *arguments: str, code: int) -> dict[str, Any]:
    """The error of the one stack, or of the command."""
    document = holdfast.json(*arguments, code=code)
    found: dict[str, Any] = document["errors"][0] if "errors" in document else document["stacks"][0]["error"]
    return found


def test_the_state_lies_in_the_run_store_private_and_ignored_by_git(holdfast: Program) -> None:
    """Nobody else reads a kept state, Git never offers it for a commit, and `a` leaves `a/b` alone."""
    holdfast.write(
        "holdfast.yaml",
        """
        version: 1
        stacks:
          - {name: a, module: app, variables: {n: 1}}
          - {name: a/b, module: app, variables: {n: 2}}
        """,
    )
    holdfast.write("app/main.tf", CODE)
    holdfast.commit_all()
    applied = holdfast.results("apply", "--yes")
    assert {name: one["outputs"]["n"]["value"] for name, one in applied.items()} == {"a": 1, "a/b": 2}
    store = holdfast.folder / ".holdfast"
    first = json.loads(holdfast.ok("state", "pull", "a").out)
    second = json.loads(holdfast.ok("state", "pull", "a/b").out)
    assert first["lineage"] != second["lineage"]
    assert first["outputs"]["n"]["value"] == 1
    assert second["outputs"]["n"]["value"] == 2
    assert holdfast.git("status", "--porcelain") == ""
    holdfast.write("app/more.tf", 'resource "terraform_data" "b" {}')
    holdfast.ok("apply", "--yes")  # a second apply leaves backups, marks and locks too
    assert stat.S_IMODE(store.stat().st_mode) == 0o700
    wrong = {
        path: oct(mode)
        for path, mode in modes(store).items()
        if mode != (0o700 if (store / path).is_dir() else 0o600)
    }
    assert wrong == {}
    assert holdfast.git("status", "--porcelain") == "?? app/more.tf\n"


@pytest.mark.parametrize(
    ("leftover", "command"),
    [
        ("terraform.tfstate", ("plan",)),
        ("terraform.tfstate", ("apply", "--yes")),
        ("terraform.tfstate.d/blue/terraform.tfstate", ("plan",)),
    ],
)
def test_a_state_beside_the_module_is_never_ignored(
    holdfast: Program, command: tuple[str, ...], leftover: str
) -> None:
    """Starting anew beside somebody's state would create everything twice: refused, naming the way."""
    one_stack(holdfast)
    file = holdfast.write(f"app/{leftover}", a_state())
    found = error(holdfast, *command, code=3)
    assert found["code"] == "HF-STATE-1"
    assert f"app/{leftover}" in found["message"]
    assert "holdfast state adopt only" in found["hint"]
    assert file.read_text() == a_state()
    assert not (holdfast.folder / ".holdfast/states/only").exists()


def test_an_adopted_state_is_copied_verified_and_the_original_renamed(holdfast: Program) -> None:
    """Adopting loses nothing: the same bytes, the original under another name, and no changes to make."""
    one_stack(holdfast)
    original = holdfast.write("app/terraform.tfstate", a_state())
    holdfast.write("app/terraform.tfstate.backup", "an older one")
    taken = holdfast.json("state", "adopt", "only")
    assert taken == {
        "version": 1,
        "stack": "only",
        "adopted": str(original),
        "renamed": taken["renamed"],
        "serial": 7,
        "resources": 1,
    }
    assert not original.exists()
    assert Path(taken["renamed"]).parent == original.parent
    assert Path(taken["renamed"]).read_text() == a_state()
    assert holdfast.ok("state", "pull", "only").out == a_state()
    assert (original.parent / "terraform.tfstate.backup").read_text() == "an older one"
    assert holdfast.results("plan")["only"]["status"] == "unchanged"
    original.write_text(a_state(lineage="another"))
    refused = error(holdfast, "state", "adopt", "only", code=3)
    assert refused["code"] == "HF-STATE-8"
    assert original.read_text() == a_state(lineage="another")
    notes = " ".join(holdfast.results("plan")["only"]["notes"])
    assert "app/terraform.tfstate" in notes
    assert json.loads(holdfast.ok("state", "pull", "only").out)["serial"] == 7


@pytest.mark.long
def test_of_several_leftovers_a_person_says_which(holdfast: Program) -> None:
    """With workspaces beside the module nothing is guessed; the others stay where they are."""
    one_stack(holdfast)
    holdfast.write("app/terraform.tfstate", a_state(lineage="of-default"))
    blue = holdfast.write("app/terraform.tfstate.d/blue/terraform.tfstate", a_state(lineage="of-blue"))
    several = error(holdfast, "state", "adopt", "only", code=64)
    assert several["code"] == "HF-STATE-9"
    assert "--workspace" in several["hint"]
    assert error(holdfast, "state", "adopt", "only", "--workspace", "green", code=64)["code"] == "HF-STATE-9"
    taken = holdfast.json("state", "adopt", "only", "--workspace", "blue")
    assert taken["adopted"] == str(blue)
    kept = json.loads(holdfast.ok("state", "pull", "only").out)
    assert kept["lineage"] == "of-blue"
    assert (holdfast.folder / "app/terraform.tfstate").exists()
    assert holdfast.results("plan")["only"]["status"] == "unchanged"


def test_the_default_workspace_can_be_named_among_several(holdfast: Program) -> None:
    """`--workspace default` is the terraform.tfstate beside the code: no leftover is out of reach."""
    one_stack(holdfast)
    beside = holdfast.write("app/terraform.tfstate", a_state())
    holdfast.write("app/terraform.tfstate.d/blue/terraform.tfstate", a_state(lineage="of-blue"))
    assert holdfast.json("state", "adopt", "only", "--workspace", "default")["adopted"] == str(beside)


@pytest.mark.long
def test_a_person_may_say_that_a_leftover_is_not_the_stacks(holdfast: Program) -> None:
    """`--start-empty` leaves the file alone and the stack begins without a state; never over a kept one."""
    one_stack(holdfast)
    original = holdfast.write("app/terraform.tfstate", a_state())
    said = holdfast.json("state", "adopt", "only", "--start-empty")
    assert said == {"version": 1, "stack": "only", "adopted": None}
    assert holdfast.results("apply", "--yes")["only"]["changes"]["create"] == 1
    assert original.read_text() == a_state()
    assert error(holdfast, "state", "adopt", "only", "--start-empty", code=3)["code"] == "HF-STATE-8"
    assert holdfast.results("plan")["only"]["status"] == "unchanged"


def test_an_unreadable_leftover_is_not_adopted(holdfast: Program) -> None:
    """What cannot be read is neither ignored nor taken over, and stays as it is."""
    one_stack(holdfast)
    for content in ("", "not a state", '{"version": 3, "serial": 1, "lineage": "x"}'):
        original = holdfast.write("app/terraform.tfstate", content)
        found = error(holdfast, "state", "adopt", "only", code=3)
        assert found["code"] == "HF-STATE-8"
        assert found["hint"]
        assert original.read_text() == content
    assert error(holdfast, "plan", code=3)["code"] == "HF-STATE-1"


def test_there_is_nothing_to_adopt_for_a_stack_with_a_backend(holdfast: Program) -> None:
    """A state beside a module with a backend is the backend's business; none at all is a mistake too."""
    one_stack(holdfast, 'terraform {\n  backend "local" {}\n}\n')
    holdfast.write("app/terraform.tfstate", a_state())
    found = error(holdfast, "state", "adopt", "only", code=64)
    assert found["code"] == "HF-STATE-9"
    assert "state push only" in found["hint"]
    holdfast.write("app/main.tf", CODE)
    (holdfast.folder / "app/terraform.tfstate").unlink()
    assert error(holdfast, "state", "adopt", "only", code=64)["code"] == "HF-STATE-9"


def test_a_workspace_needs_a_backend_that_has_some(holdfast: Program) -> None:
    """A workspace that cannot be had is a mistake with a hint, never the default one instead."""
    one_stack(holdfast)
    holdfast.write("holdfast.yaml", "version: 1\nstacks:\n  - {name: only, module: app, workspace: blue}\n")
    found = error(holdfast, "plan", code=64)
    assert found["code"] == "HF-BACK-2"
    assert "workspace" in found["hint"]
    holdfast.write("app/main.tf", 'terraform {\n  backend "http" {}\n}\n')
    found = error(holdfast, "plan", code=64)
    assert found["code"] == "HF-BACK-5"
    assert found["hint"]
