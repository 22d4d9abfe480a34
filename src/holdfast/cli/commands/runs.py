"""`holdfast runs`: what was done, by whom, how it ended, and what Terraform said meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from holdfast.cli.command import Argument, Group, Invocation, Option, command
from holdfast.cli.commands import approve, reconcile
from holdfast.kernel.errors import Exit, UsageError

if TYPE_CHECKING:
    from holdfast.cli.console import Console
    from holdfast.runs.history import RunDetails, RunShown

_LIMIT = 20
_MOST_CHANGES = 20

OneRun = Annotated[str, Argument(metavar="RUN", help="The run's id, or an unambiguous beginning of it.")]


def register(app: Group) -> None:
    group = Group("runs", help="Runs: what was done, how it ended, what Terraform said; settle one.")
    command(group, "list")(list_)
    command(group, "show")(show)
    command(group, "log")(log)
    approve.add_to(group)
    reconcile.add_to(group)
    app.add_command(group)


def list_(
    invocation: Invocation,
    limit: Annotated[
        str | None, Option("--limit", metavar="N", help=f"How many at most; {_LIMIT} without it.")
    ] = None,
    stack: Annotated[str | None, Option("--stack", metavar="STACK", help="Only runs of this stack.")] = None,
) -> Exit:
    """List runs, newest first."""
    from holdfast.cli.context import Workshop
    from holdfast.plans.context import Session
    from holdfast.runs import history

    most = _number(limit)

    async def work(session: Session) -> tuple[RunShown, ...]:
        return history.list_runs(session, limit=most, stack=stack)

    found = Workshop(invocation).run(work)
    if invocation.as_json:
        invocation.document({"version": 1, "runs": [one.document() for one in found]})
        return Exit.DONE
    _show_list(invocation.console, found)
    return Exit.DONE


def show(invocation: Invocation, run: OneRun) -> Exit:
    """Show everything that is known of a run."""
    found = _details(invocation, run)
    if invocation.as_json:
        invocation.document({"version": 1, "run": found.document()})
    else:
        _show_details(invocation.console, found)
    return Exit.DONE


def log(invocation: Invocation, run: OneRun) -> Exit:
    """Show what Terraform said during a run. Secrets are hidden."""
    from holdfast.runs.history import log_lines, log_text
    from holdfast.secrets.redact_document import TERRAFORM, clean_document

    found = _details(invocation, run)
    redactor = invocation.console.redactor
    if invocation.as_json:
        lines = [clean_document(redactor, line, TERRAFORM) for line in log_lines(found.journal)]
        invocation.document({"version": 1, "run": found.run.id, "lines": lines})
        return Exit.DONE
    # Cleaned as one text: a secret may go over several lines.
    for line in redactor.clean("\n".join(log_text(one) for one in log_lines(found.journal))).splitlines():
        invocation.console.line(line)
    if not found.journal.lines:
        invocation.console.say(f" {found.run.id}: Terraform said nothing")
    return Exit.DONE


def _details(invocation: Invocation, run: str) -> RunDetails:
    from holdfast.cli.context import Workshop
    from holdfast.plans.context import Session
    from holdfast.runs import history

    async def work(session: Session) -> RunDetails:
        return history.details(session, run)

    return Workshop(invocation).run(work)


def _number(limit: str | None) -> int:
    if limit is None:
        return _LIMIT
    if not limit.isascii() or not limit.isdigit() or not int(limit):
        raise UsageError("HF-USE-20", f"--limit {limit}: not a number from 1 on", hint="Write --limit 50.")
    return int(limit)


def _show_list(console: Console, found: tuple[RunShown, ...]) -> None:
    from holdfast.cli.views.state import moment, show_rows

    show_rows(
        console,
        [
            (
                one.id,
                one.stack or "?",
                one.operation or "?",
                one.status.value if one.status is not None else "at work",
                moment(one.started),
                one.who or "",
            )
            for one in found
        ],
    )
    if not found:
        console.say(" no runs are recorded")


def _show_details(console: Console, found: RunDetails) -> None:
    from holdfast.cli.views.state import moment

    run = found.run
    status = run.status.value if run.status is not None else "at work"
    console.line(f" {run.id}  {run.operation or '?'} of {run.stack or '?'}: {status}")
    console.line(f"   started {moment(run.started) or '?'} by {run.who or '?'}")
    if run.ended:
        console.line(f"   ended {moment(run.ended)}")
    shown = found.document()
    for name in ("engine", "digest"):
        if shown[name]:
            console.line(f"   {name}: {shown[name]}")
    if isinstance(changes := shown["changes"], dict):
        counted = ", ".join(f"{number} {what}" for what, number in changes.items() if number)
        console.line(f"   changes: {counted or 'none'}")
    if isinstance(error := shown["error"], dict):
        console.line(("   ✗ ", "bold red"), f"{error.get('code')}  {error.get('message')}")
    for note in notes if isinstance(notes := shown["notes"], list) else ():
        console.line(("   ! ", "yellow"), str(note))
    _show_intent(console, shown["intent"])
    _show_journal(console, shown["journal"])


def _show_intent(console: Console, intent: object) -> None:
    if not isinstance(intent, dict):
        return
    where = f"on {intent.get('host')}, process {intent.get('pid')}"
    console.line(f"   meant to change serial {intent.get('serial')}, {where}")
    changes = intent["changes"]
    for one in changes[:_MOST_CHANGES]:
        console.line(f"     {one.get('address')}  {', '.join(one.get('actions') or ())}")
    if len(changes) > _MOST_CHANGES:
        console.line(f"     … and {len(changes) - _MOST_CHANGES} more")


def _show_journal(console: Console, journal: object) -> None:
    from holdfast.cli.views.state import moment

    if not isinstance(journal, dict) or journal["started"] is None:
        console.line("   journal: Terraform was not started")
        return
    console.line(
        f"   journal: {journal['lines']} lines, from {moment(journal['started'])}"
        f"{f' to {moment(last)}' if (last := journal['last']) else ''}"
        f"{'' if journal['whole'] else '; its end was cut off'}"
    )
    ended = journal["ended"]
    if ended is None:
        console.line("   exit record: none")
    else:
        unsaved = ", and could not save its state" if ended["unsaved"] else ""
        console.line(f"   exit record: code {ended['code']} at {moment(ended['at'])}{unsaved}")
