"""The report of a change as Markdown: verdict, action items, a row per stack, folded plans.

It fits its size budget. Parts are in the order of importance, so the least important ones are omitted; the
report says which, and where to find them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from holdfast.kernel.text import first_names, plural
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
from holdfast.system.markup import cell, code, fenced, html_code, quoted

_ROWS_SHARE = 0.4
"""Of the budget: reserved for the rows, so that one stack with many deletes does not displace them."""
_FOOTER_SIZE = 2500
_MIN_PLAN = 1200
_MAX_UNCHANGED = 10
_MAX_NAMED = 10
_MAX_CODES = 3
_MAX_FINDINGS = 30
_MAX_WEAKENED = 30
_OWN_HEADLINE = re.compile(r"([0-9]{1,6}|[a-z]{1,12})( ([0-9]{1,6}|[a-z]{1,12}))*\Z")


class Frame(Struct, frozen=True, kw_only=True):
    """The parts of a report that do not depend on the change: trusted Markdown."""

    where: str = ""
    """`commit … · run …`"""
    in_full: str = ""
    """Where the full report is: a link, the name of an artifact."""
    end: str = ""
    """The last line: an invisible marker."""


def markdown(report: ChangeReport, budget: SizeBudget = UNLIMITED, frame: Frame | None = None) -> str:
    frame = frame or Frame()
    page = Page(budget, budget.measure(frame.end) + _FOOTER_SIZE)
    page.add(f"## {verdict_line(report)}")
    omitted = _weakened(page, report)
    page.add(_context(report, frame))
    rows = _rows(report)
    reserved = min(_size_of(page, rows), int((budget.size or 0) * _ROWS_SHARE))
    items = omitted + add_action_items(page, report, reserved)
    missing_rows = _table(page, rows)
    items += _findings(page, report)
    missing_plans = _plans(page, report)
    footer = _omitted(items, missing_rows, missing_plans, frame.in_full)
    return "\n\n".join(part for part in (page.text(), footer, frame.end) if part) + "\n"


def _context(report: ChangeReport, frame: Frame) -> str:
    total = counts_text(report.totals)
    parts = [f"**{total}**" if total else "", _plain(report.headline), frame.where]
    return " · ".join(part for part in parts if part) or "No stack was planned."


def _plain(headline: str) -> str:
    """Holdfast's own sentence is not quoted; anything else is."""
    if not headline or _OWN_HEADLINE.match(headline):
        return headline
    return quoted(headline, TEXT_WIDTH)


def _weakened(page: Page, report: ChangeReport) -> int:
    """How many do not fit."""
    if not report.weakened:
        return 0
    head = "**⚠️ This change weakens the guard.** It is judged by the rules of its base too.\n"
    shown = report.weakened[:_MAX_WEAKENED]
    page.add("\n".join((head, *(f"- {quoted(text, TEXT_WIDTH)}" for text in shown))))
    return len(report.weakened) - len(shown)


# A row for each stack


def _rows(report: ChangeReport) -> list[str]:
    """Many unchanged stacks share the last row."""
    ordered = report.ordered
    unchanged = [stack for stack in ordered if stack.status == "unchanged" and not stack.rules]
    if len(unchanged) <= _MAX_UNCHANGED:
        return [_row(stack) for stack in ordered]
    rows = [_row(stack) for stack in ordered if stack.status != "unchanged" or stack.rules]
    return [*rows, f"| ✅ | {len(unchanged)} stacks | | no changes |"]


def _row(stack: StackReport) -> str:
    return (
        f"| {SIGNS[verdict_of_stack(stack)]} | {cell(stack.name, NAME_WIDTH)} "
        f"| {stack.changes} | {_status_cell(stack)} |"
    )


def _status_cell(stack: StackReport) -> str:
    codes = dict.fromkeys(
        [*(rule.code for rule in stack.rules), *(trouble.code for trouble in stack.troubles)]
    )
    return " ".join([status_text(stack), *list(filter(is_own_code, codes))[:_MAX_CODES]])


_HEAD = "| | stack | changes | |\n|---|---|---|---|"


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
    if not report.checks_summary:
        return 0
    head = f"**Checks:** {report.checks_summary}"
    lines = [_finding("⛔", finding) for finding in report.findings]
    lines = [*lines, *(_finding("⚠️", finding) for finding in report.warnings)][:_MAX_FINDINGS]
    while not page.add("\n\n".join(part for part in (head, "\n".join(lines)) if part)) and lines:
        lines.pop()
    return max(0, len(report.findings) - len(lines))


def _finding(sign: str, finding: Trouble) -> str:
    where = f"{code(finding.place, NAME_WIDTH)} " if finding.file is not None else ""
    return f"- {sign} {code(finding.code, NAME_WIDTH)} {where}{quoted(finding.message, TEXT_WIDTH)}"


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
    head = f"<details><summary>{sign} {html_code(stack.name, NAME_WIDTH)}{changes}</summary>"
    return f"{head}\n\n{fenced(lines, 'diff')}\n\n</details>"


# What does not fit


def _omitted(items: int, rows: int, plans: list[str], in_full: str) -> str:
    parts = []
    if items:
        parts.append(f"**{plural(items, 'more action item')}**")
    if rows:
        parts.append(f"{plural(rows, 'row')} of stacks")
    if plans:
        named = first_names([code(name, 60) for name in plans], _MAX_NAMED)
        parts.append(f"all or part of the plan of {named}")
    if not parts:
        return ""
    where = f" Full report: {in_full}." if in_full else ""
    return f"Omitted to save space: {', '.join(parts)}.{where}"


