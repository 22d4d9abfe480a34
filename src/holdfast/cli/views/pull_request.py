"""A plan as Markdown (`--format markdown`), and for a pull request and its job (`--pull-request`)."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from msgspec import Struct

from holdfast.changes.pull_requests import mark_out_of_date, other_requests, record_plans
from holdfast.changes.report import change_report, failure_report
from holdfast.checks.model.report import Report
from holdfast.cli.command import Invocation
from holdfast.kernel.errors import Exit, HoldfastError, Problem, UsageError
from holdfast.notify.hosts.catalogue import HOSTS, current_host, host_named
from holdfast.notify.hosts.interface import CiRun, CodeHost
from holdfast.notify.markdown import markdown
from holdfast.notify.publish import Publication, publish, unexpected_error
from holdfast.notify.report import ChangeReport, OtherRequest
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.store.run_store import RunStore
from holdfast.system import clock
from holdfast.system.environment import Environment
from holdfast.system.markup import escape_commands

Fold = Callable[[str], AbstractContextManager[None]]


class Destination(Struct, frozen=True):
    """What `--pull-request` names: a code host, or None if `auto` finds none."""

    host: CodeHost | None

    def base(self, environment: Environment) -> str | None:
        """The branch that the pull request is for."""
        run = self._run(environment)
        return f"origin/{run.base}" if run is not None and run.base else None

    def _run(self, environment: Environment) -> CiRun | None:
        running = self.host is not None and self.host.is_running(environment)
        return self.host.read_run(environment)[0] if self.host is not None and running else None


def destination(name: str | None, environment: Environment, *, github: bool) -> Destination | None:
    """None: neither `--pull-request` nor `--github` is given."""
    if github and name not in {None, "github"}:
        raise UsageError(
            "HF-TELL-11",
            f"--github cannot be combined with --pull-request {name}",
            hint="--github is short for --pull-request github. Leave one of them out.",
        )
    wanted = "github" if github else name
    return Destination(host_named(wanted, environment)) if wanted is not None else None


class PlanReport(Struct, frozen=True, kw_only=True):
    invocation: Invocation
    results: tuple[StackResult, ...]
    headline: str
    store: RunStore | None = None
    findings: Report | None = None
    weakened: tuple[str, ...] = ()
    saved_in: Path | None = None

    def _build(self, elsewhere: tuple[OtherRequest, ...] = ()) -> ChangeReport:
        return change_report(
            self.results,
            operation="plan",
            headline=self.headline,
            clean=self.invocation.console.redactor.clean,
            clean_field=self.invocation.console.redactor.clean_field,
            checked=self.findings,
            weakened=self.weakened,
            elsewhere=elsewhere,
            saved_in=str(self.saved_in) if self.saved_in is not None else None,
        )

    def write_markdown(self) -> None:
        """Write the whole report to standard output."""
        text = markdown(self._build())
        in_job = current_host(self.invocation.environment) is not None
        sys.stdout.write(escape_commands(text) if in_job else text)

    def publish(self, to: Destination, exit_: Exit, root: Path) -> None:
        """Comment, job summary, annotations and outputs. Never raises: what fails is a warning."""

        def build(host: CodeHost, run: CiRun) -> ChangeReport:
            elsewhere: tuple[OtherRequest, ...] = ()
            # The run store may be unreachable, or a plan job may not write there: the report matters more.
            if self.store is not None:
                with contextlib.suppress(HoldfastError, OSError):
                    environment = self.invocation.environment
                    elsewhere = other_requests(self.store, host, run, self.results, environment)
                    record_plans(self.store, run, self.results)
            return self._build(elsewhere)

        _publish(self.invocation, to, build, exit_, root)


def publish_failure(
    invocation: Invocation, to: Destination, error: HoldfastError, *, operation: str, root: Path
) -> None:
    """The same for a change that could not start, so that no older report keeps saying "May be merged"."""
    clean = invocation.console.redactor.clean
    report = failure_report(error.problems, operation=operation, clean=clean)
    _publish(invocation, to, lambda *_: report, error.exit, root)


def _publish(
    invocation: Invocation,
    to: Destination,
    build: Callable[[CodeHost, CiRun], ChangeReport],
    exit_: Exit,
    root: Path,
) -> None:
    try:
        problems = _problems(invocation, to, build, exit_, root)
    except Exception as error:  # noqa: BLE001 - a failed notification never fails the run
        problems = (unexpected_error(error),)
    _warn(invocation, problems)


def _warn(invocation: Invocation, problems: tuple[Problem, ...]) -> None:
    for problem in problems:
        hint = f" {problem.hint}" if problem.hint else ""
        invocation.console.warn(f"{problem.code} {problem.message}.{hint}")


def _problems(
    invocation: Invocation,
    to: Destination,
    build: Callable[[CodeHost, CiRun], ChangeReport],
    exit_: Exit,
    root: Path,
) -> tuple[Problem, ...]:
    console, environment, host = invocation.console, invocation.environment, to.host
    if host is None or not host.is_running(environment):
        jobs = host.job if host is not None else " and ".join(other.job for other in HOSTS)
        return (
            Problem(
                code="HF-TELL-10",
                message=f"--pull-request has no effect outside of {jobs}",
                hint="To see the report here, use --format markdown.",
            ),
        )
    run, problems = host.read_run(environment)
    if run.token is not None:
        console.redactor.register(run.token)
    publication = Publication(
        report=build(host, run),
        host=host,
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


def folds(invocation: Invocation) -> Fold | None:
    """Folds in the log of a job; None outside of one."""
    host = current_host(invocation.environment)
    if host is None:
        return None

    @contextlib.contextmanager
    def fold(title: str) -> Iterator[None]:
        begin, end = host.fold(title, clock.random_token())
        for line in begin:
            invocation.console.command(line.text, before=line.command)
        try:
            yield
        finally:
            for line in end:
                invocation.console.command(line.text, before=line.command)

    return fold


def notify_applied(invocation: Invocation, store: RunStore, results: tuple[StackResult, ...]) -> None:
    """After an apply, other pull requests that planned the same stacks are told. Never raises."""
    if all(result.status is Status.UNCHANGED for result in results):
        return
    environment = invocation.environment
    host = current_host(environment)
    try:
        current = (host, host.read_run(environment)[0]) if host is not None else None
        if current is not None and current[1].token is not None:
            invocation.console.redactor.register(current[1].token)
        clean = invocation.console.redactor.clean
        problems = mark_out_of_date(store, results, current, environment, clean)
    except Exception as error:  # noqa: BLE001 - a failed notification never fails the apply
        problems = (unexpected_error(error),)
    _warn(invocation, problems)
