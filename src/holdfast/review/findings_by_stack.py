"""Which findings concern which stack, as the guard is told of them, and what it has said already. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Report, ReportedFinding
from holdfast.checks.model.subjects import CheckedStack
from holdfast.guard.plan_context import StackFinding
from holdfast.kernel.errors import Place
from holdfast.plans.result import StackResult

REGO = "rego"
BROKEN = "HF905"
NO_TOOL_ANSWER = "HF908"


def errors_for(report: Report, stack: CheckedStack) -> Iterator[ReportedFinding]:
    """The errors that count against this stack."""
    return (one for one in report.unwaived if one.severity is Severity.ERROR and _concerns(one, stack))


def _concerns(one: ReportedFinding, stack: CheckedStack) -> bool:
    """What is said of nothing in particular is that somebody could not look: that concerns everyone."""
    if one.stacks:
        return stack.name in one.stacks
    if one.file is None:
        return one.rule.id in {BROKEN, NO_TOOL_ANSWER}
    folder = one.file.rpartition("/")[0] or "."
    return folder in stack.folders or one.file in stack.stack.variables_files or _of_contract(one, stack)


def _of_contract(one: ReportedFinding, stack: CheckedStack) -> bool:
    """It is said of the contract of the stack's target, or of the line that names it."""
    target = stack.stack.target
    use = target.contract if target is not None else None
    return use is not None and (
        one.file == use.schema or (one.file, one.line) == (use.place.file, use.place.line)
    )


def guard_finding(one: ReportedFinding) -> StackFinding:
    """As the guard is told of it."""
    return StackFinding(
        rule=one.rule.id,
        message=one.message,
        where=str(Place(file=one.file, line=one.line)) if one.file is not None else None,
        address=one.address,
        policy=one.rule.tool == REGO,
        id=one.id,
    )


def not_yet_reported(report: Report, results: Iterable[StackResult]) -> tuple[ReportedFinding, ...]:
    """The findings that count and that no reason of the guard repeats."""
    repeated = {reason.finding for result in results for reason in result.decision.reasons}
    return tuple(finding for finding in report.unwaived if not finding.id or finding.id not in repeated)
