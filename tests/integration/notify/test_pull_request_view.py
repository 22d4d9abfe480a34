"""`--pull-request` and `--format markdown`, from results to what is printed and posted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from github_server import TOKEN, GithubServer
from plan_documents import change, plan
from results_made import stack

from holdfast.cli.command import Invocation
from holdfast.cli.console import Console
from holdfast.cli.views.change import show_details
from holdfast.cli.views.pull_request import Destination, PlanReport, folds, publish_failure
from holdfast.kernel.errors import Exit, Place, UsageError
from holdfast.notify.hosts.github import GITHUB
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.system.environment import Environment

HOST = Destination(GITHUB)
RESULTS = (
    StackResult(
        stack=stack("db"),
        status=Status.PLANNED,
        digest="d" * 64,
        plan=plan([change("x.gone", "delete"), change("x.new", "create", after={"name": "##[error]x"})]),
    ),
)


@pytest.fixture
def github() -> Iterator[GithubServer]:
    with GithubServer() as server:
        yield server


def invocation(*, actions: bool = True, **variables: str) -> Invocation:
    given = {"GITHUB_ACTIONS": "true" if actions else "", **variables}
    return Invocation(
        as_json=False,
        config=None,
        verbose=False,
        environment=Environment(variables=given),
        console=Console(color=False, ci=True, actions=actions),
    )


def job(folder: Path, github: GithubServer) -> Invocation:
    (folder / "event.json").write_text(json.dumps({"pull_request": {"number": 7}}))
    return invocation(
        GITHUB_API_URL=github.api,
        GITHUB_TOKEN=TOKEN,
        GITHUB_REPOSITORY="acme/infra",
        GITHUB_EVENT_PATH=str(folder / "event.json"),
        GITHUB_STEP_SUMMARY=str(folder / "summary.md"),
        GITHUB_WORKSPACE=str(folder),
    )


def report(one: Invocation) -> PlanReport:
    return PlanReport(invocation=one, results=RESULTS, headline="1 stack")


def test_a_plan_is_published_everywhere(
    tmp_path: Path, github: GithubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A comment, a summary, an annotation; and no warning."""
    report(job(tmp_path, github)).publish(HOST, Exit.DONE, tmp_path / "infra")
    printed = capsys.readouterr()
    assert printed.out == "::warning title=db planned::x.gone deleted\n"
    assert printed.err == ""
    (body,) = github.bodies(7)
    assert body.startswith("## ⚠️ May be merged, with care: 1 delete\n")
    assert (tmp_path / "summary.md").read_text().startswith("## ⚠️ May be merged, with care: 1 delete\n")


def test_a_mistake_replaces_an_older_report(
    tmp_path: Path, github: GithubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """What could not begin is told too, with the place of the mistake from the checkout on."""
    error = UsageError("HF-CONF-4", "unknown key", place=Place(file="holdfast.yaml", line=3))
    report(job(tmp_path, github)).publish(HOST, Exit.DONE, tmp_path)
    publish_failure(job(tmp_path, github), HOST, error, operation="plan", root=tmp_path / "infra")
    (body,) = github.bodies(7)
    assert body.startswith("## ⛔ Do not merge: nothing could be planned\n")
    assert (
        "::error file=infra/holdfast.yaml,line=3,title=Holdfast::HF-CONF-4 unknown key\n"
        in capsys.readouterr().out
    )


def test_elsewhere_it_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Outside Actions nothing is published, and the run continues."""
    report(invocation(actions=False)).publish(HOST, Exit.DONE, tmp_path)
    assert "HF-TELL-10" in capsys.readouterr().err


def test_a_token_is_never_printed(
    tmp_path: Path, github: GithubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even where a server throws it back at us."""
    github.token = "another"
    github.author = TOKEN
    report(job(tmp_path, github)).publish(HOST, Exit.DONE, tmp_path)
    printed = capsys.readouterr()
    assert "HF-TELL-1 " in printed.err
    assert TOKEN not in printed.out + printed.err


def test_plans_are_folded_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    """Between the marks of a fold the runner hears nothing, and what is in it is no command."""
    one = invocation()
    show_details(one.console, RESULTS, verbose=False, fold=folds(one))
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    begin, end = lines.index("::group::db: 1 delete, 1 new"), lines.index("::endgroup::")
    assert lines[begin + 1].startswith("::stop-commands::")
    assert lines[end - 1] == f"::{lines[begin + 1].removeprefix('::stop-commands::')}::"
    inside = lines[begin + 2 : end - 1]
    assert any("x.gone" in line for line in inside)
    assert any("## [error]x" in line for line in inside)
    assert printed.count("x.gone") == 1


@pytest.mark.parametrize("actions", [True, False])
def test_markdown_is_printed_anywhere(capsys: pytest.CaptureFixture[str], *, actions: bool) -> None:
    """As it is; but in a log of Actions no line of it is a command."""
    report(invocation(actions=actions)).write_markdown()
    printed = capsys.readouterr().out
    assert printed.startswith("## ⚠️ May be merged, with care: 1 delete\n\n**1 delete, 1 new** · 1 stack\n")
    assert ("##[error]" in printed) is not actions


def test_nothing_printed_in_actions_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever an error text says, on either stream, and in a document."""
    one = invocation()
    one.console.line("  ", "::error::x\n::add-mask::y")
    one.console.warn("##[error]z")
    one.document({"value": "##[error]w"})
    printed = capsys.readouterr()
    assert printed.out.startswith("  : :error::x\n: :add-mask::y\n")
    assert printed.err == " ! ## [error]z\n"
    assert "##[" not in printed.out
    assert json.loads(printed.out.split("\n", 2)[2]) == {"value": "##[error]w"}
