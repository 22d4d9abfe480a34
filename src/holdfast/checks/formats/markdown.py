"""For a pull request or a job summary: the verdict first, then a table, then what was not seen."""

from __future__ import annotations

from holdfast.checks.formats.interface import Shown
from holdfast.checks.formats.words import counted, unseen, verdict
from holdfast.checks.interface import Severity
from holdfast.checks.report import Report, Reported
from holdfast.kernel.quoting import cell, code
from holdfast.kernel.workflow_commands import harmless

MOST = 200
"""A comment holds 65,536 characters; a table of so many rows stays below it."""
_ICONS = {Severity.ERROR: "❌", Severity.WARNING: "⚠️", Severity.NOTE: "💬"}
_WIDEST = 160
_ORDER = tuple(Severity)


def show(shown: Shown) -> str:
    report = shown.report
    gravest = next((severity for severity in Severity if report.count(severity)), None)
    icon = _ICONS[gravest] if gravest is not None else "✅"
    lines = [f"### {icon} Checks: {verdict(report)}", "", _counts(report), ""]
    found = sorted(report.counted, key=lambda one: _ORDER.index(one.severity))
    if found:
        lines += ["| | rule | where | what |", "|---|---|---|---|", *map(_row, found[:MOST]), ""]
    if len(found) > MOST:
        lines += [f"… and {counted(len(found) - MOST, 'more finding')}.", ""]
    lines += _waived(report)
    lines += _skipped(report)
    return harmless("\n".join(lines).rstrip("\n")) + "\n"


def _counts(report: Report) -> str:
    parts = [
        counted(report.files, "file"),
        counted(report.stacks, "stack"),
        counted(len(report.rules), "rule"),
    ]
    if report.waived:
        parts.append(f"{report.waived} waived")
    if words := unseen(report):
        parts.append(words)
    return " · ".join(parts)


def _row(one: Reported) -> str:
    what = one.message if one.address is None else f"{one.address}: {one.message}"
    hint = f"<br>{cell(one.hint.replace('`', chr(39)), _WIDEST)}" if one.hint else ""
    said = cell(what.replace("`", "'"), _WIDEST)
    return f"| {_ICONS[one.severity]} | {one.rule.id} | {cell(_where(one), _WIDEST)} | {said}{hint} |"


def _where(one: Reported) -> str:
    if one.file is None:
        return one.stack or "the repository"
    return one.file if one.line is None else f"{one.file}:{one.line}"


def _waived(report: Report) -> list[str]:
    if not report.waived:
        return []
    rows = [
        f"- {one.rule.id} at {code(_where(one), _WIDEST)} until {one.waiver.until}: "
        f"{code(one.waiver.reason.replace('`', chr(39)), _WIDEST)}"
        for one in report.findings
        if one.waiver is not None
    ]
    more = [f"- … and {len(rows) - MOST} more"] if len(rows) > MOST else []
    return ["<details><summary>Waived</summary>", "", *rows[:MOST], *more, "", "</details>", ""]


def _skipped(report: Report) -> list[str]:
    if not report.skipped:
        return []
    rows = [
        f"- {one.rule}: {code(one.reason.replace('`', chr(39)), _WIDEST)}"
        + (f" ({code(where, _WIDEST)})" if (where := one.file or one.stack) else "")
        for one in report.skipped
    ]
    more = [f"- … and {len(rows) - MOST} more"] if len(rows) > MOST else []
    return ["<details><summary>Could not look</summary>", "", *rows[:MOST], *more, "", "</details>", ""]
