"""`holdfast runs approve` and `runs reject`: a person's decision about the plan of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.cli.command import Group, Invocation, command
from holdfast.cli.parameters import OneRun, Reason
from holdfast.kernel.errors import Exit, UsageError

if TYPE_CHECKING:
    from holdfast.plans.context import Session
    from holdfast.runs.approval import Given


def add_to(group: Group) -> None:
    command(group, "approve")(approve)
    command(group, "reject")(reject)


def approve(invocation: Invocation, run: OneRun, reason: Reason = None) -> Exit:
    """Approve the plan of a run that was saved with `plan --out`: this plan and no other."""
    return _decide(invocation, run, "approve", reason)


def reject(invocation: Invocation, run: OneRun, reason: Reason = None) -> Exit:
    """Reject the plan of a run: it can never be applied, even with approvals or an override."""
    return _decide(invocation, run, "reject", reason)


def _decide(invocation: Invocation, run: str, decision: str, reason: str | None) -> Exit:
    from holdfast.changes.preconditions import require_store
    from holdfast.cli.context import CommandContext
    from holdfast.runs.approval import give
    from holdfast.store.approvals import Word

    if not (reason or "").strip():
        raise UsageError(
            "HF-USE-25", f"runs {decision} needs --reason", hint="The reason is recorded in the audit log."
        )
    context = CommandContext(invocation)
    require_store(context.repository)

    async def work(session: Session) -> Given:
        return await give(session, run, Word(decision), reason or "")

    given = context.run(work)
    if invocation.as_json:
        invocation.document(
            {
                "version": 1,
                "run": given.run,
                "stack": given.stack,
                "digest": given.digest,
                "decision": decision,
                "reason": reason,
                "notes": list(given.notes),
            }
        )
        return Exit.DONE
    console = invocation.console
    done = "approved" if decision == "approve" else "rejected"
    console.line(f" {given.stack}: {done} the plan of run {given.run}")
    console.line(f"   digest {given.digest}")
    for note in given.notes:
        console.line(("   ! ", "yellow"), note)
    if decision == "approve":
        console.say("   Apply its bundle with: holdfast apply --plan DIR")
    return Exit.DONE
