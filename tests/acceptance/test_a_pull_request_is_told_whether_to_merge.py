"""`plan --github` in GitHub Actions, and `plan --format markdown` anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from github_server import TOKEN, GithubServer
from program import Program

CONFIG = """
    version: 1
    environments: { dev: { match: [dev] } }
    stacks: [{ name: a, module: a, environment: dev }]
    """
CODE = """
    resource "terraform_data" "x" {
      input = "@everyone ::error::x ##[error]y <img src=x>"
    }
    """


@pytest.fixture
def github() -> Iterator[GithubServer]:
    with GithubServer() as server:
        yield server


@pytest.fixture
def job(holdfast: Program, github: GithubServer, tmp_path: Path) -> Program:
    """A job of Actions on a pull request."""
    (tmp_path / "event.json").write_text(json.dumps({"pull_request": {"number": 7}}))
    holdfast.write("holdfast.yaml", CONFIG)
    holdfast.write("a/main.tf", CODE)
    holdfast.environment |= {
        "CI": "true",
        "GITHUB_ACTIONS": "true",
        "GITHUB_API_URL": github.api,
        "GITHUB_TOKEN": TOKEN,
        "GITHUB_REPOSITORY": "acme/infra",
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "GITHUB_OUTPUT": str(tmp_path / "outputs"),
        "GITHUB_WORKSPACE": str(holdfast.folder),
        "RUNNER_TEMP": str(tmp_path),
    }
    return holdfast


def test_a_plan_is_told_and_a_mistake_takes_its_place(
    job: Program, github: GithubServer, tmp_path: Path
) -> None:
    """One comment: first that it may be merged, then, after a mistake, that it may not."""
    ran = job.run("plan", "--github")
    assert ran.code == 0
    assert "HF-TELL" not in ran.text
    (body,) = github.bodies(7)
    assert body.startswith("## ✅ May be merged: 1 new in 1 stack\n")
    assert '```diff\n+ terraform_data.x  created\n+     input: "@everyone' in body
    assert "May be merged" in (tmp_path / "summary.md").read_text()
    assert "verdict<<holdfast_" in (tmp_path / "outputs").read_text()
    assert not [line for line in ran.out.splitlines() if "##[" in line or line.lstrip().startswith("::error")]

    job.write("holdfast.yaml", f"{CONFIG}\n    misspelt: 1\n")
    ran = job.run("plan", "--github")
    assert ran.code == 64
    (body,) = github.bodies(7)
    assert body.startswith("## ⛔ Do not merge: nothing could be planned\n")
    assert "::error file=holdfast.yaml,line=" in ran.out


def test_telling_never_harms_a_plan(job: Program, github: GithubServer) -> None:
    """Without the permission there is a warning, and the plan is as good as ever."""
    github.read_only = True
    ran = job.run("plan", "--github", "--detailed-exitcode")
    assert ran.code == 2
    assert "HF-TELL-1" in ran.err
    assert TOKEN not in ran.text


def test_markdown_is_printed_and_nothing_else(job: Program) -> None:
    """Standard output is the report; what is said besides goes to standard error."""
    ran = job.run("plan", "--format", "markdown", env={"GITHUB_ACTIONS": None, "CI": None})
    assert ran.code == 0
    assert ran.out.startswith("## ✅ May be merged: 1 new in 1 stack\n")
    assert ran.out.endswith("</details>\n")
