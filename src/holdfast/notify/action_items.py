"""What a person must look at in a report: errors, rules, losses and the next command, each once.

Items that several stacks share are listed once, with the names of the stacks.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from holdfast.kernel.text import first_names, plural
from holdfast.notify.report import SIGNS, ChangeReport, StackReport, Trouble, verdict_of_stack
from holdfast.notify.size_budget import Page
from holdfast.system.markup import cell, code, prose

NAME_WIDTH = 160
TEXT_WIDTH = 700
_ADDRESS_WIDTH = 300
_MAX_ITEMS = 400
_MAX_REMAINING = 20
_MAX_TROUBLES = 20
_MAX_NAMED = 10
_SHORT = 12
"""Characters of a digest: as many as `--override` needs."""
_CODE = re.compile(r"HF-[A-Z]+-[0-9]{1,4}\Z")
_STATUS_TEXTS = {"planned": "ready", "unchanged": "no changes", "waiting": "needs an approval"}
_PLAIN_STATUSES = frozenset(
    {"unknown", "failed", "cancelled", "refused", "locked", "removed", "blocked", "applied"}
)


def add_action_items(page: Page, report: ChangeReport, reserved: int) -> int:
    """The most severe first. Returns how many do not fit; `reserved` stays free for what follows."""
    troubles = [_trouble(trouble) for trouble in report.troubles[:_MAX_TROUBLES]]
    fitting = _items_that_fit(page, "", troubles, reserved) or []
    if fitting:
        page.add("\n".join(fitting))
    omitted = len(report.troubles) - len(fitting)
    started = False
    for stacks, items in _blocks(report):
        title = "" if started else "### Needs attention\n\n"
        head = f"{title}{_title(stacks)}"
        shown = _items_that_fit(page, head, items, reserved)
        if shown is None:
            omitted += max(1, len(items))
            continue
        started = True
        page.add("\n".join([head, *shown]))
        omitted += len(items) - len(shown)
    return omitted


def _blocks(report: ChangeReport) -> Iterator[tuple[list[StackReport], list[str]]]:
    """The items of the same stacks together, and one next step for all of them."""
    stacks = [stack for stack in report.ordered if stack.needs_attention]
    sharing: dict[str, list[StackReport]] = {}
    own: dict[tuple[str, str], str] = {}
    for stack in stacks:
        for general, text in dict(_items(stack)).items():
            sharing.setdefault(general, []).append(stack)
            own[general, stack.name] = text
    blocks: dict[tuple[str, ...], tuple[list[StackReport], list[str]]] = {}
    for general, shared_by in sharing.items():
        item = general if len(shared_by) > 1 else own[general, shared_by[0].name]
        blocks.setdefault(tuple(stack.name for stack in shared_by), (shared_by, []))[1].append(item)
    named = {stack.name for shared_by, _ in blocks.values() for stack in shared_by}
    for stack in stacks:
        if stack.name not in named:
            blocks[(stack.name,)] = ([stack], [])
    for kind in ("refused", "waiting"):
        concerned = [stack for stack in stacks if stack.status == kind]
        if (step := _next_step(report, concerned)) is not None:
            names = tuple(stack.name for stack in concerned)
            blocks.setdefault(names, (concerned, []))[1].append(step)
    yield from blocks.values()


def _items_that_fit(page: Page, head: str, items: list[str], reserved: int) -> list[str] | None:
    """As many as fit, or None if not even the first does."""
    if page.fits("\n".join([head, *items]), reserved):
        return items
    return page.fitting(items, (page.left(reserved) or 0) - page.size(head)) or None


def _title(stacks: Sequence[StackReport]) -> str:
    first = stacks[0]
    sign = SIGNS[verdict_of_stack(first)]
    if len(stacks) > 1:
        names = first_names([code(stack.name, NAME_WIDTH) for stack in stacks], _MAX_NAMED)
        alike = len({stack.status for stack in stacks}) == 1
        return (
            f"{sign} **{plural(len(stacks), 'stack')}**{f' {status_text(first)}' if alike else ''}: {names}\n"
        )
    environment = code(first.environment, NAME_WIDTH) if first.environment else ""
    production = "production" if first.production else ""
    summary = " · ".join(filter(None, (status_text(first), first.changes, environment, production)))
    return f"{sign} **{code(first.name, NAME_WIDTH)}** {summary}\n"


def status_text(stack: StackReport) -> str:
    known = (
        stack.status if stack.status in _PLAIN_STATUSES else code(stack.status.replace("|", "│"), NAME_WIDTH)
    )
    mocks = ", ".join(cell(name, NAME_WIDTH) for name in stack.mocks)
    return f"{_STATUS_TEXTS.get(stack.status, known)}{f', with mocks: {mocks}' if mocks else ''}"


def _items(stack: StackReport) -> Iterator[tuple[str, str]]:
    """Each as it reads for any stack, and as it reads for this one."""
    for trouble in stack.troubles:
        yield _trouble(trouble, _general(stack, trouble.hint)), _trouble(trouble)
    for item in _findings_of_plan(stack):
        yield item, item
    for note in stack.notes:
        yield f"- {prose(_general(stack, note) or note, TEXT_WIDTH)}", f"- {prose(note, TEXT_WIDTH)}"


def _findings_of_plan(stack: StackReport) -> Iterator[str]:
    at_risk = {risk.address for risk in stack.risks[:_MAX_ITEMS]}
    by_address: dict[str, dict[str, None]] = {}
    for rule in stack.rules:
        named = f" {prose(rule.rule, NAME_WIDTH)}" if rule.rule else ""
        if rule.address in at_risk and named:
            by_address.setdefault(rule.address or "", {})[f"{own_code(rule.code)}{named}"] = None
        else:
            yield f"- {own_code(rule.code)}{named}{':' if named else ''} {prose(rule.message, TEXT_WIDTH)}"
    for risk in stack.risks[:_MAX_ITEMS]:
        by = f"<br>{', '.join(by_address[risk.address])}" if risk.address in by_address else ""
        yield f"- {code(risk.address, _ADDRESS_WIDTH)} {prose(risk.what, TEXT_WIDTH)}{by}"
    if len(stack.risks) > _MAX_ITEMS:
        yield f"- and {len(stack.risks) - _MAX_ITEMS} more"
    for address in stack.remains[:_MAX_REMAINING]:
        yield f"- still in the state: {code(address, _ADDRESS_WIDTH)}"
    if len(stack.remains) > _MAX_REMAINING:
        yield f"- and {len(stack.remains) - _MAX_REMAINING} more"


def _general(stack: StackReport, text: str | None) -> str | None:
    """A text with `STACK` for the stack's name in commands: the rest is the same for every stack."""
    command = rf"\b(holdfast (?:[a-z]+ ){{1,2}}){re.escape(stack.name)}(?=[\s.,;)]|\Z)"
    return re.sub(command, r"\1STACK", text) if text else None


