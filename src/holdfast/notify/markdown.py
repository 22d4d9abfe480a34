"""The report of a change as Markdown: the verdict, what needs a person, a row per stack, plans folded.

It fits the room it is given. What is left out is named, and where it stands in full. The order is that of
importance, so that what is cut is always the least important part.
"""

from __future__ import annotations

import re

from msgspec import Struct

from holdfast.notify.action_items import WIDEST_NAME, WIDEST_TEXT, add_concerns, is_ours, status_text
from holdfast.notify.report import ChangeReport, StackReport, Trouble, counts_text
from holdfast.notify.size_budget import ANYWHERE, Page, Room
from holdfast.notify.verdict import SIGNS, verdict_line, verdict_of_stack
from holdfast.system.markup import cell, code, fenced, html_code, quoted

_ROWS_SHARE = 0.4
"""Of all room: the rows of stacks are not crowded out by one stack's many deletes."""
_LAST_WORDS = 2500
_SMALLEST_PLAN = 1200
_MOST_UNCHANGED = 10
_MOST_NAMED = 10
_MOST_CODES = 3
_MOST_FINDINGS = 30
_OUR_WORDS = re.compile(r"([0-9]{1,6}|[a-z]{1,12})( ([0-9]{1,6}|[a-z]{1,12}))*\Z")


class Surroundings(Struct, frozen=True, kw_only=True):
    """What of the report is not of the change: made by us, and already Markdown."""

    where: str = ""
    """`commit … · run …`"""
    in_full: str = ""
    """Where all of it is: a link, the name of an artefact."""
    end: str = ""
    """The last line: a marker that nobody sees."""


def markdown(report: ChangeReport, room: Room = ANYWHERE, around: Surroundings | None = None) -> str:
    around = around or Surroundings()
    page = Page(room, room.measure(around.end) + _LAST_WORDS)
    page.add(f"## {verdict_line(report)}")
    page.add(_context(report, around))
    rows = _rows(report)
    kept = min(_size_of(page, rows), int((room.size or 0) * _ROWS_SHARE))
    unsaid = add_concerns(page, report, kept)
    missing_rows = _table(page, rows)
    unsaid += _findings(page, report)
    missing_plans = _plans(page, report)
    last = _left_out(unsaid, missing_rows, missing_plans, around.in_full)
    return "\n\n".join(part for part in (page.text(), last, around.end) if part) + "\n"


def _context(report: ChangeReport, around: Surroundings) -> str:
    total = counts_text(report.totals)
    parts = [f"**{total}**" if total else "", _plain(report.headline), around.where]
    return " · ".join(part for part in parts if part) or "No stack was looked at."


def _plain(headline: str) -> str:
    """Our own sentence with numbers; should it ever be anything else, it is code."""
    if not headline or _OUR_WORDS.match(headline):
        return headline
    return quoted(headline, WIDEST_TEXT)


# A row for each stack


def _rows(report: ChangeReport) -> list[str]:
    """Many stacks in which nothing changes share the last one."""
    ordered = report.ordered
    quiet = [stack for stack in ordered if stack.status == "unchanged" and not stack.rules]
    if len(quiet) <= _MOST_UNCHANGED:
        return [_row(stack) for stack in ordered]
    rows = [_row(stack) for stack in ordered if stack.status != "unchanged" or stack.rules]
    return [*rows, f"| ✅ | {len(quiet)} stacks | | no changes |"]


def _row(stack: StackReport) -> str:
    return (
        f"| {SIGNS[verdict_of_stack(stack)]} | {cell(stack.name, WIDEST_NAME)} "
        f"| {stack.changes} | {_status_cell(stack)} |"
    )


def _status_cell(stack: StackReport) -> str:
    codes = dict.fromkeys([*(one.code for one in stack.rules), *(one.code for one in stack.troubles)])
    return " ".join([status_text(stack), *list(filter(is_ours, codes))[:_MOST_CODES]])


_HEAD = "| | stack | changes | |\n|---|---|---|---|"


def _size_of(page: Page, rows: list[str]) -> int:
    return sum(page.size(row) for row in rows) + page.size(_HEAD)


def _table(page: Page, rows: list[str]) -> int:
    """How many rows found no room."""
    if not rows:
        return 0
    left = page.left()
    shown = rows
    if left is not None and _size_of(page, rows) > left:
        shown = []
        left -= page.size(_HEAD)
        for row in rows:
            left -= page.size(row)
            if left < 0:
                break
            shown.append(row)
    if shown:
        page.add("\n".join([_HEAD, *shown]))
    return len(rows) - len(shown)


# What the checks found


def _findings(page: Page, report: ChangeReport) -> int:
    """How many errors found no room."""
    if not report.found:
        return 0
    head = f"**Checks:** {report.found}"
    lines = [_finding("⛔", one) for one in report.findings]
    lines = [*lines, *(_finding("⚠️", one) for one in report.warnings)][:_MOST_FINDINGS]
    while not page.add("\n\n".join(part for part in (head, "\n".join(lines)) if part)) and lines:
        lines.pop()
    return max(0, len(report.findings) - len(lines))


def _finding(sign: str, one: Trouble) -> str:
    where = f"{code(_place(one), WIDEST_NAME)} " if one.file is not None else ""
    return f"- {sign} {code(one.code, WIDEST_NAME)} {where}{quoted(one.message, WIDEST_TEXT)}"


def _place(one: Trouble) -> str:
    return f"{one.file}:{one.line}" if one.line is not None else str(one.file)


# Plans, folded


def _plans(page: Page, report: ChangeReport) -> list[str]:
    """The names of stacks whose plan is missing or cut."""
    missing = []
    for stack in report.ordered:
        added = _add_plan(page, stack) if stack.diff else True
        if not added or stack.diff_cut:
            missing.append(stack.name)
    return missing


def _add_plan(page: Page, stack: StackReport) -> bool:
    """Whether all of it found room."""
    left = page.left()
    if (left is None or sum(map(len, stack.diff)) < left) and page.add(_folded(stack, list(stack.diff))):
        return True
    cut = _cut(page, stack)
    if cut is not None:
        page.add(cut)
    return False


def _cut(page: Page, stack: StackReport) -> str | None:
    left = page.left() or 0
    if left < _SMALLEST_PLAN:
        return None
    left -= page.size(_folded(stack, ["…"]))
    chosen = []
    for line in stack.diff:
        left -= page.size(line)
        if left < 0:
            break
        chosen.append(line)
    cut = _folded(stack, [*chosen, "…"])
    return cut if chosen and page.fits(cut) else None


def _folded(stack: StackReport, lines: list[str]) -> str:
    sign = SIGNS[verdict_of_stack(stack)]
    changes = f" {stack.changes}" if stack.changes else ""
    head = f"<details><summary>{sign} {html_code(stack.name, WIDEST_NAME)}{changes}</summary>"
    return f"{head}\n\n{fenced(lines, 'diff')}\n\n</details>"


# What found no room


def _left_out(unsaid: int, rows: int, plans: list[str], in_full: str) -> str:
    parts = []
    if unsaid:
        parts.append(f"**{unsaid} more things that need a person**")
    if rows:
        parts.append(f"{rows} rows of stacks")
    if plans:
        named = ", ".join(code(name, 60) for name in plans[:_MOST_NAMED])
        more = f" and {len(plans) - _MOST_NAMED} more" if len(plans) > _MOST_NAMED else ""
        parts.append(f"all or part of the plan of {named}{more}")
    if not parts:
        return ""
    where = f" In full: {in_full}." if in_full else ""
    return f"Left out for want of room: {', '.join(parts)}.{where}"
