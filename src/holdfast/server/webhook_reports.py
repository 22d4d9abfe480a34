"""What is written on a pull request about a change: its report as it is now, and the next step. Pure."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from holdfast.notify.report import ChangeReport, StackReport, Trouble, Verdict, verdict_line, verdict_of
from holdfast.notify.webhooks.interface import ApplyMode
from holdfast.store.server_runs.phases import ChangePhase, Operation
from holdfast.store.server_runs.rows import Change, Run

_GOOD: Final = frozenset({Verdict.CAREFUL, Verdict.READY, Verdict.APPLIED, Verdict.NOTHING})
_APPLICABLE: Final = _GOOD - {Verdict.NOTHING} | {Verdict.APPROVAL}


def current_report(change: Change, stored: ChangeReport | None) -> ChangeReport:
    """What its worker wrote, as far as the rows agree: they say how each run ended.

    A worker that died, or lost the change, may have written the report.
    """
    written = {stack.name: stack for stack in stored.stacks} if stored is not None else {}
    error = change.error or {}
    trouble = Trouble(
        code=str(error.get("code", "")), message=str(error.get("message", "")), hint=error.get("hint")
    )
    troubles = (trouble,) if change.error is not None else ()

    def current(run: Run) -> StackReport:
        known, status = written.pop(run.stack, None), run.status or "unknown"
        if known is not None and known.status == status:
            return known
        return StackReport(name=run.stack, status=status, digest=run.digest, run=run.id, troubles=troubles)

    stacks = tuple(map(current, change.runs))
    removed = tuple(stack for stack in written.values() if stack.status == "removed")
    empty = ChangeReport(operation=change.operation.value, headline="", stacks=(), on_server=True)
    return structs.replace(
        stored or empty, stacks=(*stacks, *removed), troubles=troubles if not change.runs else ()
    )


def next_step(report: ChangeReport, mode: ApplyMode) -> str:
    """As Markdown, below the report of a plan."""
    if report.operation != Operation.PLAN.value:
        return ""
    again = "`holdfast plan` to plan again."
    if verdict_of(report) not in _APPLICABLE:
        return f"Comment {again}"
    if mode is ApplyMode.ON_MERGE:
        return f"Merging plans and applies this. Comment {again}"
    return f"Comment `holdfast apply` to apply these plans, or {again}"


def status_of(change: Change, report: ChangeReport) -> tuple[str, str]:
    """The state of the commit status, and its text: the verdict without the sign at its beginning."""
    state = "success" if verdict_of(report) in _GOOD else "failure"
    if change.phase is ChangePhase.WAITING:
        state = "pending"
    return state, verdict_line(report).partition(" ")[2]
