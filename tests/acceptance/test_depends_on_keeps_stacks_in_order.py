"""Dependencies between stacks, with real plans and a real provider."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from program import Program, eventually
from small import on_a_terminal, stacks

from provider.service import Call, Fault, LabService

OBJECT = """
terraform {
  required_providers {
    lab = { source = "holdfast.dev/labs/lab", version = "1.0.0" }
  }
}
variable "url" {}
variable "name" {}
variable "kind" { default = "plain" }
variable "reads" { default = [] }
provider "lab" {
  url = var.url
}
data "lab_object" "other" {
  for_each = toset(var.reads)
  name     = each.key
}
resource "lab_object" "it" {
  name = var.name
  kind = var.kind
}
"""


@pytest.fixture
def service(with_lab: Program) -> Iterator[LabService]:
    with LabService() as running:
        with_lab.environment["TF_VAR_url"] = running.url
        yield running


def repository(
    program: Program, needs: dict[str, list[str]], parallelism: int = 4, **variables: dict[str, object]
) -> None:
    """Stacks of one lab object each, named like it, with what each depends on."""
    entries = [
        {
            "name": name,
            "module": "module",
            "environment": "dev",
            "variables": {"name": name, **variables.get(name, {})},
            "depends_on": others,
        }
        for name, others in needs.items()
    ]
    document = {
        "version": 1,
        "environments": {"dev": {"match": ["dev"]}},
        "engine": {"parallelism": parallelism},
        "stacks": entries,
    }
    program.write("holdfast.yaml", json.dumps(document))
    program.write("module/main.tf", OBJECT)


def statuses(results: dict[str, Any]) -> dict[str, str]:
    return {name: one["status"] for name, one in results.items()}


def made(service: LabService) -> list[str | None]:
    return [call.name for call in sorted(service.calls("create"), key=lambda call: call.started)]


def most_at_once(calls: list[Call]) -> int:
    moments = sorted(
        moment for call in calls for moment in ((call.started, 1), (call.ended or float("inf"), -1))
    )
    running = most = 0
    for _, step in moments:
        running += step
        most = max(most, running)
    return most


@pytest.mark.long
def test_an_object_is_made_after_what_it_depends_on(with_lab: Program, service: LabService) -> None:
    """Whatever the names say, the order is that of the dependencies, and a stack in between that is not
    selected keeps the others in order.
    """
    repository(with_lab, {"a": ["m"], "m": ["z"], "z": []})
    # `z` is slow: an `a` that did not wait would be first.
    service.misbehave(Fault(operation="create", what="delay", seconds=1.0, before=True, name="z"))
    assert statuses(with_lab.results("apply", "a", "z", "--yes")) == {"a": "applied", "z": "applied"}
    first, second = service.calls("create")
    assert (first.name, second.name) == ("z", "a")
    assert first.ended is not None
    assert first.ended <= second.started
    with_lab.ok("apply", "m", "--yes")
    assert made(service) == ["z", "a", "m"]


@pytest.mark.long
def test_one_failure_blocks_only_what_depends_on_it(with_lab: Program, service: LabService) -> None:
    """What stands behind a failure is blocked, also through what is not selected; all else goes on."""
    repository(
        with_lab,
        {"bad": [], "next": ["bad"], "last": ["next"], "free": [], "after-free": ["free"]},
        bad={"kind": "fail-create"},
    )
    results = with_lab.results("apply", "--yes", code=1)
    assert statuses(results) == {
        "after-free": "applied",
        "bad": "failed",
        "free": "applied",
        "last": "blocked",
        "next": "blocked",
    }
    assert results["bad"]["error"]["code"] == "HF-TF-4"
    assert results["next"]["error"]["code"] == "HF-RUN-3"
    assert "bad" in results["next"]["error"]["message"]
    assert sorted(str(name) for name in made(service)) == ["after-free", "free"]
    around = with_lab.results("apply", "bad", "last", "--yes", code=1)
    assert statuses(around) == {"bad": "failed", "last": "blocked"}


@pytest.mark.long
def test_a_plan_says_what_is_pending_and_what_cannot_be_planned_yet(
    with_lab: Program, service: LabService
) -> None:
    """A note where the dependency is pending; `blocked`, exit 0, where the plan needs it to exist."""
    repository(with_lab, {"base": [], "reader": ["base"], "other": ["base"]}, reader={"reads": ["base"]})
    planned = with_lab.results("plan")
    assert statuses(planned) == {"base": "planned", "other": "planned", "reader": "blocked"}
    assert any("base" in note for note in planned["other"]["notes"])
    reader = planned["reader"]
    assert reader["error"]["code"] == "HF-RUN-3"
    assert "base, which is not applied yet" in reader["error"]["message"]
    assert reader["errors"][0]["code"] == "HF-TF-3"
    assert reader["digest"] is None
    assert service.calls("create") == []
    shown = with_lab.ok("plan", "reader", "base").out
    assert "HF-RUN-3" in shown
    assert "HF-TF-3" in shown
    # Without its dependency in the change, the same failure is the stack's own.
    assert statuses(with_lab.results("plan", "reader", code=1)) == {"reader": "failed"}
    applied = with_lab.results("apply", "--yes")
    assert set(statuses(applied).values()) == {"applied"}
    assert with_lab.results("plan")["reader"]["notes"] == planned["base"]["notes"]


@pytest.mark.long
def test_as_many_at_once_as_the_configuration_allows(with_lab: Program, service: LabService) -> None:
    """`parallelism: 2` of five stacks: two at work together, and never three."""
    repository(with_lab, {name: [] for name in "abcde"}, parallelism=2)
    service.misbehave(Fault(operation="create", what="hold", count=2))
    process = with_lab.start("apply", "--yes")
    eventually(lambda: len(service.calls("create")) >= 2, what="two at work")
    service.release()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    calls = service.calls("create")
    assert len(calls) == 5
    assert most_at_once(calls) == 2


def test_a_circle_is_shown_as_a_path(holdfast: Program) -> None:
    """Stacks that wait for each other are a mistake in the configuration, exit 64, with the way round."""
    stacks(
        holdfast,
        more="".join(
            f"  - {{ name: {name}, module: module, environment: dev, depends_on: [{other}] }}\n"
            for name, other in pairwise("abca")
        ),
    )
    document = holdfast.json("plan", code=64)
    assert "a → b → c → a" in document["errors"][0]["message"]
    assert document["errors"][0]["file"] == "holdfast.yaml"


def test_without_a_terminal_nothing_is_asked(holdfast: Program) -> None:
    """`apply` without `--yes` and without a terminal is exit 64, and nothing was run."""
    stacks(holdfast, "a")
    assert holdfast.json("apply", code=64)["errors"][0]["code"] == "HF-USE-5"
    assert not (holdfast.folder / ".holdfast").exists()


def test_on_a_terminal_each_wave_is_asked_about(holdfast: Program) -> None:
    """A plan stands on the screen before its question; a wave is planned after the one before is applied."""
    stacks(holdfast, "a", more="  - { name: b, module: module, environment: dev, depends_on: [a] }\n")
    code, shown, asked = on_a_terminal(holdfast, ["apply"], answers=["y", "yes"])
    assert code == 0, shown
    assert len(asked) == 2
    assert "Apply 1 stack?" in asked[0]
    assert "terraform_data.it" in asked[0]
    assert "2 applied" in shown
    assert set(statuses(holdfast.results("plan")).values()) == {"unchanged"}


def test_who_says_no_changes_nothing(holdfast: Program) -> None:
    """No, or anything but yes, cancels that wave: exit 1, and what waits for it is blocked."""
    stacks(holdfast, "a", more="  - { name: b, module: module, environment: dev, depends_on: [a] }\n")
    code, shown, asked = on_a_terminal(holdfast, ["apply"], answers=["nah"])
    assert code == 1, shown
    assert len(asked) == 1
    assert "cancelled" in shown
    assert "blocked" in shown
    assert not (holdfast.folder / ".holdfast/used").exists()
    assert not (holdfast.folder / ".holdfast/states").exists()
    assert holdfast.ok("state", "pull", "a").out == ""