NAME_WIDTH = 160
TEXT_WIDTH = 700
_ADDRESS_WIDTH = 300
_MAX_ITEMS = 400
_MAX_REMAINING = 20
_CODE = re.compile(r"HF-[A-Z]+-[0-9]{1,4}\Z")
_STATUS_TEXTS = {"planned": "ready", "unchanged": "no changes", "waiting": "needs an approval"}
_PLAIN_STATUSES = frozenset(
    {"unknown", "failed", "cancelled", "refused", "locked", "removed", "blocked", "applied"}
)


def add_action_items(page: Page, report: ChangeReport, reserved: int) -> int:
    """The most severe first. Returns how many do not fit; `reserved` stays free for what follows."""
    troubles = [_trouble(trouble) for trouble in report.troubles]
    fitting = _fitting(page, "", troubles, reserved) or []
    if fitting:
        page.add("\n".join(fitting))
    omitted = len(troubles) - len(fitting)
    started = False
    for stack in report.ordered:
        if not stack.needs_attention:
            continue
        items = list(_items(stack))
        title = "" if started else "### Needs attention\n\n"
        head = f"{title}{_title(stack)}"
        shown = _fitting(page, head, items, reserved)
        if shown is None:
            omitted += max(1, len(items))
            continue
        started = True
        page.add("\n".join([head, *shown]))
        omitted += len(items) - len(shown)
    return omitted


def _fitting(page: Page, head: str, items: list[str], reserved: int) -> list[str] | None:
    """As many as fit, or None if not even the first does."""
    if page.fits("\n".join([head, *items]), reserved):
        return items
    return page.fitting(items, (page.left(reserved) or 0) - page.size(head)) or None


def _title(stack: StackReport) -> str:
    environment = code(stack.environment, NAME_WIDTH) if stack.environment else ""
    production = "production" if stack.production else ""
    summary = " · ".join(filter(None, (environment, production, status_text(stack), stack.changes)))
    return f"{SIGNS[verdict_of_stack(stack)]} **{code(stack.name, NAME_WIDTH)}** {summary}\n"


def status_text(stack: StackReport) -> str:
    known = (
        stack.status if stack.status in _PLAIN_STATUSES else code(stack.status.replace("|", "│"), NAME_WIDTH)
    )
    mocks = (
        f", with mocks: {', '.join(code(name, NAME_WIDTH) for name in stack.mocks)}" if stack.mocks else ""
    )
    return f"{_STATUS_TEXTS.get(stack.status, known)}{mocks}"


def _items(stack: StackReport) -> Iterator[str]:
    yield from map(_trouble, stack.troubles)
    at_risk = {risk.address for risk in stack.risks[:_MAX_ITEMS]}
    by_address: dict[str, dict[str, None]] = {}
    for rule in stack.rules:
        named = f" {quoted(rule.rule, NAME_WIDTH)}" if rule.rule else ""
        if rule.address in at_risk and named:
            by_address.setdefault(rule.address or "", {})[f"{_code(rule.code)}{named}"] = None
        else:
            yield f"- {_code(rule.code)}{named}{':' if named else ''} {quoted(rule.message, TEXT_WIDTH)}"
    for risk in stack.risks[:_MAX_ITEMS]:
        by = f"<br>{', '.join(by_address[risk.address])}" if risk.address in by_address else ""
        yield f"- {code(risk.address, _ADDRESS_WIDTH)} {quoted(risk.what, TEXT_WIDTH)}{by}"
    if len(stack.risks) > _MAX_ITEMS:
        yield f"- and {len(stack.risks) - _MAX_ITEMS} more"
    for address in stack.remains[:_MAX_REMAINING]:
        yield f"- still in the state: {code(address, _ADDRESS_WIDTH)}"
    if len(stack.remains) > _MAX_REMAINING:
        yield f"- and {len(stack.remains) - _MAX_REMAINING} more"
    for note in stack.notes:
        yield f"- {quoted(note, TEXT_WIDTH)}"
    if (step := _next_step(stack)) is not None:
        yield step


def _trouble(trouble: Trouble) -> str:
    place = f" {code(trouble.place, _ADDRESS_WIDTH)}" if trouble.file else ""
    hint = f"<br>{quoted(trouble.hint, TEXT_WIDTH)}" if trouble.hint else ""
    return f"- {_code(trouble.code)}{place} {quoted(trouble.message, TEXT_WIDTH)}{hint}"


def _next_step(stack: StackReport) -> str | None:
    if stack.status == "refused" and stack.decision == "deny":
        command = f'holdfast apply --plan DIR --override {stack.digest or "DIGEST"} --reason "why"'
        before = "" if stack.digest else f"plan with {code('--out DIR')}, then "
        return f"- If this is intentional: {before}{code(command)}"
    if stack.status == "waiting":
        before = "" if stack.digest else f"plan with {code('--out DIR')}, then "
        command = f'holdfast runs approve {stack.run if stack.digest else "RUN"} --reason "why"'
        return f"- To approve: {before}{code(command)}"
    return None


def is_own_code(text: str) -> bool:
    """Whether it is one of Holdfast's codes, which need no quoting."""
    return _CODE.match(text) is not None


def _code(text: str) -> str:
    return f"**{text}**" if is_own_code(text) else code(text, NAME_WIDTH)
