"""Which findings concern which stack, in the form that the guard takes, and which it reported. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from holdfast.checks.engine.novelty import ABOUT_SETTINGS
from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Report, ReportedFinding, sort_findings
from holdfast.checks.model.subjects import CheckedStack
from holdfast.guard.plan_context import StackFinding
from holdfast.kernel.errors import Place
from holdfast.plans.result import StackResult

REGO = "rego"
BROKEN = "HF905"
NO_TOOL_ANSWER = "HF908"


def errors_for(report: Report, stack: CheckedStack) -> Iterator[ReportedFinding]:
    """The errors that count against this stack."""
    return (
        finding
        for finding in report.active
        if finding.severity is Severity.ERROR and _concerns(finding, stack)
    )


def _concerns(finding: ReportedFinding, stack: CheckedStack) -> bool:
    """A finding without a place concerns every stack if it says that something was not checked."""
    if finding.stacks:
        return stack.name in finding.stacks
    if finding.file is None:
        return finding.rule.id in {BROKEN, NO_TOOL_ANSWER}
    folder = finding.file.rpartition("/")[0] or "."
    return (
        folder in stack.folders or finding.file in stack.stack.variables_files or _of_contract(finding, stack)
    )


def _of_contract(finding: ReportedFinding, stack: CheckedStack) -> bool:
    """Whether it is about the contract of the stack's target, or the line that names it."""
    target = stack.stack.target
    use = target.contract if target is not None else None
    return use is not None and (
        finding.file == use.schema or (finding.file, finding.line) == (use.place.file, use.place.line)
    )


def guard_finding(finding: ReportedFinding) -> StackFinding:
    """In the form that the guard takes."""
    return StackFinding(
        rule=finding.rule.id,
        message=finding.message,
        where=str(Place(file=finding.file, line=finding.line)) if finding.file is not None else None,
        address=finding.address,
        policy=finding.rule.tool == REGO,
        id=finding.id,
    )


def not_yet_reported(report: Report, results: Iterable[StackResult]) -> tuple[ReportedFinding, ...]:
    """The active findings that no reason of the guard repeats."""
    repeated = {reason.finding for result in results for reason in result.decision.reasons}
    return tuple(finding for finding in report.active if not finding.id or finding.id not in repeated)


def with_base_findings(report: Report, base: Report, level: Severity = Severity.ERROR) -> Report:
    """The report with the errors that only the rules of the base show, and without their waivers.

    Not those about waivers and settings of the base, which are no longer in the files. `level`: the lowest
    severity that counts.
    """
    shown = {finding.id: finding.severity for finding in report.active}
    more = tuple(
        finding
        for finding in base.active
        if finding.severity.is_at_least(level)
        and not (finding.id in shown and shown[finding.id].is_at_least(finding.severity))
        and finding.rule.id not in ABOUT_SETTINGS
    )
    ids = {finding.id for finding in more if finding.id}
    kept = (finding for finding in report.findings if finding.id not in ids)
    return replace(report, findings=sort_findings((*kept, *more)))
