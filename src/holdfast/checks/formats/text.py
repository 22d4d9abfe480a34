"""For a terminal: grouped by file, with the source line and the fix."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from holdfast.checks.formats.interface import (
    FormatInput,
    counts_text,
    partly_evaluated_text,
    place_suffix,
    waiver_text,
)
from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Report, ReportedFinding
from holdfast.kernel.text import plural
from holdfast.system.markup import one_line

MARKS = {Severity.ERROR: "✗", Severity.WARNING: "!", Severity.NOTE: "·"}
_WIDEST = 72


Piece = tuple[str, str]
"""Text and its style."""

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.NOTE: "cyan"}


def render(inputs: FormatInput) -> str:
    return "".join("".join(text for text, _ in line) + "\n" for line in lines(inputs))


def lines(inputs: FormatInput) -> Iterator[tuple[Piece, ...]]:
    yield from finding_lines(inputs)
    yield ((f" {_summary_line(inputs)}", ""),)


def finding_lines(inputs: FormatInput) -> Iterator[tuple[Piece, ...]]:
    """Without the summary line."""
    report = inputs.report
    findings = report.findings if inputs.verbose else report.unwaived
    for file, group in itertools.groupby(findings, key=lambda finding: finding.file):
        yield ((f" {one_line(file) if file is not None else 'not in a file'}", "bold"),)
        hints_shown: set[tuple[str, str | None]] = set()
        for finding in group:
            yield from _finding(finding, hint=(finding.rule.id, finding.hint) not in hints_shown)
            if not finding.waived:
                hints_shown.add((finding.rule.id, finding.hint))
        yield ()
    if inputs.verbose:
        yield from _skipped(report)


def _finding(finding: ReportedFinding, *, hint: bool) -> Iterator[tuple[Piece, ...]]:
    """The hint is shown once per rule and file."""
    number = "" if finding.line is None else str(finding.line)
    mark, style = ("~", "dim") if finding.waived else (MARKS[finding.severity], _STYLES[finding.severity])
    where = ", ".join(
        part for part in (finding.stack if finding.file is None else None, finding.address) if part
    )
    message = _sentence(one_line(finding.message))
    yield (
        (f" {number:>5}  ", ""),
        (mark, style),
        (f" {one_line(finding.rule.id)}", "bold"),
        (f"  {message}{place_suffix(where)}", ""),
    )
    if finding.source:
        yield ((f"{'':>9}{one_line(finding.source, _WIDEST)}", "dim"),)
    if finding.waiver is not None:
        yield ((f"{'':>9}{one_line(waiver_text(finding.waiver))}", ""),)
    elif finding.hint and hint:
        yield ((f"{'':>9}{one_line(finding.hint)}", ""),)


def _sentence(text: str) -> str:
    """Capitalized, unless it starts with a name, such as that of a file."""
    first = text.partition(" ")[0].rstrip(",:;")
    return f"{text[:1].upper()}{text[1:]}" if first.isalpha() else text


def _skipped(report: Report) -> Iterator[tuple[Piece, ...]]:
    if not report.skipped:
        return
    yield ((" not fully evaluated", "bold"),)
    for skip in report.skipped:
        text = f"{one_line(skip.rule)}  {one_line(skip.reason)}{place_suffix(skip.where)}"
        yield ((f"        - {text}", ""),)
    yield ()


def _summary_line(inputs: FormatInput) -> str:
    report = inputs.report
    parts = [plural(report.files, "file"), counts_text(report)]
    if report.waived:
        parts.append(f"{report.waived} waived")
    if words := partly_evaluated_text(report):
        parts.append(words if inputs.verbose else f"{words} (details: --verbose)")
    if inputs.seconds is not None:
        parts.append(f"{inputs.seconds:.1f} s")
    return " · ".join(parts)
