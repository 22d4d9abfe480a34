from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest
from program import Program

KEPT = ""
LOCAL = 'terraform {\n  backend "local" {}\n}\n'
CODE = 'resource "terraform_data" "a" {\n  input = "here"\n}\n'


def applied(holdfast: Program, backend: str) -> Path:
    """A stack with one resource, and the file of its state."""
    holdfast.write(
        "holdfast.yaml",
        "version: 1\nenvironments: {dev: {match: [dev]}}\nstacks:\n"
        "  - {name: only, module: app, environment: dev}\n",
    )
    holdfast.write("app/main.tf", backend + CODE)
    holdfast.ok("apply", "--yes")
    kept = holdfast.folder / ".holdfast/states/only/0000000001"
    return holdfast.folder / "app/terraform.tfstate" if backend else kept


def error(holdfast: Program, *arguments: str, code: int) -> dict[str, Any]:
    document = holdfast.json(*arguments, code=code)
    found: dict[str, Any] = document["errors"][0] if "errors" in document else document["stacks"][0]["error"]
    return found


def test_a_damaged_local_state_is_unknown_until_a_backup_is_pushed(holdfast: Program, tmp_path: Path) -> None:
    """Terraform reads an empty file as `no state` and would create everything again: exit 6 instead."""
    state = applied(holdfast, LOCAL)
    content = state.read_bytes()
    backup = tmp_path / "backup.tfstate"
    backup.write_bytes(content)
    for damage in (b"", b"\0\0\0\0", content[: len(content) // 2], None):
        if damage is None:
            state.unlink()
        else:
            state.write_bytes(damage)
        found = error(holdfast, "plan", code=6)
        assert found["code"] == "HF-STATE-3"
        assert "holdfast state push only" in found["hint"]
        if damage == b"":
            assert error(holdfast, "apply", "--yes", code=6)["code"] == "HF-STATE-3"
        assert holdfast.json("state", "push", "only", str(backup))["resources"] == 1
    assert holdfast.results("plan")["only"]["status"] == "unchanged"
    aside = sorted(path.read_bytes() for path in state.parent.glob("*.damaged-*"))
    assert aside == sorted([b"", b"\0\0\0\0", content[: len(content) // 2]])


def test_a_note_beside_an_empty_state_is_believed_only_while_the_lock_is_held(holdfast: Program) -> None:
    """A killed Terraform leaves an empty state and its note: exit 6. One at work has both: exit 4."""
    state = applied(holdfast, LOCAL)
    (holdfast.folder / ".holdfast/records/only").unlink()  # as in a fresh clone
    state.write_bytes(b"")
    note = {"ID": "1", "Operation": "OperationTypeApply", "Who": "ada@workstation", "Version": "1.15.5"}
    state.with_name(".terraform.tfstate.lock.info").write_text(json.dumps(note))
    assert error(holdfast, "plan", code=6)["code"] == "HF-STATE-3"
    with state.open("r+b") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        busy = error(holdfast, "plan", code=4)
    assert busy["code"] == "HF-LOCK-1"
    assert "ada@workstation" in busy["message"]


def test_reading_a_damaged_state_never_says_that_there_is_nothing(holdfast: Program) -> None:
    """`output`, `state list` and `state pull` answer 6 too: an empty answer would be believed."""
    state = applied(holdfast, LOCAL)
    state.write_bytes(b"")
    for command in (("output", "only"), ("state", "list", "only"), ("state", "pull", "only")):
        assert error(holdfast, *command, code=6)["code"] == "HF-STATE-3"


def test_a_push_that_fails_leaves_the_damage_in_place(holdfast: Program, tmp_path: Path) -> None:
    """A damaged state that was set aside for a failed push would count as new: it is put back."""
    state = applied(holdfast, LOCAL)
    backup = tmp_path / "backup.tfstate"
    backup.write_bytes(state.read_bytes())
    (holdfast.folder / ".holdfast/records/only").unlink()  # as in a fresh clone
    state.write_bytes(b"garbage")
    holdfast.write("app/broken.tf", "this is { not hcl")
    assert holdfast.run("state", "push", "only", str(backup)).code == 1
    assert state.read_bytes() == b"garbage"


@pytest.mark.parametrize("what", ["records/only", "states/only/0000000001"])
@pytest.mark.parametrize("damage", [b"", b"{"])
def test_an_unreadable_record_stops_the_stack(holdfast: Program, what: str, damage: bytes) -> None:
    """The unreadable is never taken for absent, in the run store either."""
    applied(holdfast, KEPT)
    (holdfast.folder / ".holdfast" / what).write_bytes(damage)
    assert error(holdfast, "plan", code=6)["code"] == "HF-STORE-2"


def test_a_kept_state_that_is_gone_is_not_new(holdfast: Program) -> None:
    """Somebody removed every version: the record still knows that there was something."""
    applied(holdfast, KEPT).unlink()
    assert error(holdfast, "plan", code=6)["code"] == "HF-STATE-3"


def test_a_backend_that_moved_to_an_empty_place_is_refused_until_the_state_moved(
    holdfast: Program, tmp_path: Path
) -> None:
    """The hint, followed to the letter, ends in a plan without changes."""
    applied(holdfast, LOCAL)
    moved = 'terraform {\n  backend "local" {\n    path = "elsewhere.tfstate"\n  }\n}\n' + CODE
    holdfast.write("app/main.tf", moved)
    for command in (("plan",), ("apply", "--yes")):
        found = error(holdfast, *command, code=3)
        assert found["code"] == "HF-STATE-2"
        assert "app/terraform.tfstate" in found["message"]
        assert "app/elsewhere.tfstate" in found["message"]
        assert "holdfast state pull only > state.json" in found["hint"]
        assert "holdfast state push only state.json" in found["hint"]
    assert not (holdfast.folder / "app/elsewhere.tfstate").exists()
    holdfast.write("app/main.tf", LOCAL + CODE)
    file = tmp_path / "state.json"
    file.write_text(holdfast.ok("state", "pull", "only").out)
    holdfast.write("app/main.tf", moved)
    holdfast.ok("state", "push", "only", str(file))
    assert holdfast.results("plan")["only"]["status"] == "unchanged"
    assert json.loads((holdfast.folder / "app/elsewhere.tfstate").read_text())["resources"]


def test_a_kept_state_is_not_forgotten_when_the_code_gets_a_backend(holdfast: Program) -> None:
    """Adding a backend block moves the place too; what was pulled before can be pushed."""
    applied(holdfast, KEPT)
    kept = holdfast.write("kept.json", holdfast.ok("state", "pull", "only").out)
    holdfast.write("app/main.tf", LOCAL + CODE)
    assert error(holdfast, "plan", code=3)["code"] == "HF-STATE-2"
    holdfast.ok("state", "push", "only", str(kept))
    assert holdfast.results("plan")["only"]["status"] == "unchanged"


@pytest.mark.long
def test_an_empty_state_may_move_freely(holdfast: Program) -> None:
    """Where the old place held nothing, nothing can be forgotten."""
    applied(holdfast, LOCAL)
    holdfast.write("app/main.tf", LOCAL)
    holdfast.ok("apply", "--yes")
    holdfast.write("app/main.tf", 'terraform {\n  backend "local" {\n    path = "b.tfstate"\n  }\n}\n' + CODE)
    assert holdfast.results("plan")["only"]["changes"]["create"] == 1
