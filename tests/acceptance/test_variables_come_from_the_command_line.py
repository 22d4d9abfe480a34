"""`-var` and `-var-file`: as in Terraform, part of the digest, carried by a bundle, and never shown."""

from __future__ import annotations

import json

import pytest
from program import Program

SECRET = "hunter2-from-the-command-line"
CODE = """
    variable "size" {
      type    = number
      default = 1
    }
    variable "text" {
      default = "none"
    }
    variable "zones" {
      type    = list(string)
      default = []
    }
    variable "secret" {
      sensitive = true
      default   = ""
    }
    resource "terraform_data" "a" {
      input = [var.size, var.text, var.zones, sha256(var.secret)]
    }
    output "all" {
      value = [var.size, var.text, var.zones]
    }
    output "length" {
      value = nonsensitive(length(var.secret))
    }
"""


def two_stacks(holdfast: Program) -> None:
    holdfast.write(
        "holdfast.yaml",
        "version: 1\nstacks:\n  - {name: dev/a, module: a, environment: dev, variables: {text: configured}}\n"
        "  - {name: dev/b, module: b, environment: dev}\nenvironments: {dev: {match: [dev]}}\n",
    )
    holdfast.write("a/main.tf", CODE)
    holdfast.write("b/main.tf", 'output "b" {\n  value = 1\n}\n')


def test_values_have_their_types_and_the_last_one_wins(holdfast: Program) -> None:
    """Text for primitive types and without a type, otherwise an expression; the command line has an order."""
    two_stacks(holdfast)
    elsewhere = holdfast.folder / "elsewhere"
    holdfast.write(
        "elsewhere/more.tfvars", 'size = 5\nzones = ["file"]\nsecret = "' + SECRET + '"\nother = 1\n'
    )
    arguments = ("-var", "size=7", "-var-file", "more.tfvars", "--var", 'text=["text"]')
    applied = holdfast.ok("apply", "--yes", "--json", *arguments, '-var=zones=["a", "b"]', cwd=elsewhere)
    outputs = {
        name: output["value"] for name, output in json.loads(applied.out)["stacks"][0]["outputs"].items()
    }
    assert outputs == {"all": [5, '["text"]', ["a", "b"]], "length": len(SECRET)}
    assert SECRET not in applied.text
    assert "-var text was not passed to dev/b: the code does not declare it" in applied.err
    assert "-var-file more.tfvars: no selected stack declares `other`" in applied.err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("-var", "unknown=1"), "HF-USE-27"),
        (("-var", 'zones=[upper("a")]'), "HF-USE-26"),
        (("-var", "zones=[]\nsize = 3"), "HF-USE-26"),
        (("-var", "size"), "HF-USE-28"),
        (("-var-file", "missing.tfvars"), "HF-USE-28"),
    ],
)
def test_a_mistake_is_a_usage_error(holdfast: Program, arguments: tuple[str, ...], code: str) -> None:
    two_stacks(holdfast)
    assert holdfast.json("plan", *arguments, code=64)["errors"][0]["code"] == code


def test_a_bundle_carries_the_values_and_the_run_names_them(holdfast: Program) -> None:
    """`apply --plan` has the same inputs and takes no other; the history has names and no values."""
    two_stacks(holdfast)
    arguments = ("-var", "size=7", "-var", f"secret={SECRET}", "--out", "bundle")
    planned = holdfast.results("plan", "dev/a", *arguments)["dev/a"]
    assert planned["notes"] == ["with values from the command line: -var size, -var secret"]
    assert "HF-USE-3" in holdfast.ok("apply", "--plan", "bundle", "-var", "size=8", code=64).err
    applied = holdfast.results("apply", "--plan", "bundle")["dev/a"]
    assert (applied["status"], applied["digest"]) == ("applied", planned["digest"])
    assert applied["outputs"]["all"]["value"] == [7, "configured", []]
    shown = holdfast.ok("runs", "show", applied["run"], "--json").out
    assert "-var secret" in shown
    for file in (*holdfast.folder.rglob("*"), *holdfast.home.rglob("*")):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file
    # Without the values the code has other inputs: nothing is hidden in the state.
    assert holdfast.results("plan", "dev/a")["dev/a"]["status"] == "planned"


def test_a_variables_file_is_never_a_key_of_holdfast(holdfast: Program) -> None:
    two_stacks(holdfast)
    holdfast.ok("plan")
    link = holdfast.folder / "link.tfvars"
    link.symlink_to(holdfast.home / "key")
    [failed] = holdfast.json("plan", "-var-file", "link.tfvars", code=64)["errors"]
    assert failed["code"] == "HF-USE-28"
    assert "not a file for stacks" in failed["message"]
