"""A format turns a report into text. Each has its own file, named in `FORMATS`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Novelty, Report, ReportedFinding, Waiver
from holdfast.kernel.text import plural
from holdfast.system.markup import one_line


class FormatInput(Struct, frozen=True, kw_only=True):
    """A redacted report, and what formatting needs to know."""

    report: Report
    prefix: str = ""
    """The path from the root of the Git repository to ours: `infra/`, or empty."""
    version: str = ""
    """Of Holdfast."""
    fail_on: Severity = Severity.ERROR
    """The severity from which the command fails."""
    verbose: bool = False
    full: bool = False
    """Every finding with its line of code and hint, as `verbose` does, too."""
    seconds: float | None = None


Format = Callable[[FormatInput], str]
"""The text ends with a line feed."""

FORMATS: Final = ("text", "json", "sarif", "github", "markdown", "junit")


def format_of(name: str) -> Format:
    render: Format = importlib.import_module(f"holdfast.checks.formats.{name}").render
    return render


# Texts that several formats share.


def counts_text(report: Report) -> str:
    """`2 errors, 1 warning`, or `no findings`; with a baseline or a base `2 new errors, 1 warning`."""
    new = "new " if report.compared else ""
    counts = [
        plural(number, severity.value) for severity in Severity if (number := report.count(severity)) > 0
    ]
    first, _, rest = ", ".join(counts or ["no findings"]).partition(" ")
    return f"{first} {new}{rest}"


def uncounted_texts(report: Report) -> list[str]:
    """`118 known (baseline)`, `4 fixed (…)`, `2 waived`: what does not count, each only if there is any."""
    fixed = report.baseline.fixed_count if report.baseline is not None else 0
    texts = (
        (report.count_novelty(Novelty.KNOWN), "known (baseline)"),
        (report.count_novelty(Novelty.EXISTING), "existing (not from this change)"),
        (fixed, "fixed (still in the baseline: holdfast check --baseline write)"),
        (report.waived, "waived"),
    )
    return [f"{number} {text}" for number, text in texts if number]


def partly_evaluated_text(report: Report) -> str:
    """`3 rules were only partly evaluated`; empty if all were, as far as was asked."""
    number = len(report.unexpected_gaps)
    return (
        f"{plural(number, 'rule')} {'was' if number == 1 else 'were'} only partly evaluated" if number else ""
    )


def summary_text(report: Report) -> str:
    """`2 errors · 1 waived · 3 rules were only partly evaluated`; empty without findings and skips."""
    if not (report.active or report.skipped):
        return ""
    parts = (counts_text(report), *uncounted_texts(report), partly_evaluated_text(report))
    return " · ".join(part for part in parts if part)


def place_text(finding: ReportedFinding) -> str:
    """`modules/app/main.tf:12`, or what it is about if it has no file."""
    if finding.file is None:
        return finding.stack or "the repository"
    return finding.file if finding.line is None else f"{finding.file}:{finding.line}"


def place_suffix(where: str | None) -> str:
    """`  (prod/network)`, or nothing."""
    return f"  ({one_line(where)})" if where else ""


def waiver_text(waiver: Waiver) -> str:
    """`waived until 2027-01-31, platform: read from the next release on`."""
    owner = f", {waiver.owner}" if waiver.owner else ""
    return f"waived until {waiver.until}{owner}: {waiver.reason}"