def _trouble(trouble: Trouble, hint: str | None = None) -> str:
    place = f" {code(trouble.place, _ADDRESS_WIDTH)}" if trouble.file else ""
    shown = hint or trouble.hint
    after = f"<br>{prose(shown, TEXT_WIDTH)}" if shown else ""
    return f"- {own_code(trouble.code)}{place} {prose(trouble.message, TEXT_WIDTH)}{after}"


def _next_step(report: ChangeReport, stacks: Sequence[StackReport]) -> str | None:
    """The command for all of them; None if they need none."""
    denied = [stack for stack in stacks if stack.status == "waiting" or stack.decision == "deny"]
    if not denied:
        return None
    waiting = denied[0].status == "waiting"
    if report.on_server:
        return _server_step(report, denied, waiting=waiting)
    folder = shlex.quote(report.saved_in) if report.saved_in else "DIR"
    ids = {
        stack.name: str(stack.run) if waiting else _short(report, stack.digest)
        for stack in denied
        if stack.digest and (stack.run or not waiting)
    }
    argument = next(iter(ids.values())) if len(denied) == len(ids) == 1 else "RUN" if waiting else "DIGEST"
    each = [f"{code(name, NAME_WIDTH)} {code(id_)}" for name, id_ in ids.items()] if len(denied) > 1 else []
    if waiting and each and report.saved_in:
        argument, each = f"--bundle {folder}", []
    command = f"runs approve {argument}" if waiting else f"apply --plan {folder} --override {argument}"
    saved = "" if ids else f"plan with {code('--out DIR')}, then "
    intent = "To approve" if waiting else "If this is intentional"
    listed = f"<br>{argument}: {first_names(each, _MAX_NAMED)}" if each else ""
    typed = code(f'holdfast {command} --reason "why"')
    return f"- {intent}: {saved}{typed}{listed}"


def _server_step(report: ChangeReport, stacks: Sequence[StackReport], *, waiting: bool) -> str:
    """The plans are on a server: people apply them with comments, and decide with commands."""
    named = [code(stack.name, NAME_WIDTH) for stack in stacks]
    if report.operation == "plan" and waiting:
        step = f"comment {code('holdfast apply')}. The apply then waits for an approval."
        return f"- To apply {first_names(named, _MAX_NAMED)}: {step}"
    runs = {stack.name: str(stack.run) for stack in stacks if stack.run}
    argument = next(iter(runs.values())) if len(runs) == len(stacks) == 1 else "RUN"
    decide = f'holdfast runs {"approve" if waiting else "override"} {argument} --reason "why" --server'
    if waiting:
        listed = [f"{code(name, NAME_WIDTH)} {code(run)}" for name, run in runs.items()]
        each = f"<br>RUN: {first_names(listed, _MAX_NAMED)}" if argument == "RUN" and listed else ""
        return f"- To approve: {code(decide)}{each}"
    if report.operation != "plan":
        return f"- If this is intentional: {code(decide)}"
    apply = code(f"holdfast apply {stacks[0].name if len(stacks) == 1 else 'STACK'} --server")
    decide = code('holdfast runs override RUN --reason "why" --server')
    return f"- If this is intentional: {apply}, and for the run that then waits: {decide}"


def _short(report: ChangeReport, digest: str | None) -> str:
    """As much of a digest as tells it from the others of the change."""
    digest = digest or ""
    others = {stack.digest for stack in report.stacks if stack.digest} - {digest}
    lengths = range(_SHORT, len(digest))
    return next(
        (digest[:size] for size in lengths if not any(other.startswith(digest[:size]) for other in others)),
        digest,
    )


def is_own_code(text: str) -> bool:
    """Whether it is one of Holdfast's codes, which need no quoting."""
    return _CODE.match(text) is not None


def own_code(text: str) -> str:
    return f"**{text}**" if is_own_code(text) else code(text, NAME_WIDTH)
