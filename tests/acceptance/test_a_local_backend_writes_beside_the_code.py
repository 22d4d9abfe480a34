from __future__ import annotations

import json
from pathlib import Path

import pytest
from program import Program

CODE = """
    resource "terraform_data" "a" {
      input = "here"
    }
"""
FAILS = """
    resource "terraform_data" "b" {
      provisioner "local-exec" {
        command = "false"
      }
    }
"""


def one_stack(holdfast: Program, backend: str, extra: str = "") -> None:
    holdfast.write(
        "holdfast.yaml",
        f"version: 1\nenvironments: {{dev: {{match: [dev]}}}}\nstacks:\n"
        f"  - {{name: only, module: live/app, environment: dev{extra}}}\n",
    )
    holdfast.write("live/app/backend.tf", f"terraform {{\n  {backend}\n}}\n")
    holdfast.write("live/app/main.tf", CODE)


def states_in(folder: Path) -> list[str]:
    """Every file below that is a state by its name, but what `init` remembers of a backend."""
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*tfstate*")
        if path.is_file() and path.parent.name != ".terraform"
    )


def addresses(file: Path) -> list[str]:
    return [f"{one['type']}.{one['name']}" for one in json.loads(file.read_text())["resources"]]


@pytest.mark.parametrize(
    ("backend", "state"),
    [
        ('backend "local" {}', "live/app/terraform.tfstate"),
        pytest.param(
            'backend "local" { path = "../../over/there.tfstate" }',
            "over/there.tfstate",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_local_state_lies_where_terraform_itself_would_put_it(
    holdfast: Program, backend: str, state: str
) -> None:
    """A path in code means a place in the source: after a plan, an apply and a failed apply."""
    one_stack(holdfast, backend)
    holdfast.ok("apply", "--yes")
    file = holdfast.folder / state
    assert addresses(file) == ["terraform_data.a"]
    assert holdfast.results("plan")["only"]["status"] == "unchanged"
    holdfast.write("live/app/fails.tf", FAILS)
    assert holdfast.results("apply", "--yes", code=1)["only"]["status"] == "failed"
    assert addresses(file) == ["terraform_data.a", "terraform_data.b"]
    assert states_in(holdfast.home) == []
    assert states_in(holdfast.folder / ".holdfast") == []
    assert {Path(one).parent for one in states_in(holdfast.folder)} == {Path(state).parent}


def test_a_path_from_the_configuration_is_resolved_against_the_module_too(holdfast: Program) -> None:
    """Settings of the configuration win over the code's, and placeholders are filled in."""
    holdfast.write(
        "holdfast.yaml",
        """
        version: 1
        stacks:
          - variables: vars/{name}.tfvars
            module: live/app
            backend: {type: local, settings: {path: "../states/{name}.tfstate"}}
        """,
    )
    holdfast.write(
        "live/app/main.tf", 'variable "n" {}\nresource "terraform_data" "a" {\n input = var.n\n}\n'
    )
    holdfast.write("vars/one.tfvars", "n = 1\n")
    holdfast.write("vars/two.tfvars", "n = 2\n")
    holdfast.ok("apply", "--yes")
    assert states_in(holdfast.folder) == ["live/states/one.tfstate", "live/states/two.tfstate"]
    assert states_in(holdfast.home) == []


@pytest.mark.long
def test_a_workspace_is_honoured_and_left_again(holdfast: Program) -> None:
    """`workspace: blue` is blue's state; without it the default one again, whatever ran here before."""
    one_stack(holdfast, 'backend "local" {}', ", workspace: blue")
    holdfast.ok("apply", "--yes")
    blue = holdfast.folder / "live/app/terraform.tfstate.d/blue/terraform.tfstate"
    assert addresses(blue) == ["terraform_data.a"]
    assert not (holdfast.folder / "live/app/terraform.tfstate").exists()
    assert holdfast.results("plan")["only"]["status"] == "unchanged"
    before = blue.read_bytes()
    holdfast.write("holdfast.yaml", "version: 1\nstacks:\n  - {name: only, module: live/app}\n")
    moved = holdfast.results("plan", code=3)["only"]["error"]
    assert moved["code"] == "HF-STATE-2"
    assert "--start-empty" in moved["hint"]
    # An unknown environment counts as production: leaving resources behind needs an override.
    start = ("state", "adopt", "only", "--start-empty")
    hint = holdfast.json(*start, "--yes", code=3)["errors"][0]["hint"]
    digest = hint.partition("--override ")[2].split()[0]
    holdfast.ok(*start, "--override", digest, "--reason", "the blue workspace stays")
    assert holdfast.results("apply", "--yes")["only"]["changes"]["create"] == 1
    assert addresses(holdfast.folder / "live/app/terraform.tfstate") == ["terraform_data.a"]
    assert blue.read_bytes() == before


def test_the_folder_of_workspaces_lies_in_the_source_too(holdfast: Program) -> None:
    """`workspace_dir` is resolved against the module, as `path` is."""
    one_stack(holdfast, 'backend "local" { workspace_dir = "../spaces" }', ", workspace: blue")
    planned = holdfast.results("plan")["only"]["notes"]
    assert any("workspace blue is new or empty" in note for note in planned)
    holdfast.ok("apply", "--yes")
    assert states_in(holdfast.folder) == ["live/spaces/blue/terraform.tfstate"]
    holdfast.write("live/app/more.tf", 'resource "terraform_data" "more" {}\n')
    planned = holdfast.results("plan")["only"]["notes"]
    assert not any("new or empty" in note for note in planned)
    assert states_in(holdfast.home) == []


@pytest.mark.binary
def test_the_binary_engine_puts_the_state_in_the_same_place(
    holdfast: Program, terraform_folder: Path
) -> None:
    """Which engine runs makes no difference to where a state lies."""
    one_stack(holdfast, 'backend "local" { path = "states/mine.tfstate" }', ", engine: {use: binary}")
    path = f"{terraform_folder}:{holdfast.environment['PATH']}"
    applied = holdfast.results("apply", "--yes", env={"PATH": path})["only"]
    assert applied["engine"]["kind"] == "binary"
    assert states_in(holdfast.folder) == ["live/app/states/mine.tfstate"]
    assert states_in(holdfast.home) == []


def test_a_computed_path_must_be_named_in_the_configuration(holdfast: Program) -> None:
    """Where nobody can tell the place beforehand, nothing is guessed."""
    one_stack(holdfast, 'backend "local" { path = "${timestamp()}/x.tfstate" }')
    found = holdfast.json("plan", code=64)["errors"][0]
    assert found["code"] == "HF-BACK-4"
    assert "settings" in found["hint"]


@pytest.mark.parametrize(
    ("code", "configured", "error"),
    [
        ('backend "local" {}', "{type: s3, settings: {bucket: b, key: k}}", "HF-STACK-11"),
        ("", "{settings: {bucket: b, key: k}}", "HF-BACK-3"),
        ("cloud {}", "{settings: {bucket: b}}", "HF-BACK-6"),
    ],
)
def test_settings_that_do_not_fit_the_code_are_a_mistake(
    holdfast: Program, code: str, configured: str, error: str
) -> None:
    """Code and configuration that disagree about the backend: nothing is run, exit 64."""
    one_stack(holdfast, code, f", backend: {configured}")
    for command in (("plan",), ("apply", "--yes")):
        found = holdfast.json(*command, code=64)["errors"]
        assert [one["code"] for one in found] == [error]
        assert found[0]["hint"]
        assert found[0]["file"] == "holdfast.yaml"


def test_every_backend_mistake_is_told_at_once(holdfast: Program) -> None:
    """A person mends them all before the next try, and nothing runs before that."""
    one_stack(holdfast, "")
    holdfast.write(
        "holdfast.yaml",
        """
        version: 1
        stacks:
          - {name: fine, module: live/app}
          - {name: one, module: live/app, workspace: blue}
          - {name: two, module: live/app, backend: {settings: {bucket: b}}}
        """,
    )
    found = holdfast.json("apply", "--yes", code=64)["errors"]
    assert [one["code"] for one in found] == ["HF-BACK-2", "HF-BACK-3"]
    assert not (holdfast.folder / ".holdfast/states/fine").exists()
