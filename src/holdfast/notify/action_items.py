"""Action items: errors, the guard's reasons, what would be deleted, and the next command."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.notify.report import SIGNS, ChangeReport, StackReport, Trouble, verdict_of_stack
from holdfast.notify.size_budget import Page
from holdfast.system.markup import code, quoted

NAME_WIDTH = 160
TEXT_WIDTH = 700
_ADDRESS_WIDTH = 300
_MAX_ITEMS = 400
_MAX_NAMED = 20
_CODE = re.compile(r"HF-[A-Z]+-[0-9]{1,4}\Z")
_STATUS_TEXTS = {"planned": "ready", "unchanged": "no changes", "waiting": "needs an approval"}
_PLAIN_STATUSES = frozenset(
    {"unknown", "failed", "cancelled", "refused", "locked", "removed", "blocked", "applied"}
)


def add_action_items(page: Page, report: ChangeReport, reserved: int) -> int:
    """The most severe first. Returns how many do not fit; `reserved` stays free for what follows."""
    omitted = _add_troubles(page, report, reserved)
    started = False
    for stack in report.ordered:
        if not stack.needs_attention:
            continue
        items = list(_items(stack))
        title = "" if started else "### Needs attention\n\n"
        head = f"{title}{_title(stack)}"
        fitting = _fitting(page, head, items, reserved)
        if fitting is None:
            omitted += max(1, len(items))
            continue
        started = True
        page.add("\n".join([head, *fitting]))
        omitted += len(items) - len(fitting)
    return omitted


def _add_troubles(page: Page, report: ChangeReport, reserved: int) -> int:
    items = [_trouble(trouble) for trouble in report.troubles]
    fitting = _fitting(page, "", items, reserved) or []
    if fitting:
        page.add("\n".join(fitting))
    return len(items) - len(fitting)


def _fitting(page: Page, head: str, items: list[str], reserved: int) -> list[str] | None:
    """As many as fit, or None if not even the first does."""
    if page.fits("\n".join([head, *items]), reserved):
        return items
    return page.fitting(items, (page.left(reserved) or 0) - page.size(head)) or None


def _title(stack: StackReport) -> str:
    return f"{SIGNS[verdict_of_stack(stack)]} **{code(stack.name, NAME_WIDTH)}** {_summary(stack)}\n"


def _summary(stack: StackReport) -> str:
    environment = code(stack.environment, NAME_WIDTH) if stack.environment else ""
    production = "production" if stack.production else ""
    return " · ".join(part for part in (environment, production, status_text(stack), stack.changes) if part)


def status_text(stack: StackReport) -> str:
    known = (
        stack.status if stack.status in _PLAIN_STATUSES else code(stack.status.replace("|", "│"), NAME_WIDTH)
    )
    return _STATUS_TEXTS.get(stack.status, known)


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
    for address in stack.remains[:_MAX_NAMED]:
        yield f"- still in the state: {code(address, _ADDRESS_WIDTH)}"
    if len(stack.remains) > _MAX_NAMED:
        yield f"- and {len(stack.remains) - _MAX_NAMED} more"
    for note in stack.notes:
        yield f"- {quoted(note, TEXT_WIDTH)}"
    if (step := _next_step(stack)) is not None:
        yield step


def _trouble(trouble: Trouble) -> str:
    place = f" {code(trouble.place, _ADDRESS_WIDTH)}" if trouble.file else ""
    hint = f"<br>{quoted(trouble.hint, TEXT_WIDTH)}" if trouble.hint else ""
    return f"- {_code(trouble.code)}{place} {quoted(trouble.message, TEXT_WIDTH)}{hint}"


def _next_step(stack: StackReport) -> str | None:
    """The next command."""
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
