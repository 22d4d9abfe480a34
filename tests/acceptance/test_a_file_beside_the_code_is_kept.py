"""What an apply writes below `path.module` is there in the next run: after a cleanup, on another machine.

The lab provider keeps its objects as files: as with a `local_file`, one that is missing is created again.
"""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from program import Program

KEY = base64.b64encode(b"k" * 32).decode()
SECRET = "written-by-terraform-7f1b"
CODE = """
    terraform {
      required_providers {
        lab = { source = "holdfast.dev/labs/lab", version = ">= 1.0.0" }
      }
    }
    provider "lab" {
      directory = "${path.module}/objects"
    }
    variable "names" {
      type    = set(string)
      default = ["a", "b"]
    }
    resource "lab_object" "all" {
      for_each = var.names
      name     = each.key
      body     = "%s"
    }
"""
LARGE = """
    resource "terraform_data" "large" {
      provisioner "local-exec" {
        command = "truncate -s 10000001 large.bin"
      }
    }
"""


def repository(holdfast: Program, code: str) -> None:
    holdfast.environment["HOLDFAST_KEY"] = KEY
    holdfast.write(
        "holdfast.yaml",
        "version: 1\nenvironments: {dev: {match: [dev]}}\n"
        "stacks:\n  - {name: dev/app, module: app, environment: dev}\n",
    )
    holdfast.write("app/main.tf", code)


def test_the_next_run_has_it_on_any_machine(with_lab: Program, tmp_path: Path) -> None:
    """Encrypted in the run store, part of what a bundle needs, and gone when Terraform removed it."""
    holdfast = with_lab
    repository(holdfast, CODE % SECRET)
    applied = holdfast.results("apply", "--yes")["dev/app"]
    assert any(
        note.startswith("kept app/objects/a-") and note.endswith("beside the code, for the next run")
        for note in applied["notes"]
    )
    for home in (holdfast.home, tmp_path / "another"):
        holdfast.environment["HOLDFAST_HOME"] = str(home)
        holdfast.ok("clean", "--all")
        assert holdfast.results("plan")["dev/app"]["status"] == "unchanged"
    assert SECRET.encode() not in b"".join(
        file.read_bytes() for file in (holdfast.folder / ".holdfast").rglob("*") if file.is_file()
    )
    fewer = ("-var", 'names=["a"]')
    assert holdfast.results("plan", *fewer, "--out", "bundle")["dev/app"]["changes"]["delete"] == 1
    assert holdfast.results("apply", "--plan", "bundle")["dev/app"]["status"] == "applied"
    assert holdfast.results("plan", *fewer)["dev/app"]["status"] == "unchanged"
    [tree] = Path(holdfast.environment["HOLDFAST_HOME"]).glob("work/*/dev%2Fapp/0/tree/app/objects")
    assert [file.name[0] for file in tree.iterdir()] == ["a"]


def test_what_is_too_large_is_said_in_every_plan(holdfast: Program) -> None:
    """With what to do: it is never silently created again."""
    repository(holdfast, LARGE)
    *_, note = holdfast.results("apply", "--yes")["dev/app"]["notes"]
    assert "Terraform wrote app/large.bin beside the code. Holdfast keeps at most 10 MB per stack." in note
    assert "Let it write outside of path.module, or to an artefact store" in note
    *_, note = holdfast.results("plan")["dev/app"]["notes"]
    assert "app/large.bin beside the code, too large to be kept: Terraform may create it again" in note


@pytest.mark.parametrize(
    ("command", "note"),
    [
        ("echo 'output \"evil\" { value = 1 }' > evil.tf", "wrote app/evil.tf: code is never kept"),
        ("echo x > evil.auto.tfvars", "wrote app/evil.auto.tfvars: code is never kept"),
        ("echo changed >> own.txt", "changed app/own.txt: the next run has the version of the repository"),
    ],
)
def test_it_never_becomes_code_or_replaces_a_file(holdfast: Program, command: str, note: str) -> None:
    repository(
        holdfast,
        f'resource "terraform_data" "a" {{\n  input = file("own.txt")\n  provisioner "local-exec" {{\n'
        f"    command = <<-EOT\n      {command}\n    EOT\n  }}\n}}\n",
    )
    holdfast.write("app/own.txt", "own")
    notes = holdfast.results("apply", "--yes")["dev/app"]["notes"]
    assert any(note in text for text in notes), notes
    assert holdfast.results("plan")["dev/app"]["status"] == "unchanged"
