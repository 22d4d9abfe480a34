"""`holdfast runs`: the run history: what ran, who started it, how it ended, and Terraform's output."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from holdfast.cli.command import Argument, Invocation, Option, fields
from holdfast.cli.parameters import Detach, Limit, OneRun, Reason, Server, Yes, limit_from, require_server
from holdfast.kernel.errors import Exit, UsageError
from holdfast.kernel.text import plural

if TYPE_CHECKING:
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
HELP = "List runs, show their logs, approve, reject and reconcile them."
COMMANDS = (
    *("list", "show", "log", "watch", "approve", "reject", "override", "cancel", "retry", "reconcile"),
)


def list_(
    invocation: Invocation,
    limit: Limit = None,
    stack: Annotated[str | None, Option("--stack", metavar="STACK", help="Only runs of this stack.")] = None,
    server: Server = None,
) -> Exit:
    """List runs, newest first."""
    from holdfast.runs import history

    most = limit_from(limit)
    from holdfast.cli.server.connection import named_server

    if (on_server := named_server(invocation, server)) is not None:
        from holdfast.cli.server.runs import run_list

        return run_list(invocation, on_server, limit=most, stack=stack)
    from holdfast.cli.views.runs import show_list

    runs = _read(invocation, lambda context: history.list_runs(context.store, limit=most, stack=stack))
    document = {"version": 1, "runs": [history.run_document(run) for run in runs]}
    return invocation.answer(document, lambda: show_list(invocation.console, runs))


def show(
    invocation: Invocation,
    run: OneRun,
    plan: Annotated[bool, Option("--plan", help="Show everything that its plan changes.")] = False,
    server: Server = None,
) -> Exit:
    """Show the details of a run, or its plan."""
    from holdfast.cli.server.connection import named_server

    if (on_server := named_server(invocation, server)) is not None:
        from holdfast.cli.server.runs import run_show, run_show_plan

        return (run_show_plan if plan else run_show)(invocation, on_server, run)
    if plan:
        return _show_plan(invocation, run)
    from holdfast.cli.views.runs import show_details

    details = _details(invocation, run)
    document = {"version": 1, "run": details.document()}
    return invocation.answer(document, lambda: show_details(invocation.console, details))


def _show_plan(invocation: Invocation, wanted: str) -> Exit:
    from holdfast.cli.views.plan_diff import FULL, show_plan
    from holdfast.cli.views.runs import status_of
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
            f" {run.id}  {run.operation or 'run'} of {run.stack or 'an unknown stack'}: {status_of(run)}"
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


def log(
    invocation: Invocation,
    run: OneRun,
    follow: Annotated[
        bool, Option("--follow", help="On a server: print new lines until the run is done.")
    ] = False,
    server: Server = None,
) -> Exit:
    """Show the output of a run, with secrets masked."""
    from holdfast.cli.server.connection import named_server

    if (on_server := named_server(invocation, server)) is not None:
        from holdfast.cli.server.runs import run_log

        return run_log(invocation, on_server, run, follow=follow)
    _require_server(follow=follow)
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
    invocation: Invocation,
    run: RunOrChange = None,
    bundle: Bundle = None,
    reason: Reason = None,
    server: Server = None,
) -> Exit:
    """Approve saved plans: of one run, or of a whole change. Save them with `plan --out` first."""
    return _decide(invocation, run, bundle, "approve", reason, server)


def reject(
    invocation: Invocation,
    run: RunOrChange = None,
    bundle: Bundle = None,
    reason: Reason = None,
    server: Server = None,
) -> Exit:
    """Reject saved plans for good. No approval or override can lift a rejection."""
    return _decide(invocation, run, bundle, "reject", reason, server)


def override(
    invocation: Invocation,
    run: OneRun,
    reason: Reason = None,
    break_glass: Annotated[
        bool,
        Option("--break-glass", help="Also apply it without the approvals that are missing; admins only."),
    ] = False,
    server: Server = None,
) -> Exit:
    """On a server: override the guard's denial of a plan, for a day."""
    from holdfast.cli.server.connection import open_current_server
    from holdfast.cli.server.runs import run_decide

    on_server, why = open_current_server(invocation, server), _why("override", reason)
    shown = on_server.show(on_server.find(run))
    return run_decide(invocation, on_server, shown, "override", why, break_glass=break_glass)


