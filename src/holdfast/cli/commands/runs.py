"""`holdfast runs`: the run history: what ran, who started it, how it ended, and Terraform's output."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from holdfast.cli.command import Argument, Invocation, Option
from holdfast.cli.parameters import Detach, Limit, OneRun, Reason, Server, Yes, limit_from, require_server
from holdfast.kernel.errors import Exit, UsageError
from holdfast.kernel.text import plural

if TYPE_CHECKING:
    from holdfast.plans.context import ChangeContext
    from holdfast.runs.run import Run
    from holdfast.runs.server_runs import ServerRuns

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
    *("list", "show", "log", "watch", "workers", "approve", "reject", "override", "cancel", "retry"),
    "reconcile",
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
    from holdfast.cli.server.connection import known_server, named_server

    if (on_server := named_server(invocation, server)) is not None:
        from holdfast.cli.server.runs import run_list

        return run_list(invocation, on_server, limit=most, stack=stack)
    from holdfast.cli.views.runs import show_list

    runs, stored_here = _read(
        invocation,
        lambda context: (
            history.list_runs(context.store, limit=most, stack=stack),
            not context.store.on_server,
        ),
    )
    known = known_server(invocation) if stored_here else None
    document = {"version": 1, "runs": [history.run_document(run) for run in runs]}

    def show_runs() -> None:
        show_list(invocation.console, runs)
        if known is not None:
            elsewhere = f"The runs of {known.client.url}: holdfast runs list --server"
            invocation.console.say((f" {elsewhere}", "dim"))

    return invocation.answer(document, show_runs)


def show(
    invocation: Invocation,
    run: OneRun,
    plan: Annotated[bool, Option("--plan", help="Show everything that its plan changes.")] = False,
    server: Server = None,
) -> Exit:
    """Show the details of a run, or its plan."""
    from holdfast.cli.server.connection import where_run_is

    def there(on_server: ServerRuns) -> Exit:
        from holdfast.cli.server.runs import run_show, run_show_plan

        return (run_show_plan if plan else run_show)(invocation, on_server, run)

    here = _show_plan if plan else _show_details
    return where_run_is(invocation, server, lambda: here(invocation, run), there)


def _show_details(invocation: Invocation, wanted: str) -> Exit:
    from holdfast.cli.views.runs import show_details
    from holdfast.runs import history

    details = _read(invocation, lambda context: history.run_details(context, wanted))
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
    from holdfast.cli.server.connection import where_run_is

    def there(on_server: ServerRuns) -> Exit:
        from holdfast.cli.server.runs import run_log

        return run_log(invocation, on_server, run, follow=follow)

    return where_run_is(invocation, server, lambda: _show_log(invocation, run, follow=follow), there)


def _show_log(invocation: Invocation, run: str, *, follow: bool) -> Exit:
    from holdfast.runs.history import log_lines, log_text, run_output
    from holdfast.secrets.redact import TERRAFORM, clean_document

    details = _read(invocation, lambda context: run_output(context, run))
    if follow:
        raise UsageError("HF-USE-4", "--follow needs --server", hint="Add --server.")
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
    from holdfast.cli.changes.decisions import decide

    return decide(invocation, run, bundle, "approve", reason, server)


def reject(
    invocation: Invocation,
    run: RunOrChange = None,
    bundle: Bundle = None,
    reason: Reason = None,
    server: Server = None,
) -> Exit:
    """Reject saved plans for good. No approval or override can lift a rejection."""
    from holdfast.cli.changes.decisions import decide

    return decide(invocation, run, bundle, "reject", reason, server)


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
    from holdfast.cli.changes.decisions import require_reason
    from holdfast.cli.server.connection import open_current_server
    from holdfast.cli.server.runs import run_decide

    on_server, why = open_current_server(invocation, server), require_reason("override", reason)
    return run_decide(invocation, on_server, run, "override", why, break_glass=break_glass)


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


def workers(invocation: Invocation, server: Server = None) -> Exit:
    """On a server: list its workers, with their labels."""
    from holdfast.cli.server.connection import open_current_server
    from holdfast.cli.views.server_runs import show_workers

    listed = open_current_server(invocation, server).workers()
    document = {"version": 1, "workers": list(listed)}
    return invocation.answer(document, lambda: show_workers(invocation.console, listed))


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
    from holdfast.cli.server.connection import where_run_is

    def there(on_server: ServerRuns) -> Exit:
        from holdfast.cli.server.runs import run_again

        decisions = reconcile_request(import_ or [], recreate or [], holder_dead=holder_dead, reason=reason)
        return run_again(
            *(invocation, on_server, run, "reconcile", reason),
            detach=detach,
            imports=dict(decisions.imports),
            recreate=sorted(decisions.recreate),
            holder_dead=holder_dead,
        )

    def here() -> Exit:
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

    return where_run_is(invocation, server, here, there)


def _read(invocation: Invocation, read: Callable[[ChangeContext], T]) -> T:
    from holdfast.cli.context import CommandContext

    async def work(change_context: ChangeContext) -> T:
        return read(change_context)

    return CommandContext(invocation).run(work)
