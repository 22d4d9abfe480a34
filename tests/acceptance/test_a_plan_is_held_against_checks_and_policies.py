"""Checks inside `plan` and `apply`: what policies deny is refused, what is found is shown with the plan."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from program import Program, eventually

CONFIG = """
    version: 1
    environments: {{ dev: {{ match: [dev] }} }}
    targets: {{ lab: {{ owner: developers, contract: {{ schema: contract.yaml }} }} }}
    stacks:
      - {{ name: app, module: app, environment: dev }}
      - {{ name: other, module: other, environment: dev{target} }}
    guard: {guard}
    checks: {checks}
    """
APP = 'resource "terraform_data" "it" {\n  input = "forbidden"\n}\n'
POLICY = """
    package main

    deny contains {"msg": sprintf("%s is forbidden", [change.address]), "address": change.address} if {
      some change in input.resource_changes
      change.change.after.input == "forbidden"
    }
    """


@pytest.fixture
def repository(holdfast: Program) -> Program:
    configure(holdfast)
    holdfast.write("app/main.tf", APP)
    holdfast.write("other/main.tf", APP.replace("forbidden", "fine"))
    return holdfast


def configure(program: Program, *, guard: str = "{}", checks: str = "{}", target: str = "") -> None:
    program.write("holdfast.yaml", CONFIG.format(guard=guard, checks=checks, target=target))


def by_rule(document: dict[str, Any]) -> dict[str, list[tuple[str | None, str | None]]]:
    found: dict[str, list[tuple[str | None, str | None]]] = {}
    for one in document["checks"]["findings"]:
        found.setdefault(one["rule"], []).append((one["stack"], one["file"]))
    return found


def test_a_policy_that_denies_is_a_decision_of_the_guard(repository: Program, tmp_path: Path) -> None:
    """Only the stack it denies is refused, in every environment, and an override lets one plan through."""
    repository.write("policy/main.rego", POLICY)
    bundle = tmp_path / "bundle"
    planned = repository.json("plan", "--out", str(bundle), code=3)
    app, other = planned["stacks"]
    assert (app["status"], other["status"]) == ("refused", "planned")
    assert app["guard"]["reasons"][0] == {
        "code": "HF-GUARD-18",
        "address": "terraform_data.it",
        "message": "terraform_data.it is forbidden",
        "rule": "policy rego.main.deny",
        "effect": "deny",
    }
    assert by_rule(planned)["rego.main.deny"] == [("app", None)]

    assert repository.results("apply", "--plan", str(bundle / "app"), code=3)["app"]["status"] == "refused"
    digest = json.loads((bundle / "app/summary.json").read_text())["digest"]
    approved = repository.json("runs", "approve", app["run"], "--reason", "fine by me")
    assert approved["notes"][-1].endswith(f"only an override does: --override {digest}")
    repository.write("policy/main.rego", POLICY.replace("is forbidden", "is not wanted"))
    stale = repository.results("apply", "--plan", str(bundle / "app"), code=3)["app"]
    assert stale["error"]["code"] == "HF-BUND-6"
    repository.write("policy/main.rego", POLICY)
    overridden = ("apply", "--plan", str(bundle / "app"), "--override", digest, "--reason", "an exception")
    assert repository.results(*overridden)["app"]["status"] == "applied"

    again = repository.json("plan", "app")
    assert again["stacks"][0]["status"] == "unchanged", "there is nothing to apply, so nothing is refused"
    assert by_rule(again)["rego.main.deny"] == [("app", None)], "but it is said all the same"


def test_policies_that_nobody_can_ask_refuse(repository: Program) -> None:
    """A policy that breaks, or cannot be read, is not one that found nothing; a waiver can answer for one."""
    repository.write("policy/main.rego", "package main\n\ndeny contains msg if {\n")
    broken = repository.json("plan", "app", code=3)["stacks"][0]
    assert broken["guard"]["reasons"][0]["code"] == "HF-GUARD-18"
    repository.write("policy/main.rego", POLICY)
    waiver = "{ rule: rego.main.deny, stack: app, until: 2999-01-01, reason: agreed, owner: platform }"
    configure(repository, checks=f"{{ waivers: [{waiver}] }}")
    assert repository.json("plan", "app")["stacks"][0]["status"] == "planned"
    configure(repository, guard="{ policies: approve }")
    assert repository.json("plan", "app", code=5)["stacks"][0]["status"] == "waiting"


def test_a_policy_about_code_holds_up_the_stacks_of_that_code(repository: Program) -> None:
    """A file of `app` is denied: `app` is refused, `other` is not."""
    repository.write(
        "policy/code.rego",
        'package code\n\ndeny contains "inputs are not written out" if {\n'
        '  input.resource.terraform_data.it[0].input == "forbidden"\n}\n',
    )
    app, other = repository.json("plan", code=3)["stacks"]
    assert (app["status"], other["status"]) == ("refused", "planned")
    assert app["guard"]["reasons"][0]["rule"] == "policy rego.code.deny"


def test_errors_are_shown_and_hold_up_only_where_the_guard_is_told_so(repository: Program) -> None:
    """A token of GitHub in the code: shown with the plan, refused with `guard.findings: deny`."""
    key = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    repository.write("app/main.tf", f'resource "terraform_data" "it" {{\n  input = "{key}"\n}}\n')
    shown = repository.ok("plan", "app")
    assert "HF207" in shown.text
    assert key not in shown.text
    configure(repository, guard="{ findings: deny }")
    app, other = repository.json("plan", code=3)["stacks"]
    assert (app["status"], other["status"]) == ("refused", "planned")
    reason = next(one for one in app["guard"]["reasons"] if one["rule"] == "check HF207")
    assert reason["code"] == "HF-GUARD-19"
    assert reason["message"].startswith("app/main.tf:2: ")
    refused = repository.ok("plan", "app", code=3).out
    assert "check HF207 (HF-GUARD-19)" in refused
    assert "✗ HF207" not in refused, "what the guard says is not said again"


def test_only_what_stacks_are_made_of_is_looked_at(repository: Program) -> None:
    """A file that Git ignores may lie beside the code, and is nobody's business."""
    key = "AKIA" + "Z7QK2M4XWPL6RTVB"
    repository.write("app/mine.json", f'{{"key": "{key}"}}\n')
    repository.write("app/terraform.tfstate.backup", f'{{"key": "{key}"}}\n')
    assert "HF207" not in by_rule(repository.json("plan", "app"))


