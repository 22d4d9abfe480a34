"""What needs a person: errors, what the guard said, what would be lost, and how to go on."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.notify.report import ChangeReport, StackReport, Trouble
from holdfast.notify.size_budget import Page
from holdfast.notify.verdict import SIGNS, verdict_of_stack
from holdfast.system.markup import code, quoted

WIDEST_NAME = 160
WIDEST_TEXT = 700
_WIDEST_ADDRESS = 300
_MOST_ITEMS = 400
_MOST_NAMED = 20
_CODE = re.compile(r"HF-[A-Z]+-[0-9]{1,4}\Z")
_WORDS = {"planned": "ready", "unchanged": "no changes", "waiting": "needs an approval"}
_KNOWN = frozenset({"unknown", "failed", "cancelled", "refused", "locked", "removed", "blocked", "applied"})


def add_concerns(page: Page, report: ChangeReport, kept: int) -> int:
    """Say them, the gravest first. Returns how many found no room; `kept` is not theirs to use."""
    unsaid = _add_troubles(page, report, kept)
    begun = False
    for stack in report.ordered:
        if not stack.needs_a_look:
            continue
        items = list(_items(stack))
        title = "" if begun else "### What needs a person\n\n"
        head = f"{title}{_title(stack)}"
        said_of_it = _fitting(page, head, items, kept)
        if said_of_it is None:
            unsaid += max(1, len(items))
            continue
        begun = True
        page.add("\n".join([head, *said_of_it]))
        unsaid += len(items) - len(said_of_it)
    return unsaid


def _add_troubles(page: Page, report: ChangeReport, kept: int) -> int:
    items = [_trouble(one) for one in report.troubles]
    said_of_it = _fitting(page, "", items, kept) or []
    if said_of_it:
        page.add("\n".join(said_of_it))
    return len(items) - len(said_of_it)


def _fitting(page: Page, head: str, items: list[str], kept: int) -> list[str] | None:
    """As many as there is room for, or None where not even the first finds any."""
    if page.fits("\n".join([head, *items]), kept):
        return items
    left = (page.left(kept) or 0) - page.size(head)
    chosen = []
    for item in items:
        left -= page.size(item)
        if left < 0:
            break
        chosen.append(item)
    return chosen or None


def _title(stack: StackReport) -> str:
    return f"{SIGNS[verdict_of_stack(stack)]} **{code(stack.name, WIDEST_NAME)}** {_stands(stack)}\n"


def _stands(stack: StackReport) -> str:
    environment = code(stack.environment, WIDEST_NAME) if stack.environment else ""
    production = "production" if stack.production else ""
    return " · ".join(part for part in (environment, production, status_text(stack), stack.changes) if part)


def status_text(stack: StackReport) -> str:
    """The status in a word or two."""
    known = stack.status if stack.status in _KNOWN else code(stack.status.replace("|", "│"), WIDEST_NAME)
    return _WORDS.get(stack.status, known)


def _items(stack: StackReport) -> Iterator[str]:
    yield from map(_trouble, stack.troubles)
    lost = {risk.address for risk in stack.risks[:_MOST_ITEMS]}
    spoken: dict[str, dict[str, None]] = {}
    for rule in stack.rules:
        named = f" {quoted(rule.rule, WIDEST_NAME)}" if rule.rule else ""
        if rule.address in lost and named:
            spoken.setdefault(rule.address or "", {})[f"{_code(rule.code)}{named}"] = None
        else:
            yield f"- {_code(rule.code)}{named}{':' if named else ''} {quoted(rule.message, WIDEST_TEXT)}"
    for risk in stack.risks[:_MOST_ITEMS]:
        by = f"<br>{', '.join(spoken[risk.address])}" if risk.address in spoken else ""
        yield f"- {code(risk.address, _WIDEST_ADDRESS)} {quoted(risk.what, WIDEST_TEXT)}{by}"
    if len(stack.risks) > _MOST_ITEMS:
        yield f"- and {len(stack.risks) - _MOST_ITEMS} more of these"
    for address in stack.remains[:_MOST_NAMED]:
        yield f"- still in its state: {code(address, _WIDEST_ADDRESS)}"
    if len(stack.remains) > _MOST_NAMED:
        yield f"- and {len(stack.remains) - _MOST_NAMED} more of these"
    for note in stack.notes:
        yield f"- {quoted(note, WIDEST_TEXT)}"
    if (way := _way_on(stack)) is not None:
        yield way


def _trouble(trouble: Trouble) -> str:
    place = f" {code(_place(trouble.file, trouble.line), _WIDEST_ADDRESS)}" if trouble.file else ""
    hint = f"<br>{quoted(trouble.hint, WIDEST_TEXT)}" if trouble.hint else ""
    return f"- {_code(trouble.code)}{place} {quoted(trouble.message, WIDEST_TEXT)}{hint}"


def _way_on(stack: StackReport) -> str | None:
    """The next command to type."""
    if stack.status == "refused" and stack.decision == "deny":
        command = f'holdfast apply --plan DIR --override {stack.digest or "DIGEST"} --reason "why"'
        before = "" if stack.digest else f"plan with {code('--out DIR')}, then "
        return f"- If this is intentional: {before}{code(command)}"
    if stack.status == "waiting":
        before = "" if stack.digest else f"plan with {code('--out DIR')}, then "
        command = f'holdfast runs approve {stack.run if stack.digest else "RUN"} --reason "why"'
        return f"- To approve: {before}{code(command)}"
    return None


def _place(file: str, line: int | None) -> str:
    return file if line is None else f"{file}:{line}"


def is_ours(text: str) -> bool:
    """Whether it is a code of Holdfast's, which can stand as it is."""
    return _CODE.match(text) is not None


def _code(text: str) -> str:
    return f"**{text}**" if is_ours(text) else code(text, WIDEST_NAME)
