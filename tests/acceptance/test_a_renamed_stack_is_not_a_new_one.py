"""Under another name a stack starts without a state: its first apply would create everything twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program import Program
from state_server import StateServer

CODE = 'variable "size" {\n}\nresource "terraform_data" "a" {\n  input = var.size\n}\n'
BY_FILE = {"variables": "stacks/{name}.tfvars", "module": "app", "name": "{name}", "environment": "dev"}
BY_FOLDER = {"folder": "live/{name}", "name": "{name}", "environment": "dev"}


@pytest.fixture
def server() -> Iterator[StateServer]:
    with StateServer() as running:
        yield running


def configure(holdfast: Program, *stacks: dict[str, Any]) -> None:
    document = {"version": 1, "environments": {"dev": {"match": ["dev"]}}, "stacks": list(stacks)}
    holdfast.write("holdfast.yaml", json.dumps(document))


def refused(holdfast: Program, name: str) -> str:
    """The message with which the new stack is refused, by plan and by apply."""
    errors = [
        holdfast.results(*arguments, code=3)[name]["error"]
        for arguments in (("plan", name), ("apply", name, "--yes"))
    ]
    assert {error["code"] for error in errors} == {"HF-STATE-11"}
    assert f"holdfast state rename old {name}" in errors[0]["hint"]
    return str(errors[0]["message"])


def test_a_renamed_variables_file(holdfast: Program) -> None:
    """Moved as it is, moved with Git and edited; then the state moves along, and nothing is created again."""
    configure(holdfast, BY_FILE)
    holdfast.write("app/main.tf", CODE)
    about = "# The network of the office in the old harbour.\n# Ask the platform team before you change it.\n"
    old = holdfast.write("stacks/old.tfvars", f'{about}size = "large"\n')
    holdfast.commit_all()
    holdfast.ok("apply", "--yes")
    new = holdfast.folder / "stacks/new.tfvars"
    old.rename(new)
    assert "same module and the same variables" in refused(holdfast, "new")
    holdfast.git("add", "--all")
    new.write_text(f'{about}size = "larger"\n')
    assert "moved from there" in refused(holdfast, "new")
    holdfast.commit_all("rename it")
    assert "moved from there" in refused(holdfast, "new")
    assert holdfast.run("state", "rename", "new", "old").code == 64
    renamed = holdfast.json("state", "rename", "old", "new")
    assert renamed["resources"] == ["terraform_data.a"]
    planned = holdfast.results("plan", "new")["new"]
    assert (planned["changes"]["create"], planned["changes"]["update"]) == (0, 1)
    holdfast.ok("apply", "--yes")
    assert len(holdfast.json("state", "versions", "new")["versions"]) == 2
    [entry] = [
        one
        for one in holdfast.json("audit", "show")["entries"]
        if one["what"] == "rename" and one["outcome"] == "done"
    ]
    assert (entry["stack"], entry["details"]["before"]) == ("new", "old")


def test_a_renamed_entry_and_a_moved_folder(holdfast: Program) -> None:
    """The name in holdfast.yaml; a folder that Git does not know; and two ways to say that it is not one."""
    configure(holdfast, {"name": "old", "module": "app", "environment": "dev"})
    code = CODE.replace('variable "size" {\n}', 'variable "size" {\n  default = "large"\n}')
    holdfast.write("app/main.tf", code)
    holdfast.ok("apply", "--yes")
    configure(holdfast, {"name": "new", "module": "app", "environment": "dev"})
    refused(holdfast, "new")
    configure(holdfast, BY_FOLDER)
    holdfast.write("live/new/main.tf", code)
    assert "planned values equal" in refused(holdfast, "new")
    holdfast.write("live/new/main.tf", code.replace("large", "tiny"))
    planned = holdfast.results("plan", "new")["new"]
    assert planned["status"] == "planned"
    assert any("same resource addresses as old" in note for note in planned["notes"])

    holdfast.write("live/new/main.tf", code)
    holdfast.ok("plan", "new", "--not-a-rename")
    assert holdfast.results("plan", "new")["new"]["status"] == "planned"
    holdfast.write("live/third/main.tf", code)
    refused(holdfast, "third")
    assert holdfast.run("state", "retire", "old").code == 64
    retired = holdfast.json("state", "retire", "old", "--reason", "deleted by hand")
    assert retired["resources"] == ["terraform_data.a"]
    assert holdfast.results("plan", "third")["third"]["status"] == "planned"


def test_a_state_in_a_backend_moves_only_with_its_location(holdfast: Program, server: StateServer) -> None:
    """With another location it is refused until the state was moved; with the same one the record follows."""

    def stack(name: str, place: str) -> dict[str, Any]:
        settings = dict.fromkeys(("address", "lock_address", "unlock_address"), server.address(place))
        return {
            "name": name,
            "module": "app",
            "environment": "dev",
            "backend": {"type": "http", "settings": settings},
        }

    code = 'terraform {\n  backend "http" {}\n}\nresource "terraform_data" "a" {\n  input = "large"\n}\n'
    configure(holdfast, stack("old", "one"))
    holdfast.write("app/main.tf", code)
    holdfast.ok("apply", "--yes")
    configure(holdfast, stack("new", "two"))
    refused(holdfast, "new")
    assert holdfast.json("state", "rename", "old", "new", code=3)["errors"][0]["code"] == "HF-STATE-13"
    server.versions["two"] = [server.versions["one"][-1]]
    holdfast.ok("state", "rename", "old", "new")
    assert holdfast.results("plan", "new")["new"]["status"] == "unchanged"

    older = server.versions["two"][-1]
    holdfast.write("app/main.tf", code.replace("large", "larger"))
    holdfast.ok("apply", "--yes")
    server.versions["two"].append(older)
    configure(holdfast, stack("newer", "two"))
    assert holdfast.results("plan", "newer", code=6)["newer"]["error"]["code"] == "HF-STATE-10"
    server.versions["two"].pop()
    assert holdfast.results("plan", "newer")["newer"]["status"] == "unchanged"


def test_neither_more_resources_nor_a_bundle_hide_a_rename(holdfast: Program, tmp_path: Path) -> None:
    """The old resources among many new ones; and a plan that was saved before there was anything to see."""
    code = 'resource "terraform_data" "a" {\n  input = "large"\n}\n'
    configure(holdfast, {"name": "new", "module": "other", "environment": "dev"})
    holdfast.write("other/main.tf", f'{code}resource "terraform_data" "more" {{\n  count = 5\n}}\n')
    bundle = str(tmp_path / "bundle")
    holdfast.ok("plan", "--out", bundle)
    configure(holdfast, {"name": "old", "module": "app", "environment": "dev"})
    holdfast.write("app/main.tf", code)
    holdfast.ok("apply", "--yes")
    configure(holdfast, {"name": "new", "module": "other", "environment": "dev"})
    assert "planned values equal" in refused(holdfast, "new")
    assert holdfast.results("apply", "--plan", bundle, code=3)["new"]["error"]["code"] == "HF-STATE-11"