@pytest.mark.parametrize("use", ["embedded", "binary"])
def test_the_format_of_files_is_looked_at_with_the_plan(
    repository: Program, use: str, terraform_folder: Path
) -> None:
    """By Terraform's own fmt, once for all stacks; nothing is written."""
    repository.environment["PATH"] = f"{terraform_folder}:{repository.environment['PATH']}"
    text = (repository.folder / "holdfast.yaml").read_text()
    repository.write("holdfast.yaml", f"{text}engine: {{ use: {use} }}\n")
    repository.write("other/main.tf", 'resource "terraform_data" "it" {\n     input="fine"\n}\n')
    found = by_rule(repository.json("plan"))
    assert [file for _, file in found["HF601"]] == ["other/main.tf"]
    assert "     input=" in (repository.folder / "other/main.tf").read_text()


def test_an_error_in_the_format_holds_up_the_stack_whose_file_it_is(repository: Program) -> None:
    """Where the format is made an error it is waited for; else it would be told when all is applied."""
    configure(repository, guard="{ findings: deny }", checks="{ rules: { HF601: error } }")
    repository.write("other/main.tf", 'resource "terraform_data" "it" {\n     input="fine"\n}\n')
    document = repository.json("plan", code=3)
    app, other = document["stacks"]
    assert (app["status"], other["status"]) == ("planned", "refused")
    assert other["guard"]["reasons"][0]["rule"] == "check HF601"
    assert by_rule(document)["HF601"] == [("other", "other/main.tf")]


def test_what_several_plans_show_of_one_line_is_said_once(repository: Program) -> None:
    """Two stacks use a module: its code and both plans show the same."""
    configure(repository, checks="{ boundary: { types: { terraform_data: gitops } } }")
    repository.write("m/main.tf", APP)
    for name in ("app", "other"):
        repository.write(f"{name}/main.tf", 'module "m" {\n  source = "../m"\n}\n')
    assert by_rule(repository.json("plan"))["HF101"] == [(None, "m/main.tf")]


def test_a_stack_without_a_plan_is_not_taken_for_looked_at(repository: Program) -> None:
    """Neither its plan nor the format of its files was seen, and no policy was asked: each says so."""
    repository.write("policy/main.rego", POLICY)
    repository.write("app/main.tf", 'resource "terraform_data" "it" {\n  input = local.nothing\n}\n')
    document = repository.json("plan", "app", code=1)
    assert document["stacks"][0]["status"] == "failed"
    unseen = {one["rule"] for one in document["checks"]["skipped"] if one["stack"] == "app"}
    assert {"HF210", "HF213", "HF402", "HF601", "HF602", "rego"} <= unseen
    assert document["checks"]["summary"]["skipped"] == len(unseen)


