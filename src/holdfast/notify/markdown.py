"""The report of a change as Markdown: verdict, action items, a row per stack, folded plans and warnings.

It fits its size budget. Parts are in the order of importance, so the least important ones are omitted; the
report says which, and where to find them.
"""

from __future__ import annotations

import re

from msgspec import Struct

from holdfast.kernel.text import first_names, plural
from holdfast.notify.action_items import (
    NAME_WIDTH,
    TEXT_WIDTH,
    add_action_items,
    own_code,
    status_text,
)
from holdfast.notify.report import (
    SIGNS,
    ChangeReport,
    StackReport,
    Trouble,
    counts_text,
    verdict_line,
    verdict_of_stack,
)
from holdfast.notify.size_budget import UNLIMITED, Page, SizeBudget
from holdfast.system.markup import cell, code, fenced, html_code, prose

_ROWS_SHARE = 0.4
"""Of the budget: reserved for the rows, so that one stack with many deletes does not displace them."""
_FOOTER_SIZE = 2500
_MIN_PLAN = 1200
_MAX_UNCHANGED = 10
_MAX_NAMED = 10
_MAX_FINDINGS = 30
_MAX_WARNINGS = 50
_MAX_WEAKENED = 30
_MAX_ELSEWHERE = 20
_OWN_HEADLINE = re.compile(r"([0-9]{1,6}|[a-z]{1,12})( ([0-9]{1,6}|[a-z]{1,12}))*\Z")


class Frame(Struct, frozen=True, kw_only=True):
    """The parts of a report that do not depend on the change: trusted Markdown."""

    where: str = ""
    """`commit … · run …`"""
    in_full: str = ""
    """Where the full report is: a link, the name of an artifact."""
    next_step: str = ""
    """What people can do with the plan, such as a comment that applies it."""
    end: str = ""
    """The last line: an invisible marker."""


def markdown(report: ChangeReport, budget: SizeBudget = UNLIMITED, frame: Frame | None = None) -> str:
    frame = frame or Frame()
    page = Page(budget, budget.measure(frame.next_step + frame.end) + _FOOTER_SIZE)
    page.add(f"## {verdict_line(report)}")
    omitted = _weakened(page, report)
    page.add(_context(report, frame))
    omitted += _elsewhere(page, report)
    rows = _rows(report)
    reserved = min(_size_of(page, rows), int((budget.size or 0) * _ROWS_SHARE))
    items = omitted + add_action_items(page, report, reserved)
    missing_rows = _table(page, rows)
    items += _findings(page, report)
    missing_plans = _plans(page, report)
    missing_warnings = _warnings(page, report)
    footer = _omission_note(items, missing_rows, missing_plans, missing_warnings, frame.in_full)
    return "\n\n".join(part for part in (page.text(), footer, frame.next_step, frame.end) if part) + "\n"


def _context(report: ChangeReport, frame: Frame) -> str:
    total = counts_text(report.totals)
    parts = [f"**{total}**" if total else "", _plain(report.headline), frame.where]
    return " · ".join(part for part in parts if part) or "No stack was planned."


def _plain(headline: str) -> str:
    """Holdfast's own sentence is not quoted; anything else is."""
    if not headline or _OWN_HEADLINE.match(headline):
        return headline
    return prose(headline, TEXT_WIDTH)


def _weakened(page: Page, report: ChangeReport) -> int:
    """How many do not fit."""
    if not report.weakened:
        return 0
    head = "**⚠️ This change weakens the guard.** It is judged by the rules of its base too.\n"
    shown = report.weakened[:_MAX_WEAKENED]
    page.add("\n".join((head, *(f"- {prose(text, TEXT_WIDTH)}" for text in shown))))
    return len(report.weakened) - len(shown)


def _elsewhere(page: Page, report: ChangeReport) -> int:
    """Stacks with changes in other pull requests: how many do not fit."""
    if not report.elsewhere:
        return 0
    lines = [
        f"- {code(other.stack, NAME_WIDTH)} {'is' if other.open else 'may be'} also changed in "
        f"{other.reference} (planned {prose(other.when, 60)} by {code(other.who, 60)})"
        for other in report.elsewhere[:_MAX_ELSEWHERE]
    ]
    head = "**⚠️ Also changed in other pull requests.** After one is applied, plan the other again.\n"
    page.add("\n".join((head, *lines)))
    return len(report.elsewhere) - len(lines)


# A row for each stack


def _rows(report: ChangeReport) -> list[str]:
    """Many unchanged stacks share the last row."""
    ordered = report.ordered
    unchanged = [stack for stack in ordered if stack.status == "unchanged" and not stack.rules]
    if len(unchanged) <= _MAX_UNCHANGED:
        return [_row(stack) for stack in ordered]
    rows = [_row(stack) for stack in ordered if stack.status != "unchanged" or stack.rules]
    return [*rows, f"| ✅ {len(unchanged)} stacks | | no changes |"]


