"""Bundles whose stacks depend on each other: `network`, then `app` (reads its state), then `dns`."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

from lab_stacks import lab_module, none_left
from program import Program, eventually

NETWORK = """
terraform {
  backend "local" {}
}
variable "size" {
  default = 1
}
variable "zones" {
  default = ["a", "b"]
}
resource "terraform_data" "vpc" {
  input = var.size
}
output "zones" {
  value = var.zones
}
output "size" {
  value = terraform_data.vpc.output
}
"""
APP = """
data "terraform_remote_state" "network" {
  backend = "local"
  config  = { path = "../network/terraform.tfstate" }
}
variable "replicas" {
  default = 1
}
resource "terraform_data" "app" {
  input = var.replicas
}
resource "terraform_data" "zone" {
  for_each = toset(data.terraform_remote_state.network.outputs.zones)
}
output "replicas" {
  value = terraform_data.app.output
}
"""
DNS = """
variable "ttl" {
  default = 60
}
resource "terraform_data" "record" {
  input = var.ttl
}
"""


LAB_APP = lab_module(
    """
    variable "objects" {}
    variable "vpc" {}
    provider "lab" {
      directory = var.objects
      delay     = 3
    }
    resource "lab_object" "it" {
      name = "made"
      body = var.vpc
    }
    """
)


def repository(program: Program, *, environment: str = "dev", guard: str = "{}") -> None:
    program.write(
        "holdfast.yaml",
        f"""
        version: 1
        environments: {{ dev: {{ match: [dev] }} }}
        guard: {guard}
        stacks:
          - {{ name: network, module: network, environment: {environment} }}
          - {{ name: app, module: app, environment: {environment} }}
          - {{ name: dns, module: dns, environment: {environment}, depends_on: [app] }}
          - {{ name: other, module: dns, environment: {environment} }}
        """,
    )
    for name, code in (("network", NETWORK), ("app", APP), ("dns", DNS)):
        program.write(f"{name}/main.tf", code)


def change(program: Program, **values: str) -> None:
    """Set one variable of each stack."""
    for name, value in values.items():
        program.write(f"{name}/terraform.tfvars", value + "\n")


def statuses(results: dict[str, Any]) -> dict[str, str]:
    return {name: result["status"] for name, result in results.items()}


def used(program: Program) -> int:
    return len(list((program.folder / ".holdfast/used").iterdir()))


def test_equal_outputs_keep_every_plan_and_nothing_is_applied_twice(holdfast: Program) -> None:
    """`network` changes, but not `zones`, which `app` reads. `dns` may read any output of `app`."""
    repository(holdfast)
    holdfast.ok("apply", "--yes")
    change(holdfast, network="size = 2", app="replicas = 2", dns="ttl = 90")
    planned = holdfast.json("plan", "network", "app", "dns", "--out", "out")
    digests = {stack["name"]: stack["digest"] for stack in planned["stacks"]}
    before = used(holdfast)

    applied = holdfast.json("apply", "--plan", "out")
    results = {stack["name"]: stack for stack in applied["stacks"]}
    assert statuses(results) == dict.fromkeys(("network", "app", "dns"), "applied")
    assert (applied["change"], applied["left"]) == (planned["change"], [])
    assert results["app"]["digest"] == digests["app"]
    assert results["app"]["replaces"] is None
    # `app` changed an output: `dns`, which only depends on it, was planned again, with the same changes.
    assert results["dns"]["replaces"] == digests["dns"] != results["dns"]["digest"]
    assert "planned again: app.replicas changed, now 2; same changes" in results["dns"]["notes"]
    assert used(holdfast) == before + 4
    ends = [
        entry
        for entry in holdfast.json("audit", "show")["entries"]
        if entry["digest"] == results["dns"]["digest"]
    ]
    assert {entry["outcome"] for entry in ends} == {"begun", "applied"}
    assert all(entry["details"] == {"replaces": digests["dns"]} for entry in ends)

    again = holdfast.results("apply", "--plan", "out")
    assert statuses(again) == dict.fromkeys(("network", "app", "dns"), "unchanged")
    assert all(result["notes"] == ["already applied"] for result in again.values())
    assert {name: result["run"] for name, result in again.items()} == {
        name: result["run"] for name, result in results.items()
    }
    assert used(holdfast) == before + 4
    text = holdfast.ok("apply", "--plan", "out/dns").text
    assert "already applied" in text


def test_a_bundle_is_applied_in_several_steps_and_any_other_change_refuses_it(holdfast: Program) -> None:
    """What the bundle's own runs left is on record; a state that anything else wrote is not theirs."""
    repository(holdfast)
    holdfast.ok("apply", "--yes")
    change(holdfast, network="size = 2", app="replicas = 2")
    holdfast.ok("plan", "network", "app", "dns", "--out", "out")
    assert statuses(holdfast.results("apply", "--plan", "out/network")) == {"network": "applied"}
    kept = shutil.copytree(holdfast.folder, holdfast.folder.parent / "kept")

    holdfast.ok("apply", "network", "--yes", "--replace", "terraform_data.vpc")
    results = holdfast.results("apply", "--plan", "out", code=1)
    assert statuses(results) == {"network": "unchanged", "app": "refused", "dns": "blocked"}
    assert results["app"]["error"]["code"] == "HF-BUND-8"

    shutil.rmtree(holdfast.folder)
    shutil.copytree(kept, holdfast.folder)
    assert statuses(holdfast.results("apply", "--plan", "out/app")) == {"app": "applied"}
    assert statuses(holdfast.results("apply", "--plan", "out")) == {
        "network": "unchanged",
        "app": "unchanged",
        "dns": "unchanged",
    }


