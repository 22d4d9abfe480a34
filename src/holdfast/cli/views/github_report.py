"""`--github` and `--format markdown`: a change told to a pull request, to GitHub Actions, or as Markdown."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.command import Invocation
from holdfast.kernel.errors import Exit, HoldfastError, Problem

if TYPE_CHECKING:  # Nothing of this is loaded for a change that is only shown.
    from holdfast.checks.model.report import Report
    from holdfast.notify.report import ChangeReport
    from holdfast.plans.result import StackResult


def show_markdown(
    invocation: Invocation,
    results: tuple[StackResult, ...],
    *,
    operation: str,
    headline: str,
    checked: Report | None = None,
) -> None:
    """The whole report on standard output, for whatever shows Markdown."""
    from holdfast.notify.actions import in_actions
    from holdfast.notify.markdown import markdown
    from holdfast.system.workflow_commands import harmless

    text = markdown(_report(invocation, results, operation, headline, checked))
    sys.stdout.write(harmless(text) if in_actions(invocation.environment) else text)


def show_folded(invocation: Invocation, results: tuple[StackResult, ...], *, operation: str) -> None:
    """Each plan in the log of GitHub Actions, folded."""
    from holdfast.notify.commands import folded
    from holdfast.system import clock

    for stack in _report(invocation, results, operation, "").ordered:
        if stack.diff:
            title = f"{stack.name}: {stack.changes or stack.status}"
            for line in folded(title, stack.diff, clock.random_token()):
                invocation.console.command(line)


def tell_github(
    invocation: Invocation,
    results: tuple[StackResult, ...],
    *,
    operation: str,
    headline: str,
    exit_: Exit,
    root: Path,
    checked: Report | None = None,
) -> None:
    """Comment, job summary, annotations and outputs. Never raises: what goes wrong is a warning."""
    _tell(invocation, lambda: _report(invocation, results, operation, headline, checked), exit_, root)


def tell_github_failure(invocation: Invocation, error: HoldfastError, *, operation: str, root: Path) -> None:
    """The same for a change that could not begin: an older report must not go on saying "may be merged"."""
    from holdfast.changes.report import failure_report

    clean = invocation.console.redactor.clean
    report = failure_report(error.problems, operation=operation, clean=clean)
    _tell(invocation, lambda: report, error.exit, root)


def _report(
    invocation: Invocation,
    results: tuple[StackResult, ...],
    operation: str,
    headline: str,
    checked: Report | None = None,
) -> ChangeReport:
    from holdfast.changes.report import change_report

    clean = invocation.console.redactor.clean
    return change_report(results, operation=operation, headline=headline, clean=clean, checked=checked)


def _tell(invocation: Invocation, make: Callable[[], ChangeReport], exit_: Exit, root: Path) -> None:
    from holdfast.notify.publish import unforeseen

    try:
        problems = _told(invocation, make, exit_, root)
    except Exception as error:  # noqa: BLE001 - the change is done and stays done, whatever telling meets
        problems = (unforeseen(error),)
    for problem in problems:
        hint = f" {problem.hint}" if problem.hint else ""
        invocation.console.warn(f"{problem.code} {problem.message}.{hint}")


def _told(
    invocation: Invocation, make: Callable[[], ChangeReport], exit_: Exit, root: Path
) -> tuple[Problem, ...]:
    from holdfast.notify.actions import in_actions, read_run
    from holdfast.notify.publish import Telling, tell

    console, environment = invocation.console, invocation.environment
    if not in_actions(environment):
        return (
            Problem(
                code="HF-TELL-10",
                message="--github tells nobody outside GitHub Actions",
                hint="Use --format markdown to see the report here.",
            ),
        )
    run, problems = read_run(environment)
    if run.token is not None:
        console.redactor.register(run.token)
    telling = Telling(
        report=make(),
        run=run,
        exit_code=int(exit_),
        environment=environment,
        prefix=_prefix(root, run.workspace),
        clean=console.redactor.clean,
    )
    return (*problems, *tell(telling, console.command))


def _prefix(root: Path, workspace: Path | None) -> str:
    """From the checkout to the folder of holdfast.yaml: annotations name files from the checkout on."""
    try:
        inside = root.resolve().relative_to(workspace.resolve()) if workspace is not None else Path()
    except ValueError:
        return ""
    return f"{inside.as_posix()}/" if inside.parts else ""
