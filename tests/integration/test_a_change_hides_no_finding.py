"""What a change does to its own review with `check --since`."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path

import pytest

import corpus
from holdfast.checks.engine.limits import RuleLimit
from holdfast.cli.checks import run as check_run

CONFIG = (
    "version: 1\nstacks: [{ name: a, module: a, environment: dev }]\nchecks: { rules: { HF302: error } }\n"
)
PROGRAM = 'data "external" "a" {\n  program = ["./a.sh"]\n}\n'
UNPINNED = 'module "m" {\n  source = "acme/vpc/aws"\n}\n'


@pytest.fixture
def _repository(tmp_path: Path, quiet_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", quiet_path)
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    Path("a").mkdir()
    Path("holdfast.yaml").write_text(CONFIG)
    Path("a/main.tf").write_text(PROGRAM)
    for command in (
        "init --quiet",
        "add .",
        "-c user.name=t -c user.email=t@example.com commit --quiet -m 1",
    ):
        subprocess.run(["git", *command.split()], check=True)


@pytest.mark.usefixtures("_repository")
def test_a_program_that_is_replaced_is_new() -> None:
    """The finding is at the first line of its block, which is unchanged."""
    Path("a/main.tf").write_text(f"# moved\n{PROGRAM}")
    assert "✗" not in corpus.output("check", "--since", "HEAD")
    Path("a/main.tf").write_text(PROGRAM.replace("a.sh", "b.sh"))
    assert "✗ HF302" in corpus.output("check", "--since", "HEAD")


@pytest.mark.usefixtures("_repository")
def test_a_rule_that_is_switched_off_counts_as_far_as_findings_fail() -> None:
    """With `--fail-on warning`, warnings of the base's rules are not lost either."""
    Path("a/more.tf").write_text(UNPINNED)
    Path("holdfast.yaml").write_text(CONFIG.replace("HF302: error", "HF302: error, HF304: off"))
    assert "HF304" not in corpus.output("check", "--since", "HEAD")
    shown = corpus.output("check", "--since", "HEAD", "--fail-on", "warning")
    assert "! HF304" in shown
    assert "exit 3" in shown


@pytest.mark.usefixtures("_repository")
def test_a_rule_that_does_not_finish_fails_the_review(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a change could hide what the rule would find behind much code."""
    monkeypatch.setattr(check_run, "RuleLimit", partial(RuleLimit, -1.0))
    block = 'resource "aws_iam_role_policy" "p" {\n  policy = jsonencode({ a = lower("B") })\n}\n'
    Path("a/more.tf").write_text("".join(block.replace('"p"', f'"p{number}"') for number in range(200)))
    assert "was not evaluated: a: it was not finished" in corpus.output("check", "--since", "HEAD")
    assert "was not evaluated: a:" not in corpus.output("check")
