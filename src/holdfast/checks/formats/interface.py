"""A format turns a report into text. Each has its own file, named in `FORMATS`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Report, Waiver
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
    seconds: float | None = None


Format = Callable[[FormatInput], str]
"""The text ends with a line feed."""

FORMATS: Final = ("text", "json", "sarif", "github", "markdown", "junit")


def format_of(name: str) -> Format:
    render: Format = importlib.import_module(f"holdfast.checks.formats.{name}").render
    return render


# Texts that several formats share.


def counts_text(report: Report) -> str:
    """`2 errors, 1 warning`, or `no findings`."""
    counts = [
        plural(number, severity.value) for severity in Severity if (number := report.count(severity)) > 0
    ]
    return ", ".join(counts) or "no findings"


def partly_evaluated_text(report: Report) -> str:
    """`3 rules were only partly evaluated`; empty if all were, as far as was asked."""
    number = len(report.unexpected_gaps)
    return (
        f"{plural(number, 'rule')} {'was' if number == 1 else 'were'} only partly evaluated" if number else ""
    )


def summary_text(report: Report) -> str:
    """`2 errors · 1 waived · 3 rules were only partly evaluated`; empty without findings and skips."""
    if not (report.unwaived or report.skipped):
        return ""
    waived_ = f"{report.waived} waived" if report.waived else ""
    return " · ".join(part for part in (counts_text(report), waived_, partly_evaluated_text(report)) if part)


def place_suffix(where: str | None) -> str:
    """`  (prod/network)`, or nothing."""
    return f"  ({one_line(where)})" if where else ""


def waiver_text(waiver: Waiver) -> str:
    """`waived until 2027-01-31, platform: read from the next release on`."""
    owner = f", {waiver.owner}" if waiver.owner else ""
    return f"waived until {waiver.until}{owner}: {waiver.reason}"
