"""The Action and the example workflows: what they promise, looked up in the files themselves."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from reports_made import ready, report

from holdfast.cli.app import app
from holdfast.notify.commands import outputs_of

ROOT = Path(__file__).parent.parent.parent.parent
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
WORKFLOWS: dict[str, dict[str, Any]] = {
    file.name: {
        "on" if key is True else key: value
        for key, value in yaml.safe_load(file.read_text(encoding="utf-8")).items()
    }
    for file in sorted((ROOT / "examples/workflows").glob("*.yml"))
}
OURS = "OWNER/holdfast@"
PINNED = re.compile(r"(actions|aws-actions|OWNER)/[a-z-]+@(v[0-9]+(\.[0-9]+){0,2}|[0-9a-f]{40})\Z")
READS = {"contents": "read", "id-token": "write"}
ALLOWED = {
    ("plan.yml", "plan"): {**READS, "pull-requests": "write"},
    ("apply.yml", "plan"): READS,
    ("apply.yml", "apply"): {**READS, "pull-requests": "write"},
    ("break-glass.yml", "act"): {**READS, "actions": "read"},
    ("drift.yml", "drift"): READS,
    ("server.yml", "plan"): READS,
    ("server.yml", "apply"): {**READS, "pull-requests": "write"},
}
GITLAB = yaml.safe_load((ROOT / "examples/workflows/gitlab/.gitlab-ci.yml").read_text(encoding="utf-8"))
AZURE = yaml.safe_load((ROOT / "examples/workflows/azure/azure-pipelines.yml").read_text(encoding="utf-8"))


def jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, workflow in WORKFLOWS.items():
        for job in workflow["jobs"].values():
            yield name, job


def steps() -> Iterator[tuple[str, dict[str, Any]]]:
    yield from (("action.yml", step) for step in ACTION["runs"]["steps"])
    yield from ((name, step) for name, job in jobs() for step in job["steps"])


def test_a_job_may_do_what_it_needs_and_no_more() -> None:
    """A workflow grants nothing, a job what its steps use; and every job ends some day."""
    found = {(name, job) for name, workflow in WORKFLOWS.items() for job in workflow["jobs"]}
    assert found == set(ALLOWED)
    for (name, named), allowed in ALLOWED.items():
        job = WORKFLOWS[name]["jobs"][named]
        assert WORKFLOWS[name]["permissions"] == {}
        assert job["permissions"] == allowed
        assert job["timeout-minutes"] <= 360


def test_every_action_has_a_version() -> None:
    """None is taken from a branch that moves, and there are few."""
    assert [step["uses"] for _, step in steps() if "uses" in step and not PINNED.match(step["uses"])] == []


def test_no_script_is_put_together_from_texts() -> None:
    """What people type reaches a script as a variable: an expression in a script would be run."""
    assert [name for name, step in steps() if "${{" in step.get("run", "")] == []


def test_a_checkout_leaves_no_token_behind() -> None:
    """Planning runs code of others; it finds no credentials of Git."""
    checkouts = [step for _, step in steps() if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts
    for step in checkouts:
        assert step["with"]["persist-credentials"] is False


def test_plans_are_of_our_own_code_only() -> None:
    """A fork's code never runs where secrets are."""
    assert set(WORKFLOWS["plan.yml"]["on"]) == {"pull_request"}
    assert "head.repo.full_name == github.repository" in WORKFLOWS["plan.yml"]["jobs"]["plan"]["if"]


def test_no_apply_is_cancelled_by_the_next() -> None:
    """One group per lane, in which as many wait as come; plans of one request replace each other."""
    assert WORKFLOWS["apply.yml"]["concurrency"] == {
        "group": "holdfast-aws", "cancel-in-progress": False, "queue": "max",
    }  # fmt: skip
    assert WORKFLOWS["plan.yml"]["concurrency"]["cancel-in-progress"] is True
    assert "concurrency" not in WORKFLOWS["break-glass.yml"]


def test_jobs_that_write_need_an_environment() -> None:
    """Reviewers can be required for an apply, and for every way out."""
    assert WORKFLOWS["apply.yml"]["jobs"]["apply"]["environment"] == "production"
    assert WORKFLOWS["break-glass.yml"]["jobs"]["act"]["environment"] == "break-glass"


def test_what_is_applied_is_what_was_planned() -> None:
    """The bundle goes from one job to the other, also when it was refused, and into an override."""
    plan, apply = (WORKFLOWS["apply.yml"]["jobs"][name]["steps"] for name in ("plan", "apply"))
    kept = [step for step in plan if step.get("uses", "").startswith("actions/upload-artifact@")]
    fetched = [step for step in apply if step.get("uses", "").startswith("actions/download-artifact@")]
    assert kept[0]["if"] == "${{ !cancelled() }}"
    assert kept[0]["with"]["name"] == fetched[0]["with"]["name"]
    assert apply[-1]["with"] == {"command": "apply", "plan": fetched[0]["with"]["path"]}


def test_examples_use_what_the_action_has() -> None:
    """Inputs and outputs that are named exist, and the action passes on what Holdfast writes."""
    ours = [step for _, step in steps() if step.get("uses", "").startswith(OURS)]
    assert ours
    for step in ours:
        assert set(step["with"]) <= set(ACTION["inputs"])
    everything = "".join(map(yaml.safe_dump, WORKFLOWS.values()))
    used = set(re.findall(r"steps\.plan\.outputs\.([a-z-]+)", everything))
    assert used
    assert used <= set(ACTION["outputs"])
    written = {*outputs_of(report(ready("a")), exit_code=0), "report"}
    for name, output in ACTION["outputs"].items():
        assert output["value"] == f"${{{{ steps.run.outputs.{name} }}}}"
        assert name in written


