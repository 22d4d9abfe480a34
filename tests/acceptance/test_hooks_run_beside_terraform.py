"""Programs before and after init, plan and apply: confined, limited in time, redacted, in the digest."""

from __future__ import annotations

import base64
import json
import os
import signal
from pathlib import Path

import pytest
from program import Program, eventually, interrupt

from holdfast.config.hooks import MOMENTS
from holdfast.system import confine

SECRET = "hunter2-of-a-hook-9c1e"
CODE = """
    variable "token" {
      sensitive = true
      default   = "%s"
    }
    resource "terraform_data" "app" {
      input = filebase64sha256("${path.module}/dist/app.txt")
    }
    output "content" {
      value = file("${path.module}/dist/app.txt")
    }
"""
MAKEFILE = "build:\n\tmkdir -p dist\n\tcat src/*.txt > dist/app.txt\n\techo built $(STACK_NAME) %s\n"


def repository(holdfast: Program, hooks: str, code: str = CODE % SECRET) -> None:
    holdfast.write(
        "holdfast.yaml",
        "version: 1\nenvironments: {dev: {match: [dev]}}\nstacks:\n"
        f"  - {{name: dev/app, module: app, environment: dev, hooks: [{hooks}]}}\n",
    )
    holdfast.write("app/main.tf", code)
    (holdfast.folder / "app/src").mkdir()
    holdfast.write("app/src/a.txt", "one")
    (holdfast.folder / "app/Makefile").write_text(MAKEFILE % SECRET)


def test_what_a_hook_builds_is_planned_saved_and_applied(holdfast: Program) -> None:
    """`run: [make, build]`: its files are in digest and bundle, and it does not run for the apply."""
    repository(holdfast, "{when: before_plan, run: [make, build], time_limit: 5m}")
    planned = holdfast.ok("plan", "--out", "bundle", "--json")
    document = json.loads(planned.out)["stacks"][0]
    assert "dev/app: make: built dev/app" in planned.err
    assert SECRET not in planned.text
    log = holdfast.ok("runs", "log", document["run"]).out
    assert "hook before_plan: make build: exit 0" in log
    assert "hook before_plan: built dev/app ***" in log
    assert holdfast.json("runs", "show", document["run"])["run"]["hooks"][0]["code"] == 0
    applied = holdfast.ok("apply", "--plan", "bundle", "--json")
    result = json.loads(applied.out)["stacks"][0]
    assert (result["digest"], result["outputs"]["content"]["value"]) == (document["digest"], "one")
    assert "built" not in applied.err
    # A file that the hook reads selects the stack, and is in the work directory.
    holdfast.write("app/src/b.txt", "two")
    [stack] = holdfast.json("stacks", "--changed", "app/src/b.txt")["stacks"]
    assert stack["name"] == "dev/app"
    assert holdfast.results("apply", "--yes")["dev/app"]["outputs"]["content"]["value"] == "onetwo"


def test_they_run_in_order_in_the_work_directory(holdfast: Program) -> None:
    """With the stack's environment; around init also when that comes from the cache; not in a destroy."""
    words = list(MOMENTS)
    hooks = ", ".join(f"{{when: {when}, run: [sh, -c, 'echo {when} $PWD $TF_VAR_x']}}" for when in words)
    repository(holdfast, hooks, 'resource "terraform_data" "a" {\n  input = timestamp()\n}\n')
    text = (holdfast.folder / "holdfast.yaml").read_text()
    holdfast.write(
        "holdfast.yaml", text.replace("environment: dev,", "environment: dev, env: {TF_VAR_x: y},")
    )
    for _ in range(2):
        lines = [line for line in holdfast.ok("apply", "--yes").out.splitlines() if "dev/app: sh: " in line]
        assert [line.split()[2] for line in lines] == words
        assert {line.split()[3].endswith("/0/tree/app") for line in lines} == {True}
        assert {line.split()[4] for line in lines} == {"y"}
    assert (
        "dev/app: sh: before_apply" not in holdfast.ok("destroy", "dev/app", "--yes-destroy", "dev/app").out
    )


