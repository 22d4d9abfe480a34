"""For a terminal: the most severe rules first, each with its findings by folder and what to do.

A few findings are shown one per line. Of many, each folder has one line, and only the first folders of a rule
are shown: the rest is counted.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from holdfast.checks.formats.grouping import FEW, RuleGroup, group_findings
from holdfast.checks.formats.interface import (
    FormatInput,
    counts_text,
    partly_evaluated_text,
    place_suffix,
    place_text,
    uncounted_texts,
    waiver_text,
)
from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Novelty, Report, ReportedFinding
from holdfast.kernel.text import plural
from holdfast.system.markup import one_line

MARKS = {Severity.ERROR: "✗", Severity.WARNING: "!", Severity.NOTE: "·"}
_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.NOTE: "cyan"}
_NOVELTY = {Novelty.KNOWN: "known (baseline)", Novelty.EXISTING: "existing (not from this change)"}
_WIDEST = 72
_WIDEST_PLACE = 44


Piece = tuple[str, str]
"""Text and its style."""
Line = tuple[Piece, ...]


def render(inputs: FormatInput) -> str:
    return "".join("".join(text for text, _ in line) + "\n" for line in lines(inputs))


def lines(inputs: FormatInput) -> Iterator[Line]:
    yield from finding_lines(inputs)
    yield ((f" {_summary_line(inputs)}", ""),)


def finding_lines(inputs: FormatInput) -> Iterator[Line]:
    """Without the summary line."""
    report, full = inputs.report, inputs.full or inputs.verbose
    few = full or len(report.active) <= FEW
    for group in group_findings(report.findings if inputs.verbose else report.active, few=few):
        yield from _full_group(group) if full else _group(group)
    if not few:
        once = (
            "" if report.compared else " To count only new ones from now on: holdfast check --baseline write"
        )
        yield ((f" Findings are grouped by folder. To see all of them, add --full.{once}", "bold"),)
        yield ()
    if inputs.verbose:
        yield from _skipped(report)


def _group(group: RuleGroup) -> Iterator[Line]:
    """One rule: its title, a line for each shown finding, and below several with the same hint, the hint."""
    yield _title(group)
    shown = [finding for finding, _ in group.shown]
    width = max(len(one_line(place_text(finding))) for finding in shown)
    width = width if width <= _WIDEST_PLACE else 0
    hints: set[str] = set()
    for (finding, more), following in itertools.zip_longest(group.shown, shown[1:]):
        yield _line(finding, width, f"  (+{more} in this folder)" if more else "")
        hint = finding.hint or ""
        last = following is None or following.hint != hint
        if hint and hint not in hints and last and not group.left:
            yield ((f"       {one_line(hint)}", "dim"),)
            hints.add(hint)
    if group.left:
        yield ((f"     … {group.left}", "dim"),)
        yield ((f"       {one_line(group.first.hint or group.first.rule.fix)}", "dim"),)
    yield ()


def _full_group(group: RuleGroup) -> Iterator[Line]:
    """Every finding with its line of code; the hint where it differs from the one above."""
    yield _title(group)
    hint: str | None = None
    for finding in group.findings:
        yield _line(finding, 0, "")
        if finding.source:
            yield ((f"         {one_line(finding.source, _WIDEST)}", "dim"),)
        if finding.waiver is not None:
            yield ((f"         {one_line(waiver_text(finding.waiver))}", ""),)
        elif finding.novelty in _NOVELTY:
            yield ((f"         {_NOVELTY[finding.novelty]}", ""),)
        elif finding.hint and finding.hint != hint:
            yield ((f"         {one_line(finding.hint)}", ""),)
            hint = finding.hint
    yield ()


def _title(group: RuleGroup) -> Line:
    first, number = group.first, len(group.findings)
    mark, style = (MARKS[first.severity], _STYLES[first.severity]) if first.active else ("~", "dim")
    count = f"  ({number})" if number > 1 else ""
    rule = first.rule
    title = "" if rule.title == rule.id else f"  {one_line(rule.title)}"
    return ((" ", ""), (mark, style), (f" {one_line(rule.id)}{title}", "bold"), (count, "dim"))


def _line(finding: ReportedFinding, width: int, more: str) -> Line:
    about = place_suffix(finding.address if (finding.address or "") not in finding.message else None)
    message = _sentence(one_line(finding.message))
    return (
        (f"     {one_line(place_text(finding)):<{width}}  ", ""),
        (f"{message}{about}", ""),
        (more, "dim"),
    )


def _sentence(text: str) -> str:
    """Capitalized, unless it starts with a name, such as that of a file."""
    first = text.partition(" ")[0].rstrip(",:;")
    return f"{text[:1].upper()}{text[1:]}" if first.isalpha() else text


def _skipped(report: Report) -> Iterator[Line]:
    if not report.skipped:
        return
    yield ((" not fully evaluated", "bold"),)
    for skip in report.skipped:
        text = f"{one_line(skip.rule)}  {one_line(skip.reason)}{place_suffix(skip.where)}"
        yield ((f"        - {text}", ""),)
    yield ()


def _summary_line(inputs: FormatInput) -> str:
    report = inputs.report
    parts = [plural(report.files, "file"), counts_text(report), *uncounted_texts(report)]
    if words := partly_evaluated_text(report):
        parts.append(words if inputs.verbose else f"{words} (details: --verbose)")
    if inputs.seconds is not None:
        parts.append(f"{inputs.seconds:.1f} s")
    return " · ".join(parts)