def test_a_plan_that_would_do_more_is_refused_and_the_change_can_be_continued(holdfast: Program) -> None:
    """One zone less: `app` would delete what it has there. `other` does not depend on it and is applied."""
    repository(holdfast)
    holdfast.ok("apply", "--yes")
    change(holdfast, network='zones = ["a"]', app="replicas = 2", dns="ttl = 90")
    holdfast.ok("plan", "--out", "out")
    applied = holdfast.json("apply", "--plan", "out", code=1)
    results = {stack["name"]: stack for stack in applied["stacks"]}
    assert statuses(results) == {
        "network": "applied",
        "app": "refused",
        "dns": "blocked",
        "other": "applied",
    }
    error = results["app"]["error"]
    assert error["code"] == "HF-BUND-23"
    assert 'it would also delete terraform_data.zone["b"], which was not in' in error["message"]
    assert applied["left"] == ["app", "dns"]
    shown = holdfast.run("apply", "--plan", "out")
    assert shown.code == 1
    assert f"holdfast apply --continue {applied['change']}" in shown.text

    rest = holdfast.json("apply", "--continue", "--yes")
    assert rest["change"] == applied["change"]
    assert {stack["name"]: stack["status"] for stack in rest["stacks"]} == {
        "app": "applied",
        "dns": "applied",
    }
    nothing = holdfast.ok("apply", "--continue", applied["change"][:20], "--yes")
    assert f"Nothing is left of change {applied['change']}" in nothing.text
    assert holdfast.json("apply", "--continue", "--yes")["stacks"] == []
    assert holdfast.run("apply", "--continue", "01ARZ3NDEK", "--yes").code == 64


def test_approvals_of_a_whole_change_carry_over_and_overrides_do_not(holdfast: Program) -> None:
    """Every plan is approved with the bundle; `dns` is planned again, and its deletion is denied again."""
    repository(holdfast)
    holdfast.ok("apply", "--yes")
    repository(holdfast, guard="{ approvals: 1, protect: { addresses: [terraform_data.record] } }")
    change(holdfast, network="size = 2", app="replicas = 2", dns="ttl = 90")
    planned = holdfast.json("plan", "network", "app", "dns", "--out", "out", code=5)
    digests = {stack["name"]: stack["digest"] for stack in planned["stacks"]}
    waiting = holdfast.run("apply", "--plan", "out")
    assert waiting.code == 1
    assert "holdfast runs approve" in waiting.text
    assert "--continue" not in waiting.text, "the bundle can be applied once it is approved"

    approved = holdfast.json("runs", "approve", "--bundle", "out", "--reason", "looks right")
    assert {given["stack"]: given["digest"] for given in approved["approvals"]} == digests
    results = holdfast.results("apply", "--plan", "out")
    assert statuses(results) == dict.fromkeys(("network", "app", "dns"), "applied")
    assert results["dns"]["replaces"] == digests["dns"]

    holdfast.write("dns/main.tf", "")
    change(holdfast, app="replicas = 3")
    (holdfast.folder / "dns/terraform.tfvars").unlink()
    planned = holdfast.json("plan", "app", "dns", "--out", "second", code=3)
    assert {stack["name"]: stack["status"] for stack in planned["stacks"]} == {
        "app": "waiting",
        "dns": "refused",
    }
    shown = holdfast.ok("runs", "approve", planned["change"], "--reason", "looks right")
    for stack in planned["stacks"]:
        assert stack["digest"] in shown.text
    results = holdfast.results(
        "apply", "--plan", "second", "--override", planned["change"], "--reason", "moved away", code=3
    )
    assert statuses(results) == {"app": "applied", "dns": "refused"}
    assert "holdfast plan dns --out" in results["dns"]["error"]["hint"]
    assert "--override" in results["dns"]["error"]["hint"]
    overrides = [entry for entry in holdfast.json("audit", "show")["entries"] if entry["what"] == "override"]
    assert [entry["stack"] for entry in overrides] == ["dns"]
    assert json.loads(holdfast.ok("runs", "list", "--json").out)["runs"][0]["change"]