def test_a_bundle_with_other_hooks_is_refused(holdfast: Program) -> None:
    repository(holdfast, "{when: before_plan, run: [make, build]}")
    holdfast.ok("plan", "--out", "bundle")
    text = (holdfast.folder / "holdfast.yaml").read_text()
    holdfast.write("holdfast.yaml", text.replace("[make, build]", "[make, -B, build]"))
    assert "HF-BUND-6" in holdfast.ok("apply", "--plan", "bundle", code=3).out


@pytest.mark.parametrize(
    ("hook", "code", "message", "left"),
    [
        (
            "{when: before_plan, run: [make, nothing]}",
            "HF-HOOK-1",
            "exited with 2; nothing was planned",
            "planned",
        ),
        ("{when: before_init, run: [no-such-program]}", "HF-HOOK-3", "is not on PATH", "planned"),
        ("{when: before_init, run: [./app.sh]}", "HF-HOOK-3", "is not executable", "planned"),
        ("{when: before_plan, run: [sleep, '60'], time_limit: 1s}", "HF-HOOK-2", "its time limit", "planned"),
        (
            "{when: before_apply, run: [sh, -c, 'echo x >> dist/app.txt']}",
            "HF-BUND-3",
            "dist/app.txt",
            "planned",
        ),
        (
            "{when: after_apply, run: ['false']}",
            "HF-HOOK-1",
            "exited with 1; the apply itself is done",
            "unchanged",
        ),
    ],
)
def test_a_failing_hook_fails_its_stack(
    holdfast: Program, hook: str, code: str, message: str, left: str
) -> None:
    """Before a command it is not started; after an apply the state is saved, and nothing is unknown."""
    repository(holdfast, f"{{when: before_plan, run: [make, build]}}, {hook}")
    status, exit_code = ("refused", 3) if code == "HF-BUND-3" else ("failed", 1)
    result = holdfast.results("apply", "--yes", code=exit_code)["dev/app"]
    assert (result["status"], result["error"]["code"]) == (status, code)
    assert message in result["error"]["message"]
    assert holdfast.json("runs", "show", result["run"])["run"]["status"] == status
    repository_without = (holdfast.folder / "holdfast.yaml").read_text().replace(f", {hook}", "")
    holdfast.write("holdfast.yaml", repository_without)
    assert holdfast.results("plan")["dev/app"]["status"] == left


@pytest.mark.parametrize("more", ["", "guard: {deletions: {per_change: 5}}\n"], ids=["ready", "by wave"])
def test_a_hook_that_failed_after_an_apply_runs_again(holdfast: Program, more: str) -> None:
    """A plan says that it is due, and an apply without changes runs it until it succeeds once."""
    hook = "{when: after_apply, run: [sh, -c, 'cat ../works && echo hook-ran'], files: [works]}"
    repository(holdfast, hook, 'resource "terraform_data" "a" {}\n')
    with (holdfast.folder / "holdfast.yaml").open("a") as file:
        file.write(more)
    assert "hooks are due" not in holdfast.ok("plan").text
    first = holdfast.results("apply", "--yes", code=1)["dev/app"]
    assert first["error"]["code"] == "HF-HOOK-1"
    assert "holdfast apply dev/app" in first["error"]["hint"]
    note = f"the after_apply hooks did not succeed in run {first['run']}; the next apply runs them"
    planned = holdfast.results("plan")["dev/app"]
    assert (planned["status"], note in planned["notes"]) == ("unchanged", True)
    assert "no changes after_apply hooks are due: the next apply runs them" in holdfast.ok("plan").text
    again = holdfast.results("apply", "--yes", code=1)["dev/app"]
    assert (again["status"], again["error"]["code"]) == ("failed", "HF-HOOK-1")
    holdfast.write("works", "")
    done = holdfast.ok("apply", "--yes", "--json")
    result = json.loads(done.out)["stacks"][0]
    assert "dev/app: sh: hook-ran" in done.err
    assert result["status"] == "unchanged"
    note = f"ran the after_apply hooks again, which did not succeed in run {first['run']}"
    assert note in result["notes"]
    assert holdfast.json("runs", "show", result["run"])["run"]["hooks"][0]["code"] == 0
    # Once is enough.
    assert "hook-ran" not in holdfast.ok("apply", "--yes").text
    assert "hooks are due" not in holdfast.ok("plan").text


