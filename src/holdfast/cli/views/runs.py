"""The run history on a console: the list, and the details of one run."""

from __future__ import annotations

from holdfast.cli.console import Console
from holdfast.cli.views.deploy import show_stage
from holdfast.cli.views.gates import show_gate
from holdfast.cli.views.state import moment, show_rows
from holdfast.kernel.text import plural
from holdfast.runs.history import RunDetails
from holdfast.runs.run import Run

_MOST_CHANGES = 20


def status_of(run: Run) -> str:
    return "running" if run.status.is_running else run.status.value


def show_list(console: Console, runs: tuple[Run, ...]) -> None:
    show_rows(
        console,
        [
            (
                run.id,
                run.stack or run.target or "?",
                run.operation or "?",
                status_of(run),
                moment(run.started),
                run.who or "",
            )
            for run in runs
        ],
    )
    if not runs:
        console.say(" No runs yet.")


def show_details(console: Console, details: RunDetails) -> None:
    run = details.run
    of = run.stack or run.target or "an unknown stack"
    console.line(f" {run.id}  {run.operation or 'run'} of {of}: {status_of(run)}")
    console.line(f"   started {moment(run.started) or 'at an unknown time'} by {run.who or 'unknown'}")
    if run.ended:
        console.line(f"   ended {moment(run.ended)}")
    document = details.document()
    for name in ("engine", "digest"):
        if document[name]:
            console.line(f"   {name}: {document[name]}")
    if isinstance(changes := document["changes"], dict):
        counted = ", ".join(f"{number} {what}" for what, number in changes.items() if number)
        console.line(f"   changes: {counted or 'none'}")
    if isinstance(error := document["error"], dict):
        console.line(("   ✗ ", "bold red"), f"{error.get('code')}  {error.get('message')}")
    for note in notes if isinstance(notes := document["notes"], list) else ():
        console.line(("   ! ", "yellow"), str(note))
    for stage in run.stages or ():
        show_stage(console, stage)
    for gate in run.gates or ():
        show_gate(console, gate)
    _show_intent(console, document["intent"])
    if run.target is None:
        _show_journal(console, document["journal"])


def _show_intent(console: Console, intent: object) -> None:
    if not isinstance(intent, dict):
        return
    where = f"on {intent.get('host')}, process {intent.get('pid')}"
    console.line(f"   planned changes, made against serial {intent.get('serial')}, {where}:")
    changes = intent["changes"]
    for change in changes[:_MOST_CHANGES]:
        console.line(f"     {change.get('address')}  {', '.join(change.get('actions') or ())}")
    if len(changes) > _MOST_CHANGES:
        console.line(f"     … and {len(changes) - _MOST_CHANGES} more")


def _show_journal(console: Console, journal: object) -> None:
    if not isinstance(journal, dict) or journal["started"] is None:
        console.line("   journal: none (only an apply or destroy that was started has one)")
        return
    console.line(
        f"   journal: {plural(journal['lines'], 'line')}, from {moment(journal['started'])}"
        f"{f' to {moment(last)}' if (last := journal['last']) else ''}"
        f"{'' if journal['complete'] else '; its last lines are missing'}"
    )
    ended = journal["ended"]
    if ended is None:
        console.line("   exit record: none")
    else:
        unsaved = "; Terraform could not save the state" if ended["unsaved"] else ""
        console.line(f"   exit record: code {ended['code']} at {moment(ended['at'])}{unsaved}")
