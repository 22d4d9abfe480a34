"""`holdfast drift`: compare reality with states and code; findings, history, healing."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from holdfast.cli.command import Invocation, Option
from holdfast.cli.parameters import Stacks, Wait, wait_from
from holdfast.kernel.errors import Exit, HoldfastError, UsageError

if TYPE_CHECKING:
    from holdfast.cli.context import CommandContext
    from holdfast.drift.result import DriftResult
    from holdfast.drift.telling import AlertSink
    from holdfast.plans.context import ChangeContext
    from holdfast.stacks.stack import Stack

_FORMATS = ("text", "markdown", "metrics")


def drift(
    invocation: Invocation,
    stacks: Stacks = None,
    notify: Annotated[
        bool, Option("--notify", help="Raise and close alerts, by the routes of the configuration.")
    ] = False,
    heal: Annotated[
        bool, Option("--heal", help="Undo drift that a rule in `drift.heal` covers, by an apply.")
    ] = False,
    format_: Annotated[
        str | None, Option("--format", metavar="FORMAT", help="text, markdown or metrics. Default: text.")
    ] = None,
    history: Annotated[
        bool, Option("--history", help="Show what is known from earlier checks, without a new one.")
    ] = False,
    acknowledge: Annotated[
        list[str] | None,
        Option("--acknowledge", metavar="ID", help="A finding that is known: no alert; repeatable."),
    ] = None,
    until: Annotated[
        str | None, Option("--until", metavar="DATE", help="With --acknowledge: until this day, inclusive.")
    ] = None,
    reason: Annotated[
        str | None, Option("--reason", metavar="TEXT", help="With --acknowledge: why; in the audit log.")
    ] = None,
    wait: Wait = None,
) -> Exit:
    """Compare real resources with states and code. Exit 2: something drifted; 1: not all was looked at."""
    _require_one_task(notify=notify, heal=heal, history=history, acknowledge=acknowledge)
    if acknowledge:
        return _acknowledge(invocation, stacks, acknowledge, until, reason)
    if until is not None or reason is not None:
        raise UsageError(
            "HF-USE-4",
            "--until and --reason need --acknowledge",
            hint="Leave them out, or add --acknowledge ID.",
        )
    if format_ not in {None, *_FORMATS} or (
        format_ not in {None, "text"} and (history or invocation.as_json)
    ):
        raise UsageError(
            "HF-USE-4",
            f"--format {format_} cannot be used here",
            hint=f"It is one of {', '.join(_FORMATS)}, for a new check without --json.",
        )
    if history:
        return _history(invocation, stacks)
    return _check(invocation, stacks, notify=notify, heal=heal, format_=format_ or "text", wait=wait)


def _require_one_task(**options: object) -> None:
    check = [f"--{name}" for name in ("notify", "heal") if options[name]]
    others = [f"--{name}" for name in ("history", "acknowledge") if options[name]]
    if len(others) + bool(check) > 1:
        given = [*check, *others]
        raise UsageError(
            "HF-USE-4", f"{given[0]} cannot be combined with {given[-1]}", hint="Run one after the other."
        )


def _open(
    invocation: Invocation, stacks: list[str] | None, wait: float = 0.0
) -> tuple[CommandContext, tuple[Stack, ...]]:
    from holdfast.changes import preconditions
    from holdfast.cli.context import CommandContext

    context = CommandContext(invocation, wait=wait)
    repository = context.repository
    repository.require_stacks()
    preconditions.require_store_key(repository)
    selection = repository.select(stacks or [], [], None)
    return context, tuple(selected.stack for selected in selection.selected)


def _check(
    invocation: Invocation,
    names: list[str] | None,
    *,
    notify: bool,
    heal: bool,
    format_: str,
    wait: str | None,
) -> Exit:
    from holdfast.changes import preconditions
    from holdfast.cli.views.drift import show_results
    from holdfast.cli.views.progress import Progress
    from holdfast.drift import healing
    from holdfast.drift.check import check_stacks
    from holdfast.drift.report import drift_document, exit_of, markdown, metrics
    from holdfast.plans.events import ChangeStarted, StackChecked
    from holdfast.system.markup import escape_commands

    if format_ != "text":
        invocation.console.reserve_output()
    context, stacks = _open(invocation, names, wait_from(wait, ci=invocation.environment.ci))
    sink = _alert_sink(context) if notify else None
    preconditions.require_disk_space(context.repository)
    preconditions.require_store(context.repository)
    preconditions.require_names(context.repository.store, stacks)

    async def work(change: ChangeContext) -> tuple[DriftResult, ...]:
        tell = change.control.tell
        tell(ChangeStarted(stacks=tuple(stack.name for stack in stacks), operation="drift"))
        results = await check_stacks(
            change,
            stacks,
            done=lambda one: tell(
                StackChecked(stack=one.stack.name, outcome=one.status.value.replace("_", " "))
            ),
        )
        return await healing.heal(change, results) if heal else results

    with Progress(invocation.console) as progress:
        results = context.run(work, tell=progress.handle)
    if sink is not None:
        _notify(context, results, sink)
    exit_ = exit_of(results)
    if invocation.as_json:
        invocation.document(drift_document(results))
    elif format_ == "text":
        show_results(invocation.console, results, verbose=invocation.verbose)
    else:
        text = invocation.console.redactor.clean(
            markdown(results) if format_ == "markdown" else metrics(results)
        )
        sys.stdout.write(escape_commands(text) if invocation.environment.ci else text)
    return exit_


def _alert_sink(context: CommandContext) -> AlertSink:
    """Without routes, nothing is looked at in vain."""
    from holdfast.cli.notifications import alert_sink, is_configured

    sink = alert_sink(context.invocation, context.repository)
    if not is_configured(context.repository):
        sink(())
    return sink


def _notify(context: CommandContext, results: tuple[DriftResult, ...], sink: AlertSink) -> None:
    """A failure to tell people fails nothing: the next check tells them."""
    from holdfast.drift.telling import tell_drift

    try:
        tell_drift(context.repository.store, results, sink)
    except HoldfastError as error:
        context.invocation.console.warn(
            f"The drift could not be notified: {error.problem.code}: {error.problem.message}"
        )


def _history(invocation: Invocation, names: list[str] | None) -> Exit:
    from holdfast.cli.views.drift import show_history
    from holdfast.drift.report import history_document

    context, stacks = _open(invocation, names)
    records = context.repository.store.drift
    known = [found for stack in stacks if (found := records.of(stack.name)) is not None]
    return invocation.answer(history_document(known), lambda: show_history(invocation.console, known))


def _acknowledge(
    invocation: Invocation, names: list[str] | None, ids: list[str], until: str | None, reason: str | None
) -> Exit:
    from holdfast.drift.acknowledging import acknowledge
    from holdfast.drift.report import finding_document

    if not reason:
        raise UsageError("HF-USE-4", "--acknowledge needs --reason", hint="Add --reason TEXT.")
    context, stacks = _open(invocation, names)
    repository = context.repository
    done = acknowledge(
        repository.store,
        invocation.environment,
        invocation.console.redactor,
        stacks=[stack.name for stack in stacks],
        ids=ids,
        until=_day(until) if until is not None else None,
        reason=reason,
    )
    document = {
        "version": 1,
        "findings": [{"stack": name, **finding_document(finding)} for name, finding in done],
    }
    days = f" until {until}" if until is not None else ""
    lines = [f" {finding.id}  {name}: acknowledged{days}" for name, finding in done]
    return invocation.answer(document, *lines)


def _day(text: str) -> datetime:
    """The end of the day, UTC."""
    from datetime import UTC, timedelta

    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC) + timedelta(days=1)
    except ValueError:
        raise UsageError("HF-USE-4", f"--until {text}: not a date", hint="Write it as 2027-01-31.") from None
