"""`holdfast runs`: the run history: what ran, who started it, how it ended, and Terraform's output."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from holdfast.cli.command import Argument, Invocation, Option, fields
from holdfast.cli.parameters import Limit, OneRun, Reason, Yes, limit_from
from holdfast.kernel.errors import Exit, UsageError
from holdfast.kernel.text import plural

if TYPE_CHECKING:
    from holdfast.cli.console import Console
    from holdfast.plans.context import ChangeContext
    from holdfast.runs.history import RunDetails
    from holdfast.runs.run import Run

T = TypeVar("T")
RunOrChange = Annotated[
    str | None,
    Argument(metavar="RUN|CHANGE", help="The id of a run or of a change, or its first characters."),
]
Bundle = Annotated[
    Path | None, Option("--bundle", metavar="DIR", help="Every plan of this bundle that is not applied yet.")
]
_MOST_CHANGES = 20
HELP = "List runs, show their logs, approve, reject and reconcile them."
COMMANDS = ("list", "show", "log", "approve", "reject", "reconcile")


def list_(
    invocation: Invocation,
    limit: Limit = None,
    stack: Annotated[str | None, Option("--stack", metavar="STACK", help="Only runs of this stack.")] = None,
) -> Exit:
    """List runs, newest first."""
    from holdfast.runs import history

    most = limit_from(limit)
    runs = _read(invocation, lambda context: history.list_runs(context.store, limit=most, stack=stack))
    document = {"version": 1, "runs": [history.run_document(run) for run in runs]}
    return invocation.answer(document, lambda: _show_list(invocation.console, runs))


def show(
    invocation: Invocation,
    run: OneRun,
    plan: Annotated[bool, Option("--plan", help="Show everything that its plan changes.")] = False,
) -> Exit:
    """Show the details of a run, or its plan."""
    if plan:
        return _show_plan(invocation, run)
    details = _details(invocation, run)
    document = {"version": 1, "run": details.document()}
    return invocation.answer(document, lambda: _show_details(invocation.console, details))


def _show_plan(invocation: Invocation, wanted: str) -> Exit:
    from holdfast.cli.views.plan_diff import FULL, show_plan
    from holdfast.runs import history
    from holdfast.runs.document import plan_document
    from holdfast.runs.stored_plan import read_stored_plan
    from holdfast.terraform.plan.masked_plan import MaskedPlan

    def read(context: ChangeContext) -> tuple[Run, MaskedPlan]:
        run = history.run_details(context, wanted).run
        return run, read_stored_plan(context.store, run)

    run, stored = _read(invocation, read)

    def show_stored() -> None:
        console = invocation.console
        console.line(
            f" {run.id}  {run.operation or 'run'} of {run.stack or 'an unknown stack'}: {_status(run)}"
        )
        show_plan(console, stored.plan, FULL, more="")
        if stored.left_out:
            them = plural(stored.left_out, "more resource or output", "more resources and outputs")
            console.line((f"   … {them} were too large to store with the run", "yellow"))

    document = {
        "version": 1,
        "run": run.id,
        "stack": run.stack,
        "digest": run.digest,
        **plan_document(stored.plan),
        "left_out": stored.left_out,
    }
    return invocation.answer(document, show_stored)


def log(invocation: Invocation, run: OneRun) -> Exit:
    """Show Terraform's output during a run, with secrets masked."""
    from holdfast.runs.history import log_lines, log_text, run_output
    from holdfast.secrets.redact import TERRAFORM, clean_document

    details = _read(invocation, lambda context: run_output(context, run))
    redactor = invocation.console.redactor
    if invocation.as_json:
        lines = [clean_document(redactor, line, TERRAFORM) for line in log_lines(details)]
        invocation.document({"version": 1, "run": details.run.id, "lines": lines})
        return Exit.DONE
    # Redacted as one text: a secret may span several lines.
    text = redactor.clean("\n".join(log_text(line) for line in log_lines(details)))
    for line in text.splitlines():
        invocation.console.line(line)
    if not text:
        invocation.console.say(
            f" {details.run.id}: no output: only an apply or destroy that was started has a journal"
        )
    return Exit.DONE


def approve(
    invocation: Invocation, run: RunOrChange = None, bundle: Bundle = None, reason: Reason = None
) -> Exit:
    """Approve saved plans: of one run, or of a whole change. Save them with `plan --out` first."""
    return _decide(invocation, run, bundle, "approve", reason)


def reject(
    invocation: Invocation, run: RunOrChange = None, bundle: Bundle = None, reason: Reason = None
) -> Exit:
    """Reject saved plans for good. No approval or override can lift a rejection."""
    return _decide(invocation, run, bundle, "reject", reason)


