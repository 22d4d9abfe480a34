"""An unknown outcome in words: what is known, what is not, and the one command that goes on."""

from __future__ import annotations

import re

from holdfast.kernel.errors import HoldfastError, UnknownOutcome
from holdfast.plans.context import ChangeContext
from holdfast.recovery import change_outcome as found
from holdfast.recovery.crash_report import Aftermath, look
from holdfast.runs.claims import Claim
from holdfast.runs.outcome import UnknownRun

_MOST = 12
_FRACTION = re.compile(r"(\d\d:\d\d:\d\d)\.\d+")


async def explain_unknown_run(context: ChangeContext, error: UnknownRun) -> UnknownOutcome:
    """The error of an interrupted run, with everything that is known of it."""
    claim = error.claim
    try:
        aftermath = await look(context, error.stack, claim, error.journal)
    except HoldfastError as failure:
        lines = [started(claim), f"What it left cannot be read: {failure.problem.message}"]
    else:
        lines = [started(claim, aftermath), *known(aftermath)]
    return UnknownOutcome(
        error.problem.code, "\n   ".join((error.problem.message, *lines)), hint=error.problem.hint
    )


def _short(text: str) -> str:
    """Times to the second: what a person compares with a clock."""
    return _FRACTION.sub(r"\1", text)


def started(claim: Claim, aftermath: Aftermath | None = None) -> str:
    text = f"Run {claim.run}, started {claim.intent.started} by {claim.intent.who}"
    last = aftermath.evidence.last_heard if aftermath is not None else None
    return _short(f"{text}, last sign of life {last}." if last else f"{text}.")


def known(aftermath: Aftermath) -> list[str]:
    evidence = aftermath.evidence
    lines = [f"Terraform: {_end(aftermath)}."]
    if evidence.unseen is not None:
        lines.append(f"Nobody could look into the state: {evidence.unseen}.")
    lines.append(
        f"Recorded in the state: {evidence.recorded} of {evidence.planned}.  "
        f"Created and not recorded: {len(evidence.not_recorded)}.  "
        f"Started, end unknown: {len(evidence.end_unknown)}."
    )
    shown = [*map(_made, evidence.not_recorded), *map(_open, evidence.end_unknown)]
    lines += [f"  {line}" for line in shown[:_MOST]]
    if len(shown) > _MOST:
        lines.append(f"  and {len(shown) - _MOST} more: holdfast runs show {aftermath.claim.run}")
    if aftermath.unsaved:
        lines.append("Terraform left a state that it could not save; Holdfast keeps it, encrypted.")
    return [_short(line) for line in lines]


def _end(aftermath: Aftermath) -> str:
    ended = aftermath.journal.ended
    if ended is None:
        return "nobody saw its end"
    code = ended.get("code")
    if isinstance(code, int) and code < 0:
        return f"killed by signal {-code} at {ended.get('at')}"
    return f"ended with exit code {code} at {ended.get('at')}"


def _made(one: found.CreatedNotRecorded | found.ReplacedNotRecorded) -> str:
    what = "created" if isinstance(one, found.CreatedNotRecorded) else "replaced"
    return f"{one.address}   {one.id or 'id not known'}   {what} {one.at or ''}, not in the state"


def _open(one: found.StartedEndUnknown | found.DeletedThenUnknown | found.FailedMayExist) -> str:
    if isinstance(one, found.FailedMayExist):
        return f"{one.address}   failed {one.at or ''}, may exist all the same"
    return f"{one.address}   started {one.at or ''}, nothing heard since"