def _row(stack: StackReport) -> str:
    """Three columns: more do not fit the width of a phone."""
    sign = SIGNS[verdict_of_stack(stack)]
    return f"| {sign} {cell(stack.name, NAME_WIDTH)} | {stack.changes} | {status_text(stack)} |"


_HEAD = "| stack | changes | |\n|---|---|---|"


def _size_of(page: Page, rows: list[str]) -> int:
    return sum(page.size(row) for row in rows) + page.size(_HEAD)


def _table(page: Page, rows: list[str]) -> int:
    """How many rows do not fit."""
    if not rows:
        return 0
    left = page.left()
    shown = rows
    if left is not None and _size_of(page, rows) > left:
        shown = page.fitting(rows, left - page.size(_HEAD))
    if shown:
        page.add("\n".join([_HEAD, *shown]))
    return len(rows) - len(shown)


# What the checks found


def _findings(page: Page, report: ChangeReport) -> int:
    """How many errors do not fit."""
    if not report.findings:
        return 0
    head = f"**Checks:** {report.checks_summary}"
    lines = [_finding(finding) for finding in report.findings[:_MAX_FINDINGS]]
    while not page.add("\n\n".join((head, "\n".join(lines)))) and lines:
        lines.pop()
    return len(report.findings) - len(lines)


def _finding(finding: Trouble) -> str:
    where = f"{code(finding.place, NAME_WIDTH)} " if finding.file is not None else ""
    return f"- {own_code(finding.code)} {where}{prose(finding.message, TEXT_WIDTH)}"


def _warnings(page: Page, report: ChangeReport) -> int:
    """Folded: they do not decide whether to merge. How many do not fit."""
    if report.warnings or (report.checks_summary and not report.findings):
        summary = f"Checks: {report.checks_summary}"
        if report.findings:
            summary = f"Checks: {plural(len(report.warnings), 'warning or note', 'warnings and notes')}"
        lines = [_finding(finding) for finding in report.warnings[:_MAX_WARNINGS]]
        more = len(report.warnings) - len(lines)
        lines += [f"- and {more} more"] if more else []
        if not lines:
            page.add(summary)
        elif not page.add(_details(summary, "\n".join(lines))):
            return len(report.warnings)
    return 0


# Plans, folded


def _plans(page: Page, report: ChangeReport) -> list[str]:
    """The stacks whose plan is omitted or cut."""
    missing = []
    for stack in report.ordered:
        added = _add_plan(page, stack) if stack.diff else True
        if not added or stack.diff_cut:
            missing.append(stack.name)
    return missing


def _add_plan(page: Page, stack: StackReport) -> bool:
    """Whether all of it fits."""
    left = page.left()
    if (left is None or sum(map(len, stack.diff)) < left) and page.add(_folded(stack, list(stack.diff))):
        return True
    left = page.left() or 0
    if left < _MIN_PLAN:
        return False
    chosen = page.fitting(stack.diff, left - page.size(_folded(stack, ["…"])))
    if chosen:
        page.add(_folded(stack, [*chosen, "…"]))
    return False


def _folded(stack: StackReport, lines: list[str]) -> str:
    sign = SIGNS[verdict_of_stack(stack)]
    changes = f" {stack.changes}" if stack.changes else ""
    notes = "" if stack.needs_attention else "".join(f"- {prose(note, TEXT_WIDTH)}\n" for note in stack.notes)
    content = "\n".join(filter(None, (notes, fenced(lines, "diff"))))
    return _details(f"{sign} {html_code(stack.name, NAME_WIDTH)}{changes}", content)


def _details(summary: str, content: str) -> str:
    """Without an empty line after the summary, what follows would not be read as Markdown."""
    return f"<details><summary>{summary}</summary>\n\n{content}\n\n</details>"


# What does not fit


def _omission_note(items: int, rows: int, plans: list[str], warnings: int, in_full: str) -> str:
    parts = []
    if items:
        parts.append(f"**{plural(items, 'more action item')}**")
    if rows:
        parts.append(f"{plural(rows, 'row')} of stacks")
    if plans:
        named = first_names([code(name, 60) for name in plans], _MAX_NAMED)
        parts.append(f"all or part of the plan of {named}")
    if warnings:
        parts.append(plural(warnings, "warning or note", "warnings and notes"))
    if not parts:
        return ""
    where = f" Full report: {in_full}." if in_full else ""
    return f"Omitted to save space: {', '.join(parts)}.{where}"