def reconcile(
    invocation: Invocation,
    run: OneRun,
    yes: Yes = False,
    import_: Annotated[
        list[str] | None,
        Option(
            "--import", metavar="ADDR=ID", help="Import this resource, which the run created; repeatable."
        ),
    ] = None,
    recreate: Annotated[
        list[str] | None,
        Option(
            "--recreate",
            metavar="ADDR",
            help="This resource does not exist: the next apply may create it again; repeatable.",
        ),
    ] = None,
    holder_dead: Annotated[
        bool,
        Option(
            "--holder-dead", help="Declare that the process of the run is gone, if Holdfast cannot prove it."
        ),
    ] = False,
    reason: Annotated[
        str | None, Option("--reason", metavar="TEXT", help="With --holder-dead: how you know.")
    ] = None,
) -> Exit:
    """Resolve an interrupted run: import what it created. Then plan and apply what is left."""
    from holdfast.cli.commands.reconcile import run_reconcile

    return run_reconcile(
        invocation,
        run,
        yes=yes,
        imported=import_ or [],
        recreate=recreate or [],
        holder_dead=holder_dead,
        reason=reason,
    )


def _decide(
    invocation: Invocation, run: str | None, bundle: Path | None, decision: str, reason: str | None
) -> Exit:
    from holdfast.changes.preconditions import require_store
    from holdfast.cli.context import CommandContext
    from holdfast.runs.approval import RecordedApproval, record_approval, record_approvals
    from holdfast.store.approvals import ApprovalKind

    if not (reason or "").strip():
        raise UsageError(
            "HF-USE-25",
            f"runs {decision} needs --reason",
            hint="Add --reason TEXT. The audit log records it.",
        )
    if (run is None) == (bundle is None):
        raise UsageError(
            "HF-USE-41",
            f"runs {decision} needs either a run, a change or --bundle",
            hint=f"Name one of them: holdfast runs {decision} RUN --reason TEXT",
        )
    context = CommandContext(invocation)
    require_store(context.repository)
    kind, why = ApprovalKind(decision), reason or ""

    async def work(change_context: ChangeContext) -> tuple[RecordedApproval, ...]:
        if bundle is None:
            return await record_approval(change_context, str(run), kind, why)
        from holdfast.changes.bundles import unapplied_runs

        runs = unapplied_runs(change_context.store, bundle, context.bundle_key(bundle))
        return await record_approvals(change_context, runs, kind, why)

    recorded = context.run(work)

    def show_recorded() -> None:
        console, done = invocation.console, "approved" if decision == "approve" else "rejected"
        for given in recorded:
            console.line(f" {given.stack}: {done} the plan of run {given.run}")
            counted = ", ".join(f"{number} {what}" for what, number in given.changes.items() if number)
            console.line(f"   digest {given.digest}  ({counted or 'no resource changes'})")
            for note in given.notes:
                console.line(("   ! ", "yellow"), note)
        if not recorded:
            console.say(" Every plan with changes is applied.")
        elif decision == "approve":
            where = bundle if bundle is not None else "DIR"
            which = "its bundle" if len(recorded) == 1 else "the bundle"
            console.say(f"   Apply {which} with: holdfast apply --plan {where}")

    approvals = [fields(given, "run", "stack", "digest", "changes", "notes") for given in recorded]
    single = approvals[0] if len(approvals) == 1 else dict.fromkeys(("run", "stack", "digest", "notes"))
    document = {"version": 1, **single, "approvals": approvals, "decision": decision, "reason": reason}
    return invocation.answer(document, show_recorded)


def _details(invocation: Invocation, run: str) -> RunDetails:
    from holdfast.runs import history

    return _read(invocation, lambda context: history.run_details(context, run))


def _read(invocation: Invocation, read: Callable[[ChangeContext], T]) -> T:
    from holdfast.cli.context import CommandContext

    async def work(change_context: ChangeContext) -> T:
        return read(change_context)

    return CommandContext(invocation).run(work)


def _status(run: Run) -> str:
    return "running" if run.status.is_running else run.status.value


def _show_list(console: Console, runs: tuple[Run, ...]) -> None:
    from holdfast.cli.views.state import moment, show_rows

    show_rows(
        console,
        [
            (run.id, run.stack or "?", run.operation or "?", _status(run), moment(run.started), run.who or "")
            for run in runs
        ],
    )
    if not runs:
        console.say(" No runs yet.")


def _show_details(console: Console, details: RunDetails) -> None:
    from holdfast.cli.views.state import moment

    run = details.run
    console.line(f" {run.id}  {run.operation or 'run'} of {run.stack or 'an unknown stack'}: {_status(run)}")
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
    _show_intent(console, document["intent"])
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
    from holdfast.cli.views.state import moment

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
