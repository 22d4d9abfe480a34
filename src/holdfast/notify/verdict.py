"""The verdict: whether the change may be merged, and if not, why."""

from __future__ import annotations

from enum import StrEnum

from holdfast.notify.report import ChangeReport, StackReport, counts_text

_DELETING = ("delete", "replace", "forget")


class Verdict(StrEnum):
    """The most severe first. The output `verdict` has these values."""

    UNKNOWN = "unknown"
    FAILED = "failed"
    REFUSED = "refused"
    LOCKED = "locked"
    APPROVAL = "approval"
    CAREFUL = "careful"
    READY = "ready"
    APPLIED = "applied"
    NOTHING = "nothing"


_OF_STATUS = {
    "unknown": Verdict.UNKNOWN,
    "failed": Verdict.FAILED,
    "cancelled": Verdict.FAILED,
    "refused": Verdict.REFUSED,
    "locked": Verdict.LOCKED,
    "waiting": Verdict.APPROVAL,
    "removed": Verdict.CAREFUL,
    "blocked": Verdict.CAREFUL,
    "planned": Verdict.READY,
    "applied": Verdict.APPLIED,
    "unchanged": Verdict.NOTHING,
}
SIGNS = {
    Verdict.UNKNOWN: "⛔",
    Verdict.FAILED: "⛔",
    Verdict.REFUSED: "⛔",
    Verdict.LOCKED: "⏳",
    Verdict.APPROVAL: "✋",
    Verdict.CAREFUL: "⚠️",
    Verdict.READY: "✅",
    Verdict.APPLIED: "✅",
    Verdict.NOTHING: "✅",
}
_OF_PLAN = {
    Verdict.UNKNOWN: "Do not merge: the outcome of the last apply of {stacks} is unknown",
    Verdict.FAILED: "Do not merge: {stacks} could not be planned",
    Verdict.REFUSED: "Do not merge: {stacks} {are} refused",
    Verdict.LOCKED: "Not yet: {stacks} {are} locked; plan again later",
    Verdict.APPROVAL: "Approval needed: {stacks} {need} one before apply",
    Verdict.CAREFUL: "May be merged, with care: {careful}",
    Verdict.READY: "May be merged: {all} in {stacks}",
    Verdict.APPLIED: "May be merged: everything is applied",
    Verdict.NOTHING: "May be merged: no changes",
}
_OF_APPLY = {
    Verdict.UNKNOWN: "The outcome of the apply of {stacks} is unknown",
    Verdict.FAILED: "Failed: {stacks}",
    Verdict.REFUSED: "Not applied: {stacks} {are} refused",
    Verdict.LOCKED: "Not applied: {stacks} {are} locked",
    Verdict.APPROVAL: "Not applied yet: {stacks} {need} an approval",
    Verdict.CAREFUL: "Partly applied: check {stacks}",
    Verdict.READY: "Planned, not applied: {stacks}",
    Verdict.APPLIED: "Applied: {all} in {stacks}",
    Verdict.NOTHING: "Nothing to do",
}


def verdict_of_stack(stack: StackReport) -> Verdict:
    """An unknown status is not fine; a plan that deletes something or has a rule's reason needs care."""
    verdict = _OF_STATUS.get(stack.status, Verdict.UNKNOWN)
    if verdict in (Verdict.READY, Verdict.NOTHING) and stack.decision != "allow":
        return Verdict.APPROVAL if stack.decision == "approval" else Verdict.REFUSED
    return Verdict.CAREFUL if verdict is Verdict.READY and (stack.risks or stack.rules) else verdict


def verdict_of(report: ChangeReport) -> Verdict:
    if report.troubles:
        return Verdict.FAILED
    verdicts = {verdict_of_stack(stack) for stack in report.stacks}
    if report.findings and report.operation == "plan":
        verdicts.add(Verdict.CAREFUL)
    return next((verdict for verdict in Verdict if verdict in verdicts), Verdict.NOTHING)


def verdict_line(report: ChangeReport) -> str:
    """The first line of the report: fixed text and numbers only."""
    verdict = verdict_of(report)
    if report.troubles:
        nothing = "Do not merge: nothing could be planned"
        return f"{SIGNS[verdict]} {nothing if report.operation == 'plan' else 'Failed: nothing was applied'}"
    same = sum(1 for stack in report.stacks if verdict_of_stack(stack) is verdict)
    words = (_OF_PLAN if report.operation == "plan" else _OF_APPLY)[verdict].format(
        stacks=_stacks(same, len(report.stacks)),
        are="is" if same == 1 else "are",
        need="needs" if same == 1 else "need",
        all=counts_text(report.totals) or "no resource changes",
        careful=_careful(report) or f"check {_stacks(same, len(report.stacks))}",
    )
    return f"{SIGNS[verdict]} {words}"


def _careful(report: ChangeReport) -> str:
    deleting = counts_text({name: number for name, number in report.totals.items() if name in _DELETING})
    number = len(report.findings)
    errors = f"{number} error{'s' if number != 1 else ''} found by the checks" if number else ""
    return ", ".join(part for part in (deleting, errors) if part)


def _stacks(number: int, of: int) -> str:
    if number == of:
        return f"{of} stack{'s' if of != 1 else ''}"
    return f"{number} of {of} stacks"
