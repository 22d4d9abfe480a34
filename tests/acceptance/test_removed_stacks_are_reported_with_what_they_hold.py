from __future__ import annotations

from typing import Any

import pytest
from program import Program
from state_server import StateServer

CODE = """
    variable "n" {
      type    = number
      default = 1
    }
    resource "terraform_data" "a" {
      input = var.n
    }
"""
BY_FILE = """
    version: 1
    stacks:
      - variables: vars/{name}.tfvars
        module: app
        name: "{name}"
"""


def removed(holdfast: Program, *selection: str) -> dict[str, dict[str, Any]]:
    """What `stacks` says, after `plan` was seen to say the same."""
    found: dict[str, dict[str, Any]] = {
        one["name"]: one for one in holdfast.json("stacks", *selection)["removed"]
    }
    planned = holdfast.results("plan", *selection)
    told = {name: one["removed_resources"] for name, one in planned.items() if one["status"] == "removed"}
    assert told == {name: one["resources"] for name, one in found.items()}
    return found


def by_file(holdfast: Program, configuration: str = BY_FILE, code: str = CODE) -> None:
    holdfast.write("holdfast.yaml", configuration)
    holdfast.write("app/main.tf", code)
    holdfast.write("vars/one.tfvars", "n = 1\n")
    holdfast.write("vars/two.tfvars", "n = 2\n")
    holdfast.commit_all()
    holdfast.ok("apply", "--yes")


def test_a_deleted_variables_file_is_a_removed_stack(holdfast: Program) -> None:
    """By Git or by name of the file that is gone: the stack and what its kept state holds are told."""
    by_file(holdfast)
    (holdfast.folder / "vars/two.tfvars").unlink()
    expected = ["terraform_data.a"]
    for selection in (("--since", "HEAD"), ("--changed", "vars/two.tfvars")):
        gone = removed(holdfast, *selection)
        assert list(gone) == ["two"]
        assert gone["two"]["resources"] == expected
        assert gone["two"]["variables"] == "vars/two.tfvars"
        assert "1 resource" in gone["two"]["reason"]
    shown = holdfast.ok("plan", "--since", "HEAD").text
    assert "two" in shown
    assert "terraform_data.a" in shown


@pytest.mark.long
def test_a_renamed_file_is_a_removed_stack_and_a_refused_one(holdfast: Program) -> None:
    """Terraform knows nothing of the rename: the old state still holds everything."""
    by_file(holdfast)
    holdfast.git("mv", "vars/two.tfvars", "vars/three.tfvars")
    planned = holdfast.results("plan", "--since", "HEAD", code=3)
    assert planned["two"]["removed_resources"] == ["terraform_data.a"]
    assert planned["three"]["error"]["code"] == "HF-STATE-11"
    assert set(planned) == {"two", "three"}


@pytest.mark.long
def test_a_removed_stack_in_a_remote_backend_is_looked_up_there(holdfast: Program) -> None:
    """Its address is known from the deleted file's old content in Git, placeholders included."""
    with StateServer() as server:
        address = server.address("{var.tenant}")
        configuration = f"""
            version: 1
            stacks:
              - variables: vars/{{name}}.tfvars
                module: app
                name: "{{name}}"
                backend:
                  settings: {{address: "{address}", lock_address: "{address}", unlock_address: "{address}"}}
                env: {{TF_HTTP_RETRY_MAX: "0"}}
        """
        holdfast.write("holdfast.yaml", configuration)
        holdfast.write("app/main.tf", 'terraform {\n  backend "http" {}\n}\nvariable "tenant" {}\n' + CODE)
        holdfast.write("vars/one.tfvars", 'tenant = "t1"\n')
        holdfast.write("vars/two.tfvars", 'tenant = "t2"\n')
        holdfast.commit_all()
        holdfast.ok("apply", "--yes")
        assert sorted(server.versions) == ["t1", "t2"]
        (holdfast.folder / "vars/two.tfvars").unlink()
        gone = removed(holdfast, "--since", "HEAD")
        assert gone["two"]["resources"] == ["terraform_data.a"]
        server.forget = True
        [lost] = holdfast.json("stacks", "--since", "HEAD")["removed"]
        assert lost["resources"] is None
        assert "its state was not read" in lost["reason"]


def test_a_deleted_folder_is_a_removed_stack(holdfast: Program) -> None:
    """The code is gone with the folder; the kept state still tells what was made."""
    holdfast.write("holdfast.yaml", "version: 1\nstacks:\n  - folder: live/{component}\n")
    holdfast.write("live/net/main.tf", CODE)
    holdfast.write("live/db/main.tf", CODE)
    holdfast.commit_all()
    holdfast.ok("apply", "--yes")
    (holdfast.folder / "live/db/main.tf").unlink()
    (holdfast.folder / "live/db").rmdir()
    gone = removed(holdfast, "--since", "HEAD")
    assert {name: one["resources"] for name, one in gone.items()} == {"live/db": ["terraform_data.a"]}


def test_a_stack_taken_out_of_the_configuration_is_a_removed_stack(holdfast: Program) -> None:
    """An entry that is gone from holdfast.yaml leaves its resources behind as a deleted file does."""
    holdfast.write(
        "holdfast.yaml",
        "version: 1\nstacks:\n  - {name: one, module: app}\n"
        "  - {name: two, module: app, variables: {n: 2}}\n",
    )
    holdfast.write("app/main.tf", CODE)
    holdfast.commit_all()
    holdfast.ok("apply", "--yes")
    holdfast.write("holdfast.yaml", "version: 1\nstacks:\n  - {name: one, module: app}\n")
    gone = removed(holdfast, "--since", "HEAD")
    assert {name: one["resources"] for name, one in gone.items()} == {"two": ["terraform_data.a"]}


@pytest.mark.long
def test_a_state_that_moved_away_is_not_looked_for_where_it_was(holdfast: Program) -> None:
    """A kept state that was left behind by a move says nothing about what the stack holds now."""
    by_file(holdfast)
    kept = {name: holdfast.ok("state", "pull", name).out for name in ("one", "two")}
    backend = 'terraform {\n  backend "local" {}\n}\n'
    configuration = BY_FILE + "        backend: {settings: {path: '../states/{name}.tfstate'}}\n"
    holdfast.write("holdfast.yaml", configuration)
    holdfast.write("app/main.tf", backend + CODE + 'resource "terraform_data" "b" {}\n')
    for name in ("one", "two"):
        holdfast.ok("state", "push", name, str(holdfast.write(f"{name}.json", kept[name])))
    holdfast.ok("apply", "--yes")
    holdfast.commit_all()
    (holdfast.folder / "vars/two.tfvars").unlink()
    gone = removed(holdfast, "--since", "HEAD")
    assert gone["two"]["resources"] == ["terraform_data.a", "terraform_data.b"]
