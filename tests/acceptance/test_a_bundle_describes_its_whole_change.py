"""A bundle names the stacks without a plan, and is opened only with a key that exists."""

from __future__ import annotations

import json
import shutil

import pytest
from program import Program
from small import stacks

FAILS = """
variable "x" {
  default = "1"
}
resource "terraform_data" "it" {
  input = var.x
  lifecycle {
    precondition {
      condition     = var.x != "bad"
      error_message = "x is bad"
    }
  }
}
output "x" {
  value = terraform_data.it.output
}
"""


def test_stacks_that_had_no_plan_are_named_and_the_apply_is_not_a_success(holdfast: Program) -> None:
    """One failed, one was blocked by it: the rest is applied, and a pipeline does not turn green."""
    more = '  - { name: app, module: module, environment: dev, depends_on: [bad], variables: { x: "app" } }\n'
    stacks(holdfast, "good", "bad", more=more)
    holdfast.write("module/main.tf", FAILS)
    planned = holdfast.results("plan", "--out", "out", code=1)
    assert {name: result["status"] for name, result in planned.items()} == {
        "good": "planned",
        "bad": "failed",
        "app": "blocked",
    }
    one_by_one = shutil.copytree(holdfast.folder / "out", holdfast.folder.parent / "copy")
    results = holdfast.results("apply", "--plan", "out", code=1)
    assert {name: result["status"] for name, result in results.items()} == {
        "good": "applied",
        "bad": "failed",
        "app": "blocked",
    }
    for name in ("bad", "app"):
        assert results[name]["error"]["code"] == "HF-BUND-13"
        assert "when the bundle was made" in results[name]["error"]["message"]
        assert f"holdfast plan {name} --out" in results[name]["error"]["hint"]
    shown = holdfast.run("apply", "--plan", "out", "--allow-blocked")
    assert shown.code == 1, "a failure counts whatever is allowed"
    assert "bad" in shown.text
    assert "app" in shown.text
    assert "already applied" in holdfast.ok("apply", "--plan", str(one_by_one / "good")).text
    assert "--continue" in results["app"]["error"]["hint"]


@pytest.mark.parametrize(("options", "code"), [((), 1), (("--allow-blocked",), 0)])
def test_a_bundle_with_a_blocked_stack_is_a_success_only_if_that_is_allowed(
    holdfast: Program, options: tuple[str, ...], code: int
) -> None:
    """`app` cannot be planned before `network` exists."""
    more = "  - { name: app, module: app, environment: dev, depends_on: [network] }\n"
    stacks(holdfast, "network", more=more)
    holdfast.write("module/backend.tf", 'terraform {\n  backend "local" {}\n}\n')
    holdfast.write(
        "app/main.tf",
        """
        data "terraform_remote_state" "network" {
          backend = "local"
          config = {
            path = "../module/terraform.tfstate"
          }
        }
        output "x" {
          value = data.terraform_remote_state.network.outputs.x
        }
        """,
    )
    planned = holdfast.json("plan", "--out", "out")
    assert {stack["name"]: stack["status"] for stack in planned["stacks"]} == {
        "network": "planned",
        "app": "blocked",
    }
    assert planned["summary"]["planned_later"] == 1
    shown = holdfast.ok("plan", "--format", "markdown")
    assert "1 stack can be planned only after others are applied" in shown.out.splitlines()[0]
    results = holdfast.results("apply", "--plan", "out", *options, code=code)
    assert {name: result["status"] for name, result in results.items()} == {
        "network": "applied",
        "app": "blocked",
    }
    assert holdfast.results("apply", "--continue", planned["change"], "--yes").keys() == {"app"}
    again = holdfast.results("apply", "--plan", "out")
    assert {name: result["status"] for name, result in again.items()} == {"network": "unchanged"}


@pytest.mark.parametrize("store", ["lost", "kept"])
def test_a_bundle_is_never_opened_with_a_new_key(holdfast: Program, store: str) -> None:
    """Without the key of the plan nothing is created or changed; the error says what to set."""
    stacks(holdfast, "a")
    holdfast.ok("plan", "--out", "out")
    key = (holdfast.home / "key").read_bytes()
    (holdfast.home / "key").unlink()
    if store == "lost":
        shutil.rmtree(holdfast.folder / ".holdfast")
    commands = [["apply", "--plan", "out"], ["apply", "--plan", "out/a"]]
    if store == "kept":
        commands += [["runs", "list"], ["output", "a"], ["plan"], ["audit", "show"]]
    for command in commands:
        ran = holdfast.ok(*command, code=64)
        assert "HF-KEY-20" in ran.err, command
        assert "HOLDFAST_KEY" in ran.err
        assert not (holdfast.home / "key").exists()
    assert (holdfast.folder / ".holdfast").exists() == (store == "kept")
    (holdfast.home / "key").write_bytes(key)
    (holdfast.home / "key").chmod(0o600)
    assert holdfast.results("apply", "--plan", "out")["a"]["status"] == "applied"


def test_reading_an_empty_repository_creates_no_key(holdfast: Program) -> None:
    """There is nothing to decrypt and nothing to store."""
    stacks(holdfast, "a")
    for command in (["output", "a"], ["runs", "list"], ["state", "versions", "a"], ["audit", "show"]):
        holdfast.ok(*command)
    ran = holdfast.ok("apply", "--plan", "nowhere", code=64)
    assert "HF-BUND-2" in ran.err
    assert not (holdfast.home / "key").exists()
    assert not (holdfast.folder / ".holdfast").exists()
    assert json.loads(holdfast.ok("output", "a", "--json").out)["outputs"] == {}
