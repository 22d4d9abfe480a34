"""What the checks found in a change, on a screen: errors, what only plans showed, the rest in numbers."""

from __future__ import annotations

from dataclasses import replace

from holdfast.checks.formats.interface import Shown
from holdfast.checks.formats.text import finding_lines
from holdfast.checks.formats.words import counts_text, partly_evaluated_text
from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Report, Reported
from holdfast.cli.console import Console
from holdfast.cli.views.guard import speaks_of
from holdfast.plans.result import StackResult
from holdfast.review.findings_by_stack import not_yet_reported

_MOST = 12


def show_checks(
    console: Console,
    report: Report,
    results: tuple[StackResult, ...],
    *,
    verbose: bool,
    told: set[Reported],
) -> None:
    """Nothing where all was looked at and nothing found. What was told before is not told again, nor what
    the guard says.
    """
    if not (report.counted or report.skipped or (verbose and report.findings)):
        return
    own = not_yet_reported(report, filter(speaks_of, results))
    found = report.findings if verbose else tuple(filter(_worth_a_line, own))
    worth = [one for one in found if one not in told]
    told.update(worth, {*report.counted}.difference(own))
    shown = tuple(worth if verbose else worth[:_MOST])
    console.line("")
    for line in finding_lines(Shown(report=replace(report, findings=shown), verbose=verbose)):
        console.line(*line)
    if len(shown) < len(worth):
        console.line((f"   … and {len(worth) - len(shown)} more (--verbose shows them)", "dim"))
    console.line(f" checks: {_numbers(report, verbose=verbose)}")


def _worth_a_line(one: Reported) -> bool:
    """What only a plan showed nobody shows again."""
    return one.severity is Severity.ERROR or one.file is None


def _numbers(report: Report, *, verbose: bool) -> str:
    parts = [counts_text(report)]
    if report.waived:
        parts.append(f"{report.waived} waived")
    if words := partly_evaluated_text(report):
        parts.append(words if verbose else f"{words} (details: --verbose)")
    if report.counted and not verbose:
        parts.append("all of them: --verbose, or holdfast check")
    return " · ".join(parts)
