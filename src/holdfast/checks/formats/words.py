"""Texts that several formats share: counts, and the summary line."""

from __future__ import annotations

from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Report, Waiver


def plural(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def counts_text(report: Report) -> str:
    """`2 errors, 1 warning`, or `no findings`."""
    counts = [
        plural(number, severity.value) for severity in Severity if (number := report.count(severity)) > 0
    ]
    return ", ".join(counts) or "no findings"


def partly_evaluated_text(report: Report) -> str:
    """`3 rules were only partly evaluated`; empty if all were evaluated in full."""
    number = len(report.partly_evaluated)
    return (
        f"{plural(number, 'rule')} {'was' if number == 1 else 'were'} only partly evaluated" if number else ""
    )


def summary_text(report: Report) -> str:
    """`2 errors · 1 waived · 3 rules were only partly evaluated`; empty without findings and skips."""
    if not (report.unwaived or report.skipped):
        return ""
    waived_ = f"{report.waived} waived" if report.waived else ""
    return " · ".join(part for part in (counts_text(report), waived_, partly_evaluated_text(report)) if part)


def waiver_text(waiver: Waiver) -> str:
    """`waived until 2027-01-31, platform: read from the next release on`."""
    owner = f", {waiver.owner}" if waiver.owner else ""
    return f"waived until {waiver.until}{owner}: {waiver.reason}"