def cancel(
    invocation: Invocation,
    run: OneRun,
    reason: Reason = None,
    force: Annotated[
        bool,
        Option(
            "--force",
            help="Stop a cancelled run at once, as the second Ctrl-C: what is in progress may be lost from "
            "the state.",
        ),
    ] = False,
    server: Server = None,
) -> Exit:
    """On a server: cancel a run, with the other runs of its change."""
    from holdfast.cli.server.connection import open_current_server
    from holdfast.cli.server.runs import run_cancel

    return run_cancel(invocation, open_current_server(invocation, server), run, reason, force=force)


def retry(
    invocation: Invocation, run: OneRun, reason: Reason = None, server: Server = None, detach: Detach = False
) -> Exit:
    """On a server: repeat a run, with the same code and variables."""
    from holdfast.cli.server.connection import open_current_server
    from holdfast.cli.server.runs import run_again

    return run_again(invocation, open_current_server(invocation, server), run, "retry", reason, detach=detach)


def watch(invocation: Invocation, run: RunOrChange = None, server: Server = None) -> Exit:
    """On a server: follow a run or a change until it is over. Default: all that is in progress."""
    from holdfast.cli.server.connection import open_current_server
    from holdfast.cli.server.runs import run_watch

    return run_watch(invocation, open_current_server(invocation, server), run)


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
    server: Server = None,
    detach: Detach = False,
) -> Exit:
    """Resolve an interrupted run: import what it created. Then plan and apply what is left."""
    from holdfast.cli.commands.reconcile import reconcile_request, run_reconcile
    from holdfast.cli.server.connection import named_server

    if (on_server := named_server(invocation, server)) is not None:
        from holdfast.cli.server.runs import run_again

        decisions = reconcile_request(import_ or [], recreate or [], holder_dead=holder_dead, reason=reason)
        return run_again(
            *(invocation, on_server, run, "reconcile", reason),
            detach=detach,
            imports=dict(decisions.imports),
            recreate=sorted(decisions.recreate),
            holder_dead=holder_dead,
        )
    require_server(detach=detach)
    return run_reconcile(
        invocation,
        run,
        yes=yes,
        imported=import_ or [],
        recreate=recreate or [],
        holder_dead=holder_dead,
        reason=reason,
    )


def _require_server(*, follow: bool) -> None:
    if follow:
        raise UsageError("HF-USE-4", "--follow needs --server", hint="Add --server.")


def _why(decision: str, reason: str | None) -> str:
    if not (reason or "").strip():
        raise UsageError(
            "HF-USE-25",
            f"runs {decision} needs --reason",
            hint="Add --reason TEXT. The audit log records it.",
        )
    return str(reason)


def _decide_on_server(
    invocation: Invocation, run: str | None, decision: str, why: str, server: str | None
) -> Exit | None:
    """None: the run is not one of the server."""
    from holdfast.cli.server.connection import named_server, store_server
    from holdfast.cli.server.runs import run_decide
    from holdfast.runs.server_runs import is_missing

    named = named_server(invocation, server)
    on_server = named or store_server(invocation)
    if run is None or on_server is None:
        return None
    try:
        return run_decide(invocation, on_server, on_server.show(on_server.find(run)), decision, why)
    except UsageError as error:
        if named is None and is_missing(error):
            return None
        raise


def _decide(
    invocation: Invocation,
    run: str | None,
    bundle: Path | None,
    decision: str,
    reason: str | None,
    server: str | None,
) -> Exit:
    from holdfast.changes.preconditions import require_store
    from holdfast.cli.context import CommandContext
    from holdfast.runs.approval import RecordedApproval, record_approval, record_approvals
    from holdfast.store.approvals import ApprovalKind

    why = _why(decision, reason)
    if (run is None) == (bundle is None):
        raise UsageError(
            "HF-USE-41",
            f"runs {decision} needs either a run, a change or --bundle",
            hint=f"Name one of them: holdfast runs {decision} RUN --reason TEXT",
        )
    decided = _decide_on_server(invocation, run, decision, why, server)
    if decided is not None:
        return decided
    context = CommandContext(invocation)
    require_store(context.repository)
    kind = ApprovalKind(decision)

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