def other_scripts() -> Iterator[str]:
    """What the pipelines of GitLab and Azure DevOps type."""
    for job in GITLAB.values():
        yield from job.get("script", []) if isinstance(job, dict) else []
    plan, apply = (stage["jobs"][0] for stage in AZURE["stages"])
    for step in (*plan["steps"], *apply["strategy"]["runOnce"]["deploy"]["steps"]):
        yield step.get("script", "")


def test_other_hosts_plan_a_review_and_apply_what_was_merged() -> None:
    """A job under review has the plan key only; an apply takes the bundle of its own pipeline, and waits."""
    scripts = list(other_scripts())
    for host in ("gitlab", "azure"):
        (plan,) = (line for line in scripts if line.endswith(f"--pull-request {host}"))
        assert "--since" in plan
    assert GITLAB["plan"]["rules"] == [{"if": '$CI_PIPELINE_SOURCE == "merge_request_event"'}]
    assert GITLAB["plan-merged"]["artifacts"]["paths"] == ["bundle"]
    assert GITLAB["apply"]["environment"] == "production"
    assert GITLAB["apply"]["resource_group"] == GITLAB["plan-merged"]["resource_group"]
    plan, apply = AZURE["stages"]
    assert [one["group"] for one in plan["variables"]] == ["holdfast-plan"]
    assert "HOLDFAST_KEY" not in yaml.safe_dump(plan).replace("HOLDFAST_PLAN_KEY", "")
    assert apply["jobs"][0]["environment"] == "production"
    assert not [line for line in scripts if "$(" in line]


def test_commands_in_examples_exist() -> None:
    """Every command and every option that a script types is one of the program's."""
    typed = [
        line.split()[1:]
        for _, step in steps()
        for line in step.get("run", "").splitlines()
        if line.strip().startswith("holdfast ") and "words[@]" not in line
    ]
    typed += [line.split()[1:] for line in other_scripts() if line.startswith("holdfast ")]
    assert len(typed) >= 10
    for words in [*typed, ["plan", "--github", "--since", "--out"], ["apply", "--plan", "--yes"]]:
        found: click.Command = app
        for word in words:
            if isinstance(found, click.Group):
                inner = found.get_command(click.Context(found), word)
                assert inner is not None, word
                found = inner
            elif word.startswith("--") and word != "--":
                known = [name for one in found.params for name in one.opts]
                assert word in known, f"{found.name} {word}"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"COMMAND": "plan"}, ["plan", "--github", "--"]),
        (
            {"COMMAND": "plan", "SINCE": "origin/main", "OUT": "a b", "STACKS": "target:aws\n-x; $(id)\n"},
            ["plan", "--github", "--since", "origin/main", "--out", "a b", "--", "target:aws", "-x; $(id)"],
        ),
        ({"COMMAND": "check", "SINCE": "main"}, ["check", "--format", "github", "--since", "main", "--"]),
        ({"COMMAND": "apply", "PLAN": "bundle"}, ["apply", "--plan", "bundle", "--"]),
        ({"COMMAND": "apply", "ARGUMENTS": "--wait\n1h"}, ["apply", "--yes", "--wait", "1h", "--"]),
    ],
)
def test_the_action_starts_the_program_as_meant(
    tmp_path: Path, given: dict[str, str], words: list[str]
) -> None:
    """Each input becomes one argument, whatever it holds."""
    assert start(tmp_path, given) == (0, words)


def test_the_action_knows_no_other_command(tmp_path: Path) -> None:
    """Another word starts nothing."""
    assert start(tmp_path, {"COMMAND": "destroy"}) == (64, [])


def start(folder: Path, given: dict[str, str]) -> tuple[int, list[str]]:
    """Run the action's own script, with a `holdfast` that writes down its arguments."""
    program, said = folder / "holdfast", folder / "said"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{said}"\n')
    program.chmod(0o700)
    script = next(step["run"] for step in ACTION["runs"]["steps"] if step.get("id") == "run")
    empty = dict.fromkeys(("STACKS", "SINCE", "OUT", "PLAN", "ARGUMENTS"), "")
    ran = subprocess.run(
        ["bash", "-c", script],
        env={"PATH": f"{folder}:{os.environ['PATH']}", **empty, **given},
        capture_output=True,
        check=False,
    )
    return ran.returncode, said.read_text().splitlines() if said.exists() else []


def test_the_action_installs_the_versions_that_are_tested() -> None:
    """Every version of the lock file becomes a constraint, and nothing else does."""
    script = str(ACTION["runs"]["steps"][0]["run"])
    found = re.search(r"sed -nE '([^']+)'", script)
    assert found is not None
    lock = ROOT / "requirements.lock"
    ran = subprocess.run(["sed", "-nE", found[1], str(lock)], capture_output=True, text=True, check=True)
    named = re.findall(r"^([a-z0-9][^=\s]*==[^\s\\;]+)", lock.read_text(), re.MULTILINE)
    assert [line.split(" ")[0] for line in ran.stdout.splitlines()] == named
    assert "hash" not in ran.stdout
    assert "\\" not in ran.stdout
