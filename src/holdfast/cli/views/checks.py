"""Findings of the checks in a change: errors, findings that only a plan shows, the rest as numbers."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.checks.formats.interface import (
    FormatInput,
    counts_text,
    partly_evaluated_text,
    uncounted_texts,
)
from holdfast.checks.formats.text import finding_lines
from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Report, ReportedFinding
from holdfast.cli.console import Console
from holdfast.cli.views.change import shows_decision
from holdfast.plans.result import StackResult
from holdfast.review.findings_by_stack import not_yet_reported

_MOST_FINDINGS = 12


def show_checks(
    console: Console,
    report: Report,
    results: tuple[StackResult, ...],
    *,
    verbose: bool,
    shown: set[ReportedFinding],
) -> None:
    """Nothing if all rules ran and found nothing. Skips what was shown before and what the guard says."""
    known = report.baseline is not None and report.findings
    if not (report.active or report.skipped or known or (verbose and report.findings)):
        return
    own = not_yet_reported(report, filter(shows_decision, results))
    candidates = report.findings if verbose else tuple(filter(_deserves_line, own))
    new = [finding for finding in candidates if finding not in shown]
    shown.update(new, {*report.active}.difference(own))
    listed = tuple(new if verbose else new[:_MOST_FINDINGS])
    console.line("")
    for line in finding_lines(FormatInput(report=replace(report, findings=listed), verbose=verbose)):
        console.line(*line)
    if len(listed) < len(new):
        console.line((f"   … and {len(new) - len(listed)} more (details: --verbose)", "dim"))
    console.line(f" checks: {_numbers(report, verbose=verbose)}")


def _deserves_line(finding: ReportedFinding) -> bool:
    """`holdfast check` shows the others; findings without a file come from a plan and are shown only here."""
    return finding.severity is Severity.ERROR or finding.file is None


def _numbers(report: Report, *, verbose: bool) -> str:
    parts = [counts_text(report), *uncounted_texts(report)]
    if partly_evaluated := partly_evaluated_text(report):
        parts.append(partly_evaluated)
    if (report.active or partly_evaluated) and not verbose:
        parts.append("details: --verbose")
    return " · ".join(parts)