def test_what_the_guard_warns_of_is_told_after_an_apply_too(repository: Program) -> None:
    """With --yes nobody saw the plan before: what is counted is also said."""
    repository.write("policy/main.rego", POLICY)
    configure(repository, guard="{ policies: warn }")
    applied = repository.ok("apply", "app", "--yes").out
    assert "✗ rego.main.deny" in applied
    assert "terraform_data.it is forbidden" in applied


def test_outputs_are_held_against_the_contract_in_the_plan_and_after_the_apply(repository: Program) -> None:
    """What the code cannot tell the plan can, and what the plan cannot tell the apply can."""
    repository.write(
        "contract.yaml",
        "version: 1\nname: lab\noutputs:\n  port: { type: number, required: true }\n"
        "  id: { type: number, required: true }\n",
    )
    configure(repository, target=", target: lab")
    repository.write(
        "other/main.tf",
        'resource "terraform_data" "it" {\n  input = "x"\n}\n'
        'output "port" {\n  value = title("none")\n}\noutput "id" {\n  value = terraform_data.it.id\n}\n',
    )
    planned = repository.json("plan", "other")
    wrong = [one["address"] for one in planned["checks"]["findings"] if one["rule"] == "HF402"]
    assert wrong == ["output.port"]
    unseen = {one["rule"]: one["reason"] for one in planned["checks"]["skipped"]}
    assert "`id`" in unseen["HF402"]
    applied = repository.json("apply", "other", "--yes")
    wrong = [one["address"] for one in applied["checks"]["findings"] if one["rule"] == "HF402"]
    assert sorted(wrong) == ["output.id", "output.port"]
    assert applied["stacks"][0]["status"] == "applied"


def test_what_is_destroyed_has_its_plan_looked_at_and_not_its_code(repository: Program) -> None:
    """A policy may deny a deletion; the format of code that goes away is nobody's concern."""
    repository.write("app/main.tf", APP.replace("  input", "    input"))
    repository.ok("apply", "app", "--yes")
    repository.write(
        "policy/main.rego",
        'package main\n\ndeny contains "nothing is deleted" if {\n'
        '  some change in input.resource_changes\n  "delete" in change.change.actions\n}\n',
    )
    found = repository.json("destroy", "app", "--yes-destroy", "app", code=3)
    assert found["stacks"][0]["status"] == "refused"
    assert set(by_rule(found)) == {"rego.main.deny"}


def test_stacks_that_a_changed_policy_was_not_asked_about_are_told(repository: Program) -> None:
    """A policy selects no stack. That nobody was held against the new one stands wherever plans are told."""
    repository.write("policy/main.rego", POLICY.replace("forbidden", "other"))
    repository.commit_all()
    repository.write("policy/main.rego", POLICY)
    said = "policies changed (policy/main.rego), and 2 stacks were not checked with them: run"
    document = repository.json("plan", "--since", "HEAD")
    (one,) = [one for one in document["checks"]["findings"] if one["rule"] == "rego"]
    assert (one["severity"], one["message"].startswith(said)) == ("warning", True)
    assert said.capitalize()[:20] in repository.ok("plan", "--since", "HEAD").out
    report = repository.ok("plan", "--since", "HEAD", "--format", "markdown").out
    assert said in report.replace("`", "")


_OPA_THAT_NEVER_ANSWERS = """\
#!/bin/sh
case "$1" in
  capabilities) echo '{"builtins": [{"name": "eq"}]}' ;;
  *) echo $$ >> "$ASKED"; exec sleep 1000 ;;
esac
"""


def test_a_person_who_wants_to_end_does_not_wait_for_a_policy(repository: Program, tmp_path: Path) -> None:
    """Ctrl-C while somebody thinks about a policy: that is ended, and so is the change, as asked."""
    repository.write("policy/main.rego", POLICY)
    asked, tools = tmp_path / "user/asked", tmp_path / "tools"
    tools.mkdir()
    (tools / "opa").write_text(_OPA_THAT_NEVER_ANSWERS.replace("$ASKED", str(asked)))
    (tools / "opa").chmod(0o755)
    path = f"{tools}{os.pathsep}{repository.environment['PATH']}"
    process = repository.start("plan", "app", "--json", env={"PATH": path})
    eventually(lambda: asked.exists() and asked.read_text().endswith("\n"), what="the policy is asked")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1, out + err
    (app,) = json.loads(out)["stacks"]
    assert (app["status"], app["error"]["code"]) == ("cancelled", "HF-RUN-2")
    for pid in asked.read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)
