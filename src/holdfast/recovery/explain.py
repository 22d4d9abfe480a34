"""The message for an unknown outcome: what is known, what is not, and the next command."""

from __future__ import annotations

import re

from holdfast.kernel.errors import HoldfastError, UnknownOutcome
from holdfast.plans.context import ChangeContext
from holdfast.recovery import change_outcome
from holdfast.recovery.crash_report import CrashReport, inspect
from holdfast.runs.claims import Claim
from holdfast.runs.outcome import UnknownRun

_MOST = 12
_FRACTION = re.compile(r"(\d\d:\d\d:\d\d)\.\d+")


async def explain_unknown_run(context: ChangeContext, error: UnknownRun) -> UnknownOutcome:
    """The error of an interrupted run, with everything that is known of it."""
    claim = error.claim
    try:
        report = await inspect(context, error.stack, claim, error.journal)
    except HoldfastError as failure:
        lines = [started(claim), f"Its plan and journal cannot be read: {failure.problem.message}"]
    else:
        lines = [started(claim, report), *known(report)]
    return UnknownOutcome(
        error.problem.code, "\n   ".join((error.problem.message, *lines)), hint=error.problem.hint
    )


def _short(text: str) -> str:
    """Times to the second."""
    return _FRACTION.sub(r"\1", text)


def started(claim: Claim, report: CrashReport | None = None) -> str:
    text = f"Run {claim.run}, started {claim.intent.started} by {claim.intent.who}"
    last = report.evidence.last_heard if report is not None else None
    return _short(f"{text}, last heartbeat {last}." if last else f"{text}.")


def known(report: CrashReport) -> list[str]:
    evidence = report.evidence
    lines = [f"Terraform: {_end(report)}."]
    if evidence.unseen is not None:
        lines.append(f"The state cannot be read: {evidence.unseen}.")
    lines.append(
        f"Recorded in the state: {evidence.recorded} of {evidence.planned}.  "
        f"Created and not recorded: {len(evidence.not_recorded)}.  "
        f"Started, outcome unknown: {len(evidence.end_unknown)}."
    )
    shown = [*map(_created_line, evidence.not_recorded), *map(_unknown_line, evidence.end_unknown)]
    lines += [f"  {line}" for line in shown[:_MOST]]
    if len(shown) > _MOST:
        lines.append(f"  and {len(shown) - _MOST} more: holdfast runs show {report.claim.run}")
    if report.unsaved:
        lines.append("Terraform could not save the state; Holdfast has stored it, encrypted.")
    return [_short(line) for line in lines]


def _end(report: CrashReport) -> str:
    ended = report.journal.ended
    if ended is None:
        return "exited without an exit record"
    code = ended.get("code")
    if isinstance(code, int) and code < 0:
        return f"killed by signal {-code} at {ended.get('at')}"
    return f"exited with code {code} at {ended.get('at')}"


def _created_line(outcome: change_outcome.CreatedNotRecorded | change_outcome.ReplacedNotRecorded) -> str:
    what = "created" if isinstance(outcome, change_outcome.CreatedNotRecorded) else "replaced"
    return f"{outcome.address}   {outcome.id or 'id unknown'}   {what} {outcome.at or ''}, not in the state"


def _unknown_line(
    outcome: change_outcome.StartedEndUnknown
    | change_outcome.DeletedThenUnknown
    | change_outcome.FailedMayExist,
) -> str:
    if isinstance(outcome, change_outcome.FailedMayExist):
        return f"{outcome.address}   failed {outcome.at or ''}, may exist anyway"
    return f"{outcome.address}   started {outcome.at or ''}, no answer since"
