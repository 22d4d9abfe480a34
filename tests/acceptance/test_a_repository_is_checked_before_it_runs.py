"""`holdfast check`: findings, exit codes, selection, formats; nothing is run for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import sarif_read
from program import Program

CONFIG = """
version: 1
stacks:
  - variables: vars/{name}.tfvars
    module: module
    name: "{name}"
    environment: prod
    workspace: "{name}"
checks:
  rules: { "HF*": off, HF703: error, HF9*: error }
"""
MODULE = 'variable "x" {\n  type = string\n}\noutput "x" {\n  value = var.x\n}\n'


def start(program: Program) -> None:
    program.write("holdfast.yaml", CONFIG)
    program.write("module/main.tf", MODULE)
    program.write("vars/a.tfvars", 'x = "a"\n')
    program.write("vars/b.tfvars", 'x = "b"\ny = "typo"\n')


def only(document: dict[str, Any], rule: str) -> list[dict[str, Any]]:
    return [one for one in document["findings"] if one["rule"] == rule]


def test_what_is_wrong_is_refused_with_its_place(holdfast: Program) -> None:
    """Exit 3 for an error, with file, line, hint; the same as JSON; nothing is left behind."""
    start(holdfast)
    shown = holdfast.run("check")
    assert shown.code == 3
    assert "✗ HF703  Variable is set but not declared" in shown.out
    assert "vars/b.tfvars:2  `y` is set here, but module does not declare it  (var.y)" in shown.out
    assert not (holdfast.folder / ".holdfast").exists()
    answer = holdfast.run("check", "--json")
    assert answer.code == 3
    (found,) = only(json.loads(answer.out), "HF703")
    assert (found["severity"], found["file"], found["line"], found["stack"]) == (
        "error",
        "vars/b.tfvars",
        2,
        "b",
    )
    assert holdfast.run("check", "a").code == 0
    assert holdfast.run("check", "--changed", "vars/a.tfvars", "--fail-on", "note").code == 0


def test_nothing_is_quoted_from_files_outside_the_repository(holdfast: Program, tmp_path: Path) -> None:
    """A link in a pull request may lead to what only the machine of CI may read."""
    start(holdfast)
    for name, content in (("broken.tf", 'hunter2 "is secret\n'), ("whole.tfvars", 'y = "hunter2"\n')):
        (tmp_path / name).write_text(content)
        (holdfast.folder / "module" / name).symlink_to(tmp_path / name)
    for form in ("text", "json", "sarif", "github", "markdown", "junit"):
        said = holdfast.run("check", "--format", form, "--verbose" if form == "text" else "--quiet")
        assert said.code == 3
        assert "module/broken.tf" in said.out
        assert "hunter2" not in said.text


def test_a_policy_that_changed_is_held_against_everything(holdfast: Program) -> None:
    """It belongs to no stack, and may speak of any file."""
    start(holdfast)
    holdfast.write("policy/main.rego", 'package main\n\ndeny contains "no" if input.output.x\n')
    found = holdfast.json("check", "--changed", "policy/main.rego", code=3)
    assert [one["file"] for one in only(found, "rego.main.deny")] == ["module/main.tf"]
    assert len(only(found, "HF703")) == 1


def test_broken_code_is_a_finding_and_not_a_stop(holdfast: Program) -> None:
    """A variables file that keeps the stacks from being found is told with its place, like the code."""
    start(holdfast)
    config = CONFIG.replace("environment: prod", 'environment: "{var.env}"')
    holdfast.write("holdfast.yaml", config)
    holdfast.write("vars/a.tfvars", 'x = "a\n')
    holdfast.write("module/main.tf", MODULE + "locals {\n")
    answer = holdfast.run("check", "--json")
    assert answer.code == 3
    document = json.loads(answer.out)
    assert [one["file"] for one in only(document, "HF904")] == ["module/main.tf", "vars/a.tfvars"]
    assert all(one["line"] for one in only(document, "HF904"))
    assert only(document, "HF906")


def test_formats_levels_and_rules_are_asked_for_by_name(holdfast: Program) -> None:
    """Each mistake on the command line has its code; a rule explains itself without a repository."""
    start(holdfast)
    for arguments, code in (
        (("--format", "xml"), "HF-CHECK-2"),
        (("--fail-on", "fatal"), "HF-CHECK-3"),
        (("--fix",), "HF-CHECK-4"),
        (("--explain", "HF999"), "HF-CHECK-1"),
    ):
        answer = holdfast.run("check", *arguments)
        assert (answer.code, code in answer.err) == (64, True)
    assert "HF703" in holdfast.ok("check", "--explain", "hf703").out
    assert "HF-USE-4" in holdfast.run("check", "--list", "--format", "sarif").err
    unknown = json.loads(holdfast.ok("check", "nobody", "--format", "json", code=64).out)
    assert unknown["errors"][0]["code"] == "HF-USE-8"
    assert json.loads(holdfast.ok("check", "--explain", "HF901", "--format", "json").out)["rules"][0]["why"]
    assert "cannot be waived" in holdfast.ok("check", "--explain", "HF901").out
    sarif = sarif_read.read(holdfast.run("check", "--format", "sarif").out)
    assert [one["ruleId"] for one in sarif["results"] if one["level"] == "error"] == ["HF703"]


def looked_at(holdfast: Program, *arguments: str, **options: Any) -> tuple[int, int]:
    summary = json.loads(holdfast.run("check", "--json", *arguments, **options).out)["summary"]
    return summary["files"], summary["stacks"]


def test_a_configuration_that_changed_is_held_against_everything(holdfast: Program) -> None:
    """A severity, a waiver or a convention that changed may speak of any file."""
    start(holdfast)
    assert looked_at(holdfast, "--changed", "vars/a.tfvars") == (2, 1)
    assert looked_at(holdfast, "--changed", "holdfast.yaml") == (3, 2)


def test_changed_files_are_known_by_every_name_they_are_given(holdfast: Program) -> None:
    """From the folder of holdfast.yaml, from the top of Git, whole; a list that is empty names nothing."""
    start(holdfast)
    holdfast.write("alone/main.tf", "locals {}\n")
    holdfast.folder = holdfast.folder.parent
    holdfast.commit_all()
    folder = next(file.parent for file in holdfast.folder.glob("*/holdfast.yaml"))
    for name in ("alone/main.tf", f"{folder.name}/alone/main.tf", f"{folder}/alone/main.tf"):
        assert looked_at(holdfast, "--changed", name, cwd=folder) == (1, 0)
    assert looked_at(holdfast, "--changed", "-", cwd=folder, stdin="") == (0, 0)


def test_a_git_tree_that_git_does_not_know_is_an_error(holdfast: Program) -> None:
    """Where Git refuses (files of another owner, say) nobody knows what it keeps."""
    start(holdfast)
    top = holdfast.folder.parent
    (top / ".git").write_text("gitdir: nowhere\n")
    (found,) = only(holdfast.json("check", "a", code=3), "HF908")
    assert "Git cannot read this working tree" in found["message"]
    assert found["hint"].endswith(f"safe.directory {top}")


def test_output_that_cannot_be_written_is_an_error(holdfast: Program) -> None:
    """A report that is cut off by a full disk must not look like a whole one."""
    start(holdfast)
    words = [sys.executable, "-m", "holdfast", "check", "a", "--json"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            words,
            cwd=holdfast.folder,
            env=holdfast.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, "HF-FILE-4" in done.stderr, "Traceback" in done.stderr) == (1, True, False)
    closed = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *words],
        cwd=holdfast.folder,
        env=holdfast.environment,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (closed.returncode, closed.stderr) == (0, "")


def test_only_what_git_keeps_or_would_keep_is_looked_at(holdfast: Program) -> None:
    """Ignored folders hold other people's code; a change in code that no stack uses is looked at too."""
    start(holdfast)
    holdfast.write("vars/b.tfvars", 'x = "b"\n')
    holdfast.write(".gitignore", "vendored/\n")
    holdfast.write("vendored/main.tf", "resource {\n")
    holdfast.write("alone/main.tf", "resource {\n")
    subprocess.run(["git", "init", "-q"], cwd=holdfast.folder, check=True)
    document = json.loads(holdfast.run("check", "--json").out)
    assert {one["file"] for one in only(document, "HF904")} == {"alone/main.tf"}
    answer = holdfast.run("check", "--changed", "alone/main.tf", "--json")
    changed = json.loads(answer.out)
    assert (answer.code, {one["file"] for one in only(changed, "HF904")}) == (3, {"alone/main.tf"})
    assert changed["summary"]["stacks"] == 0


def test_a_secret_that_was_taken_out_is_found_in_the_history(holdfast: Program) -> None:
    """By its commit, in a repository that is a part of a larger one; what others keep there is not ours."""
    token = "ghp_" + "7Qw2ErTy9UiOp3LkJhGfDsA1ZxCvBnXy7Qw2"
    holdfast.write("holdfast.yaml", CONFIG.replace("HF703", "HF207"))
    holdfast.write("infra/notes", f"one\n{token}\n")
    holdfast.write("elsewhere", f"one\n{token.replace('7', '8')}\n")
    holdfast.commit_all()
    first = holdfast.git("rev-parse", "--short=12", "HEAD").strip()
    (holdfast.folder / "infra/notes").write_text("one\n")
    (holdfast.folder / "holdfast.yaml").rename(holdfast.folder / "infra/holdfast.yaml")
    holdfast.commit_all()
    answer = holdfast.run("check", "--config", "infra/holdfast.yaml", "--history", "--json")
    assert answer.code == 3
    (found,) = only(json.loads(answer.out), "HF207")
    assert (found["file"], found["line"]) == ("notes", None)
    assert f"line 2 in commit {first} of " in found["message"]
    assert token not in answer.out