def test_a_whole_change_is_rejected_at_once(holdfast: Program) -> None:
    """None of its plans is applied, and nothing of it is left to continue."""
    repository(holdfast)
    holdfast.ok("apply", "--yes")
    change(holdfast, network="size = 2", app="replicas = 2")
    planned = holdfast.json("plan", "network", "app", "--out", "out")
    rejected = holdfast.json("runs", "reject", "--bundle", "out", "--reason", "not this week")
    assert {given["stack"] for given in rejected["approvals"]} == {"network", "app"}
    results = holdfast.results("apply", "--plan", "out", code=1)
    assert results["network"]["status"] == "refused"
    assert results["app"]["status"] in {"refused", "blocked"}
    continued = holdfast.run("apply", "--continue", planned["change"], "--yes", "--json")
    assert not [
        stack for stack in json.loads(continued.out).get("stacks", ()) if stack["status"] == "applied"
    ]
    assert statuses(holdfast.results("plan", "network")) == {"network": "planned"}


def mocked(program: Program, *, environment: str) -> None:
    """`app` gets an id that `network` creates; until then it is a mock."""
    program.write(
        "holdfast.yaml",
        f"""
        version: 1
        environments: {{ dev: {{ match: [dev] }}, prod: {{ match: [prod], production: true }} }}
        stacks:
          - {{ name: network, module: network, environment: {environment} }}
          - name: app
            module: app
            environment: {environment}
            inputs: {{ vpc: {{ output: network.vpc, mock: vpc-mock }} }}
        """,
    )
    program.write(
        "network/main.tf",
        'resource "terraform_data" "vpc" {}\noutput "vpc" {\n  value = "vpc-${terraform_data.vpc.id}"\n}\n',
    )
    program.write(
        "app/main.tf",
        """
        variable "vpc" {
          type = string
        }
        resource "terraform_data" "app" {
          input = { name = "app in ${var.vpc}" }
        }
        output "name" {
          value = terraform_data.app.output.name
        }
        """,
    )


def test_a_mock_is_replaced_by_the_real_value_when_there_is_one(holdfast: Program) -> None:
    """A first deployment as one bundle. The plan with the mock itself is never applied."""
    mocked(holdfast, environment="dev")
    planned = holdfast.json("plan", "--out", "out")
    digests = {stack["name"]: stack["digest"] for stack in planned["stacks"]}
    assert [stack["status"] for stack in planned["stacks"]] == ["planned", "planned"]
    alone = holdfast.results("apply", "--plan", "out/app", code=1)
    assert alone["app"]["status"] == "blocked"
    results = holdfast.results("apply", "--plan", "out")
    assert statuses(results) == {"network": "applied", "app": "applied"}
    vpc = results["network"]["outputs"]["vpc"]["value"]
    assert results["app"]["outputs"]["name"]["value"] == f"app in {vpc}"
    assert results["app"]["replaces"] == digests["app"]
    assert f'planned again: network.vpc was unknown, now "{vpc}"; same changes' in results["app"]["notes"]
    assert statuses(holdfast.results("apply", "--plan", "out")) == dict.fromkeys(results, "unchanged")
    assert statuses(holdfast.results("plan")) == dict.fromkeys(results, "unchanged")


def test_what_a_plan_does_not_show_cannot_change_with_it(holdfast: Program) -> None:
    """A provisioner would run with another value: the plan looks the same, and does something else."""
    mocked(holdfast, environment="dev")
    holdfast.ok("apply", "network", "--yes")
    code = (holdfast.folder / "app/main.tf").read_text()
    run = '  provisioner "local-exec" {\n    command = "echo ${local.vpc} >../ran"\n  }\n'
    holdfast.write(
        "app/main.tf",
        f"locals {{\n  vpc = var.vpc\n}}\n{code.replace('input = {', f'{run}input = {{')}".replace(
            "app in ${var.vpc}", "app"
        ),
    )
    network = (holdfast.folder / "network/main.tf").read_text()
    holdfast.write("network/main.tf", network.replace('"vpc-$', '"other-$'))
    holdfast.json("plan", "--out", "out")
    results = holdfast.results("apply", "--plan", "out", code=3)
    assert statuses(results) == {"network": "applied", "app": "refused"}
    assert results["app"]["error"]["code"] == "HF-BUND-23"
    assert "run a provisioner of terraform_data.app with another value" in results["app"]["error"]["message"]


