"""A plan as Markdown (`--format markdown`) and for GitHub Actions and its pull request (`--github`)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from holdfast.changes.report import change_report, failure_report
from holdfast.checks.model.report import Report
from holdfast.cli.command import Invocation
from holdfast.kernel.errors import Exit, HoldfastError, Problem
from holdfast.notify.actions import in_actions, read_run
from holdfast.notify.commands import log_group
from holdfast.notify.markdown import markdown
from holdfast.notify.publish import Publication, publish, unexpected_error
from holdfast.notify.report import ChangeReport
from holdfast.plans.result import StackResult
from holdfast.system import clock
from holdfast.system.markup import escape_commands


class PlanReport(Struct, frozen=True):
    invocation: Invocation
    results: tuple[StackResult, ...]
    headline: str
    findings: Report | None = None
    weakened: tuple[str, ...] = ()

    def _build(self) -> ChangeReport:
        return change_report(
            self.results,
            operation="plan",
            headline=self.headline,
            clean=self.invocation.console.redactor.clean,
            clean_field=self.invocation.console.redactor.clean_field,
            checked=self.findings,
            weakened=self.weakened,
        )

    def write_markdown(self) -> None:
        """Write the whole report to standard output."""
        text = markdown(self._build())
        sys.stdout.write(escape_commands(text) if in_actions(self.invocation.environment) else text)

    def write_folded(self) -> None:
        """In GitHub Actions, write each plan to the log as a folded group."""
        if not in_actions(self.invocation.environment):
            return
        for stack in self._build().ordered:
            if stack.diff:
                title = f"{stack.name}: {stack.changes or stack.status}"
                for line in log_group(title, stack.diff, clock.random_token()):
                    self.invocation.console.command(line)

    def publish(self, exit_: Exit, root: Path) -> None:
        """Comment, job summary, annotations and outputs. Never raises: what fails is a warning."""
        _publish(self.invocation, self._build, exit_, root)


def publish_failure(invocation: Invocation, error: HoldfastError, *, operation: str, root: Path) -> None:
    """The same for a change that could not start, so that no older report keeps saying "May be merged"."""
    clean = invocation.console.redactor.clean
    report = failure_report(error.problems, operation=operation, clean=clean)
    _publish(invocation, lambda: report, error.exit, root)


def _publish(invocation: Invocation, build: Callable[[], ChangeReport], exit_: Exit, root: Path) -> None:
    try:
        problems = _problems(invocation, build, exit_, root)
    except Exception as error:  # noqa: BLE001 - a failed notification never fails the run
        problems = (unexpected_error(error),)
    for problem in problems:
        hint = f" {problem.hint}" if problem.hint else ""
        invocation.console.warn(f"{problem.code} {problem.message}.{hint}")


def _problems(
    invocation: Invocation, build: Callable[[], ChangeReport], exit_: Exit, root: Path
) -> tuple[Problem, ...]:
    console, environment = invocation.console, invocation.environment
    if not in_actions(environment):
        problem = Problem(
            code="HF-TELL-10",
            message="--github has no effect outside GitHub Actions",
            hint="To see the report here, use --format markdown.",
        )
        return (problem,)
    run, problems = read_run(environment)
    if run.token is not None:
        console.redactor.register(run.token)
    publication = Publication(
        report=build(),
        run=run,
        exit_code=int(exit_),
        environment=environment,
        prefix=_prefix(root, run.workspace),
        clean=console.redactor.clean,
    )
    return (*problems, *publish(publication, console.command))


def _prefix(root: Path, workspace: Path | None) -> str:
    """From the checkout to the folder of holdfast.yaml: annotations name files relative to the checkout."""
    try:
        inside = root.resolve().relative_to(workspace.resolve()) if workspace is not None else Path()
    except ValueError:
        return ""
    return f"{inside.as_posix()}/" if inside.parts else ""