def test_a_hook_is_due_after_a_kill(holdfast: Program, tmp_path: Path) -> None:
    """The apply is done and recorded; Holdfast is killed before its hook ended."""
    marks = tmp_path / "marks"
    marks.mkdir()
    wait = f"echo $$ > {marks}/new; mv {marks}/new {marks}/pid; exec sleep 300"
    script = f"if test ! -e {marks}/again; then {wait}; fi"
    repository(
        holdfast,
        f"{{when: after_apply, run: [sh, -c, '{script}']}}",
        'resource "terraform_data" "a" {}\n',
    )
    process = holdfast.start("apply", "--yes")
    eventually((marks / "pid").exists, what="the hook runs")
    process.kill()
    process.communicate(timeout=60)
    os.kill(int((marks / "pid").read_text()), signal.SIGKILL)
    (marks / "again").touch()
    result = holdfast.results("apply", "--yes")["dev/app"]
    assert result["status"] == "unchanged"
    assert "ran the after_apply hooks again" in result["notes"][-1]


def test_a_destroy_leaves_no_hook_due(holdfast: Program) -> None:
    """What the hook manages is gone."""
    repository(holdfast, "{when: after_apply, run: ['false']}", 'resource "terraform_data" "a" {}\n')
    holdfast.results("apply", "--yes", code=1)
    holdfast.ok("destroy", "dev/app", "--yes-destroy", "dev/app")
    assert "hooks are due" not in holdfast.ok("plan").text


def test_a_state_can_be_read_in_spite_of_a_failing_hook(holdfast: Program) -> None:
    repository(holdfast, "{when: before_init, run: [test, -e, ../works]}", 'output "a" {\n  value = 1\n}\n')
    holdfast.write("works", "")
    text = (holdfast.folder / "holdfast.yaml").read_text()
    holdfast.write("holdfast.yaml", text.replace("../works]", "../works], files: [works]"))
    holdfast.ok("apply", "--yes")
    (holdfast.folder / "works").unlink()
    assert holdfast.results("plan", code=1)["dev/app"]["error"]["code"] == "HF-HOOK-1"
    read = holdfast.ok("terraform", "dev/app", "--", "output", "-json")
    assert json.loads(read.out)["a"]["value"] == 1


def test_ctrl_c_ends_a_hook_and_what_it_started(holdfast: Program, tmp_path: Path) -> None:
    started = tmp_path / "marks/started"
    started.parent.mkdir()
    script = f"sleep 300 & echo $! > {started}.new; mv {started}.new {started}; wait"
    repository(holdfast, f"{{when: before_plan, run: [sh, -c, '{script}']}}")
    process = holdfast.start("plan", "--json")
    eventually(started.exists, what="the hook runs")
    interrupt(process)
    out, _ = process.communicate(timeout=60)
    result = json.loads(out)["stacks"][0]
    assert (process.returncode, result["status"], result["error"]["code"]) == (1, "cancelled", "HF-RUN-2")
    assert "(before_plan) was cancelled" in result["error"]["message"]
    child = Path("/proc", started.read_text().strip())
    eventually(lambda: not child.exists() or " Z " in (child / "stat").read_text(), what="its child ended")


@pytest.mark.skipif(not confine.can_confine_threads(), reason="this machine cannot confine threads")
def test_a_hook_cannot_read_the_key(holdfast: Program, tmp_path: Path) -> None:
    """Neither from its file, nor from the environment of the processes above it."""
    key = base64.b64encode(b"k" * 32).decode()
    file = tmp_path / "keys/key"
    file.parent.mkdir()
    file.write_text(key)
    file.chmod(0o600)
    script = (
        f"for f in {file} /proc/$PPID/environ; do cat $f >/dev/null 2>&1 && echo READ $f; done; env; true"
    )
    repository(holdfast, f"{{when: before_init, run: [sh, -c, '{script}']}}", "")
    for given in ({"HOLDFAST_KEY_FILE": str(file)}, {"HOLDFAST_KEY": key}):
        out = holdfast.ok("plan", env=given).out
        assert "dev/app: sh: STACK_NAME=dev/app" in out
        assert "HOLDFAST_" not in out
        assert key not in out
        assert "READ /proc" not in out
        assert ("READ" in out) == ("HOLDFAST_KEY" in given)
