"""`runs approve` and `runs reject`: decide about saved plans, in the run store or on a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.changes.preconditions import require_store
from holdfast.cli.command import Invocation, fields
from holdfast.cli.context import CommandContext
from holdfast.cli.server.connection import named_server, store_server, where_run_is
from holdfast.cli.server.runs import run_decide
from holdfast.kernel.errors import Exit, UsageError
from holdfast.runs.approval import RecordedApproval, record_approval, record_approvals
from holdfast.runs.server_runs import ServerRuns, is_missing
from holdfast.store.approvals import ApprovalKind

if TYPE_CHECKING:
    from holdfast.plans.context import ChangeContext


def require_reason(decision: str, reason: str | None) -> str:
    if not (reason or "").strip():
        raise UsageError(
            "HF-USE-25",
            f"runs {decision} needs --reason",
            hint="Add --reason TEXT. The audit log records it.",
        )
    return str(reason)


def decide(
    invocation: Invocation,
    run: str | None,
    bundle: Path | None,
    decision: str,
    reason: str | None,
    server: str | None,
) -> Exit:
    """Approve or reject, where the run is: in the run store, or on a server."""
    why = (reason or "").strip() if decision == "approve" else require_reason(decision, reason)
    if (run is None) == (bundle is None):
        raise UsageError(
            "HF-USE-41",
            f"runs {decision} needs either a run, a change or --bundle",
            hint=f"Name one of them: holdfast runs {decision} RUN --reason TEXT",
        )

    def here() -> Exit:
        return _decide_here(invocation, run, bundle, decision, why)

    def there(on_server: ServerRuns) -> Exit:
        return run_decide(invocation, on_server, str(run), decision, why)

    if run is None:
        return here()
    store = store_server(invocation) if named_server(invocation, server) is None else None
    if store is not None:
        try:
            return there(store)
        except UsageError as error:
            if not is_missing(error):
                raise
    return where_run_is(invocation, server, here, there)


def _decide_here(
    invocation: Invocation, run: str | None, bundle: Path | None, decision: str, why: str
) -> Exit:
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
    if decision == "reject" and context.repository.config.notify.routes:
        from holdfast.cli.notifications import notify_decided

        notify_decided(invocation, context.repository, [given.stack for given in recorded])

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
    document = {"version": 1, **single, "approvals": approvals, "decision": decision, "reason": why}
    return invocation.answer(document, show_recorded)
