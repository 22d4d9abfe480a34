"""`holdfast runs approve` and `runs reject`: a person's word about the plan of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from holdfast.cli.command import Argument, Group, Invocation, Option, command
from holdfast.kernel.errors import Exit, UsageError

if TYPE_CHECKING:
    from holdfast.plans.context import Session
    from holdfast.runs.approval import Given

OneRun = Annotated[str, Argument(metavar="RUN", help="The run's id, or its beginning.")]
Reason = Annotated[str | None, Option("--reason", metavar="TEXT", help="Why; kept in the record.")]


def add_to(group: Group) -> None:
    command(group, "approve")(approve)
    command(group, "reject")(reject)


def approve(invocation: Invocation, run: OneRun, reason: Reason = None) -> Exit:
    """Approve the plan of a run, which was saved with `plan --out`: that plan, and no other."""
    return _give(invocation, run, "approve", reason)


def reject(invocation: Invocation, run: OneRun, reason: Reason = None) -> Exit:
    """Reject the plan of a run: it cannot be applied any more, whoever approves or overrides it."""
    return _give(invocation, run, "reject", reason)


def _give(invocation: Invocation, run: str, word: str, reason: str | None) -> Exit:
    from holdfast.cli.context import Workshop
    from holdfast.runs.approval import give
    from holdfast.store.approvals import Word

    if not (reason or "").strip():
        raise UsageError(
            "HF-USE-25", f"runs {word} without --reason", hint="Say why: it stays in the record."
        )
    workshop = Workshop(invocation)
    workshop.require_store()

    async def work(session: Session) -> Given:
        return await give(session, run, Word(word), reason or "")

    given = workshop.run(work)
    if invocation.as_json:
        invocation.document(
            {
                "version": 1,
                "run": given.run,
                "stack": given.stack,
                "digest": given.digest,
                "decision": word,
                "reason": reason,
                "notes": list(given.notes),
            }
        )
        return Exit.DONE
    done = "approved" if word == "approve" else "rejected"
    invocation.console.line(f" {given.stack}: the plan of run {given.run} is {done}")
    invocation.console.line(f"   digest {given.digest}")
    for note in given.notes:
        invocation.console.line(("   ! ", "yellow"), note)
    if word == "approve":
        invocation.console.say("   apply it where its bundle is: holdfast apply --plan DIR")
    return Exit.DONE
