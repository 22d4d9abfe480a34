"""`plan --pull-request` in a job of each code host, and `plan --format markdown` anywhere."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from github_server import TOKEN, GithubServer
from host_jobs import SERVERS, job, open_server
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
def actions(holdfast: Program, github: GithubServer, tmp_path: Path) -> Program:
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
    actions: Program, github: GithubServer, tmp_path: Path
) -> None:
    """One comment: first that it may be merged, then, after a mistake, that it may not."""
    ran = actions.run("plan", "--github")
    assert ran.code == 0
    assert "HF-TELL" not in ran.text
    (body,) = github.bodies(7)
    assert body.startswith("## ✅ May be merged: 1 new in 1 stack\n")
    assert '```diff\n+ terraform_data.x  created\n+     input: "@everyone' in body
    assert "May be merged" in (tmp_path / "summary.md").read_text()
    assert "verdict<<holdfast_" in (tmp_path / "outputs").read_text()
    assert not [line for line in ran.out.splitlines() if "##[" in line or line.lstrip().startswith("::error")]
    # The plan is in the log once, in a fold.
    assert ran.out.count("@everyone") == 1
    assert ran.out.index("::group::a: 1 new") < ran.out.index("@everyone") < ran.out.index("::endgroup::")

    actions.write("holdfast.yaml", f"{CONFIG}\n    misspelt: 1\n")
    ran = actions.run("plan", "--github")
    assert ran.code == 64
    (body,) = github.bodies(7)
    assert body.startswith("## ⛔ Do not merge: nothing could be planned\n")
    assert "::error file=holdfast.yaml,line=" in ran.out


def test_telling_never_harms_a_plan(actions: Program, github: GithubServer) -> None:
    """Without the permission there is a warning, and the plan is as good as ever."""
    github.read_only = True
    ran = actions.run("plan", "--github", "--detailed-exitcode")
    assert ran.code == 2
    assert "HF-TELL-1" in ran.err
    assert TOKEN not in ran.text


def test_markdown_is_printed_and_nothing_else(actions: Program) -> None:
    """Standard output is the report; what is said besides goes to standard error."""
    ran = actions.run("plan", "--format", "markdown", env={"GITHUB_ACTIONS": None, "CI": None})
    assert ran.code == 0
    assert ran.out.startswith("## ✅ May be merged: 1 new in 1 stack\n")
    assert ran.out.endswith("</details>\n")


KEY = {"HOLDFAST_KEY": base64.b64encode(bytes(32)).decode()}
KEPT = CONFIG.replace("    version: 1\n", "    version: 1\n    store: kept\n")
FOLDS = {
    "github": ("::group::a: 1 new\n::stop-commands::", "::endgroup::\n"),
    # A carriage return is read as a line end here.
    "gitlab": ("[collapsed=true]\n\x1b[0Ka: 1 new\n", "\n\x1b[0K\n"),
    "azure": ("##[group]a: 1 new\n", "##[endgroup]\n"),
}


@pytest.mark.parametrize("name", list(SERVERS))
def test_two_pull_requests_change_one_stack(holdfast: Program, tmp_path: Path, name: str) -> None:
    """The second report names the first; an apply makes the other visibly out of date, and it is refused."""
    with open_server(name) as server:
        holdfast.write("holdfast.yaml", KEPT)
        holdfast.write("a/main.tf", CODE.replace("##[error]y", "##vso[task.complete]y"))
        # A job of a pull request has only the plan key.
        plan_key = {"HOLDFAST_PLAN_KEY": holdfast.run("keys", "plan", env=KEY).out.strip()}

        def plan(number: int, out: str) -> None:
            environment = job(name, server, tmp_path, number) | plan_key
            ran = holdfast.run("plan", "--pull-request", "auto", "--out", out, env=environment)
            assert ran.code == 0, ran.text
            assert "HF-" not in ran.err
            begin, end = FOLDS[name]
            assert ran.out.index(begin) < ran.out.index("@everyone") < ran.out.rindex(end)
            assert "##vso[task.complete" not in ran.out or name == "gitlab"

        plan(11, "eleven")
        plan(12, "twelve")
        (eleven,), (twelve,) = server.bodies(11), server.bodies(12)
        assert eleven.startswith("## ✅ May be merged: 1 new in 1 stack\n")
        assert "also changed" not in eleven
        sign = "#" if name == "github" else "!"
        assert f"`a` is also changed in {sign}11 (planned less than a minute ago by `ada`)" in twelve

        commit = "c" * 40
        server.merged[commit] = 11
        after_merge = job(name, server, tmp_path, None, commit=commit) | KEY
        applied = holdfast.run("apply", "--plan", "eleven", env=after_merge)
        assert applied.code == 0, applied.text
        assert server.bodies(11) == [eleven]
        (body,) = server.bodies(12)
        notice = f"## ⚠️ Out of date: `a` was applied by {sign}11 since this plan; plan again\n"
        assert body.startswith(notice)
        assert body.endswith(twelve)
        refused = holdfast.run("apply", "--plan", "twelve", env=after_merge)
        assert refused.code == 3
        runs = json.loads(holdfast.run("runs", "list", "--json", env=KEY).out)["runs"]
        by = next(run["id"] for run in runs if run["status"] == "applied")
        assert f"HF-BUND-11 the state changed after the plan was made (run {by} was applied)" in refused.text
        stale = next(run["id"] for run in runs if run["operation"] == "plan")
        assert f"out of date: run {by} was applied since" in holdfast.run("runs", "show", stale, env=KEY).out


def test_a_failing_host_fails_no_apply(holdfast: Program, tmp_path: Path) -> None:
    """The stack is applied; that the other report could not be marked is a warning."""
    with open_server("gitlab") as server:
        holdfast.write("holdfast.yaml", KEPT)
        holdfast.write("a/main.tf", CODE)
        review, after_merge = (job("gitlab", server, tmp_path, number) | KEY for number in (12, None))
        assert holdfast.run("plan", "--pull-request", "gitlab", env=review).code == 0
        server.read_only = True
        ran = holdfast.run("apply", "--yes", env=after_merge)
        assert ran.code == 0
        assert "HF-TELL-1 the token is not allowed" in ran.err
        assert server.bodies(12)[0].startswith("## ✅")


def test_the_host_is_one_of_three(holdfast: Program) -> None:
    """Another name is a mistake; outside of a job the plan is made and its report is not published."""
    holdfast.write("holdfast.yaml", CONFIG)
    holdfast.write("a/main.tf", CODE)
    wrong = holdfast.run("plan", "--pull-request", "gitea")
    assert (wrong.code, "HF-TELL-11" in wrong.err) == (64, True)
    ran = holdfast.run("plan", "--pull-request", "auto")
    assert (ran.code, "HF-TELL-10" in ran.err) == (0, True)