def test_a_mock_is_the_one_of_the_configuration(holdfast: Program) -> None:
    """It matches any value, so a bundle cannot bring one of its own."""
    mocked(holdfast, environment="dev")
    holdfast.ok("plan", "--out", "out")
    config = (holdfast.folder / "holdfast.yaml").read_text()
    holdfast.write("holdfast.yaml", config.replace("vpc-mock", "vpc-other"))
    results = holdfast.results("apply", "--plan", "out", code=3)
    assert statuses(results) == {"network": "applied", "app": "refused"}
    assert results["app"]["error"]["code"] == "HF-BUND-6"


def test_in_production_a_replaced_mock_needs_a_new_approval(holdfast: Program) -> None:
    """The approval of the plan with the mock does not count; a plan with the real value can be approved."""
    mocked(holdfast, environment="prod")
    planned = holdfast.json("plan", "--out", "out")
    holdfast.ok("runs", "approve", planned["change"], "--reason", "looks right")
    results = holdfast.results("apply", "--plan", "out", code=5)
    assert statuses(results) == {"network": "applied", "app": "waiting"}
    assert results["app"]["error"]["code"] == "HF-APPR-1"
    assert "mock" in results["app"]["error"]["message"]
    assert "holdfast plan app --out" in results["app"]["error"]["hint"]
    assert statuses(holdfast.results("apply", "--plan", "out", code=5))["app"] == "waiting"
    holdfast.ok("plan", "app", "--out", "second")
    assert statuses(holdfast.results("apply", "--plan", "second")) == {"app": "applied"}


def test_every_next_step_of_a_waiting_bundle_works(holdfast: Program) -> None:
    """Each hint can be pasted, none leads back to where it was shown, and the history says who approved."""
    mocked(holdfast, environment="prod")
    guard = "guard: { environments: { prod: { approvals: 1 } } }\n"
    holdfast.write("holdfast.yaml", (holdfast.folder / "holdfast.yaml").read_text() + guard)
    planned = holdfast.results("plan", "--out", "bundle", code=5)
    assert "an approval does not count yet" in planned["app"]["error"]["hint"]
    waiting = holdfast.run("apply", "--plan", "bundle")
    assert "Get network approved first" in waiting.out
    assert "--continue" not in waiting.out
    assert "--out bundle-2" in holdfast.run("plan", "--out", "bundle").text
    holdfast.ok("runs", "approve", "--bundle", "bundle", "--reason", "looks right")
    applied = holdfast.run("apply", "--plan", "bundle")
    assert "changes to prod need an approval; approved by" in applied.out
    for command in (
        "plan app --out new-bundle/",
        "runs approve --bundle new-bundle/ --reason TEXT",
        "apply --plan new-bundle/",
    ):
        assert f"holdfast {command}" in applied.out
        holdfast.ok(*command.split(), code=5 if command.startswith("plan") else 0)
    shown = holdfast.ok("runs", "show", planned["network"]["run"]).out
    assert "approved by" in shown
    assert "used by run" in shown
    assert statuses(holdfast.results("plan")) == {"network": "unchanged", "app": "unchanged"}


def test_a_kill_during_a_plan_that_was_made_again_is_not_applied_twice(with_lab: Program) -> None:
    """Both digests are marked as used before Terraform starts; the journal proves how its apply ended."""
    mocked(with_lab, environment="dev")
    with_lab.write("app/main.tf", LAB_APP)
    with_lab.ok("plan", "--out", "out")
    objects = Path(with_lab.environment["TF_VAR_objects"])
    process = with_lab.start("apply", "--plan", "out")
    eventually(lambda: any(objects.iterdir()), what="the apply of app began")
    process.send_signal(signal.SIGKILL)
    process.wait()
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        stream.close()
    assert used(with_lab) == 3
    none_left(with_lab)
    again = with_lab.results("apply", "--plan", "out")
    assert statuses(again) == {"network": "unchanged", "app": "unchanged"}
    assert all("already applied" in result["notes"] for result in again.values())
    assert (len(list(objects.iterdir())), used(with_lab)) == (1, 3)
    assert with_lab.json("apply", "--continue", "--yes")["left"] == []
