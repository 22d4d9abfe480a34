"""For a pull request or a job summary: counts, a table of findings, and what was not evaluated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.checks.formats.grouping import FEW, RuleGroup, group_findings
from holdfast.checks.formats.interface import (
    FormatInput,
    counts_text,
    partly_evaluated_text,
    place_text,
    uncounted_texts,
)
from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Report, ReportedFinding
from holdfast.kernel.patterns import pattern
from holdfast.kernel.text import plural
from holdfast.system.markup import cell, code, escape_commands

_ROOM = 40_000
_ROOM_ASIDE = 10_000
"""Characters for the findings, and for waivers and skips: a comment holds 65,536."""
_ICONS = {Severity.ERROR: "❌", Severity.WARNING: "⚠️", Severity.NOTE: "💬"}
_WIDEST = 160
_PLAIN = pattern(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def render(inputs: FormatInput) -> str:
    report = inputs.report
    most_severe = next((severity for severity in Severity if report.count(severity)), None)
    icon = _ICONS[most_severe] if most_severe is not None else "✅"
    lines = [f"### {icon} Checks: {counts_text(report)}", "", _counts(report), ""]
    few = len(report.active) <= FEW
    all_rows = [row for group in group_findings(report.active, few=few) for row in _rows(group)]
    rows = _fit(_ROOM, all_rows)
    if rows:
        lines += ["| | rule | where | what |", "|---|---|---|---|", *rows, ""]
    if not few or len(rows) < len(all_rows):
        lines += ["Not every finding is shown. All of them: `holdfast check --full`", ""]
    lines += _waived(report)
    lines += _skipped(report)
    return escape_commands("\n".join(lines).rstrip("\n")) + "\n"


def _counts(report: Report) -> str:
    parts = [plural(report.files, "file"), plural(report.stacks, "stack"), plural(len(report.rules), "rule")]
    parts += uncounted_texts(report)
    if words := partly_evaluated_text(report):
        parts.append(words)
    return " · ".join(parts)


def _rows(group: RuleGroup) -> Iterator[str]:
    for finding, more in group.shown:
        yield _row(finding, f" (+{more} in this folder)" if more else "")
    if group.left:
        yield f"| {_ICONS[group.first.severity]} | {_id(group.first.rule.id)} | … | {group.left} |"


def _row(finding: ReportedFinding, more: str) -> str:
    what = finding.message if finding.address is None else f"{finding.address}: {finding.message}"
    hint = f"<br>{cell(finding.hint.replace('`', chr(39)), _WIDEST)}" if finding.hint else ""
    text = cell(what.replace("`", "'"), _WIDEST)
    where = cell(place_text(finding), _WIDEST)
    return f"| {_ICONS[finding.severity]} | {_id(finding.rule.id)} | {where}{more} | {text}{hint} |"


def _id(rule: str) -> str:
    """Ids of external tools are untrusted text."""
    return rule if _PLAIN.fullmatch(rule) else cell(rule, _WIDEST)


def _waived(report: Report) -> list[str]:
    rows = (
        f"- {_id(finding.rule.id)} at {code(place_text(finding), _WIDEST)} until {finding.waiver.until}: "
        f"{code(finding.waiver.reason.replace('`', chr(39)), _WIDEST)}"
        for finding in report.findings
        if finding.waiver is not None
    )
    return _details("Waived", rows, report.waived)


def _skipped(report: Report) -> list[str]:
    rows = (
        f"- {_id(skip.rule)}: {code(skip.reason.replace('`', chr(39)), _WIDEST)}"
        + (f" ({code(skip.where, _WIDEST)})" if skip.where else "")
        for skip in report.skipped
    )
    return _details("Not fully evaluated", rows, len(report.skipped))


def _details(title: str, rows: Iterable[str], number: int) -> list[str]:
    if not number:
        return []
    shown_rows = _fit(_ROOM_ASIDE, rows)
    more = [f"- … and {number - len(shown_rows)} more"] if len(shown_rows) < number else []
    return [f"<details><summary>{title}</summary>", "", *shown_rows, *more, "", "</details>", ""]


def _fit(room: int, rows: Iterable[str]) -> list[str]:
    """As many rows as fit."""
    fitting: list[str] = []
    for row in rows:
        room -= len(row) + 1
        if room < 0:
            break
        fitting.append(row)
    return fitting
