"""`holdfast state mv` and `state rm`: show what changes in the states, ask, and write them."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from msgspec import Struct

from holdfast.cli.command import Invocation, fields
from holdfast.cli.confirmation import confirm, require_terminal
from holdfast.cli.context import CommandContext
from holdfast.cli.states.changes import answer_unchanged, override_from
from holdfast.cli.views.state import resources_text, show_changes
from holdfast.kernel.errors import Exit
from holdfast.kernel.text import plural
from holdfast.plans.context import ChangeContext
from holdfast.states import edits
from holdfast.states.edits import Edit, Request, Written, removal, require_address
from holdfast.states.moves import Move
from holdfast.states.rollback import compare
from holdfast.states.surgery import Override, require_allowed
from holdfast.terraform.statefile.model import read_contents

_SHOWN = 20
Done = tuple[Edit, tuple[Written, ...]]


class Decisions(Struct, frozen=True):
    """What the user decided on the command line. A reason is recorded with and without an override."""

    digest: str | None
    reason: str | None
    yes: bool

    @property
    def override(self) -> Override | None:
        return override_from(self.digest, self.reason) if self.digest is not None else None


def run_rm(invocation: Invocation, name: str, addresses: tuple[str, ...], decisions: Decisions) -> Exit:
    context = CommandContext(invocation)
    for address in addresses:
        require_address(address)
    stack = context.repository.stack(name)
    request = Request(
        stacks=(stack,),
        compute=removal(addresses),
        command=shlex.join(("holdfast", "state", "rm", stack.name, *addresses)),
        override=decisions.override,
        reason=decisions.reason,
    )

    def show(change_context: ChangeContext, edit: Edit) -> None:
        invocation.console.say(f" Remove from the state of {stack.name}:")
        (change,), engines, redactor = edit.changes, change_context.engines, change_context.redactor
        show_changes(invocation.console, compare(engines, redactor, stack, change.before, change.after))

    question = "The resources themselves stay, and nothing manages them any more. Remove them?"
    edit, written = _run(invocation, context, request, show, question, yes=decisions.yes)
    if not written:
        return answer_unchanged(invocation, stack)
    left = read_contents(edit.changes[0].after).current
    removed = [address for address in read_contents(edit.changes[0].before).current if address not in left]
    return invocation.answer(
        {"version": 1, **_document(written[0]), "removed": removed, "reason": decisions.reason},
        f" Removed {plural(len(removed), 'resource')} from the state of {stack.name}.",
        _text(written[0]),
        "   Remove them from the code too: the next plan would create again what it still declares.",
        f"   To undo this: holdfast state rollback {stack.name} {written[0].backup}",
        f"   Next: holdfast plan {stack.name}",
    )


def run_mv(
    invocation: Invocation, name: str, other: str, address: str, target: str, decisions: Decisions
) -> Exit:
    console, context = invocation.console, CommandContext(invocation)
    for given in (address, target):
        require_address(given)
    source, destination = context.repository.stack(name), context.repository.stack(other)
    move = Move(source=source, destination=destination, address=address, target=target)
    to: tuple[str, ...] = ()
    where = f"in the state of {source.name}"
    if len(move.stacks) > 1:
        to, where = ("--to", destination.name), f"from {source.name} to {destination.name}"
    request = Request(
        stacks=move.stacks,
        compute=move.compute,
        command=shlex.join(("holdfast", "state", "mv", source.name, address, target, *to)),
        override=decisions.override,
        reason=decisions.reason,
        details={"from": source.name, "to": destination.name},
    )
    notes: list[str] = []

    def show(change_context: ChangeContext, edit: Edit) -> None:
        console.say(f" Move {plural(len(edit.moved), 'resource')} {where}:")
        for old, new, deposed in edit.moved[:_SHOWN]:
            console.say(("   → ", "cyan"), f"{old}  to  {new}{f'  (deposed {deposed})' if deposed else ''}")
        if len(edit.moved) > _SHOWN:
            console.say(f"   and {len(edit.moved) - _SHOWN} more; all of them: --json")
        notes.extend(move.notes(change_context.project, edit.moved))

    question = "Only the state changes, no real resource. Move?"
    edit, written = _run(invocation, context, request, show, question, yes=decisions.yes)
    if not written:
        return answer_unchanged(invocation, source)
    back = ("holdfast", "state", "mv", destination.name, target, address)
    back_to = ("--to", source.name) if to else ()
    return invocation.answer(
        {
            "version": 1,
            **_document(written[0]),
            "moved": [{"from": old, "to": new, "deposed": deposed} for old, new, deposed in edit.moved],
            "destination": _document(written[1]) if to else None,
            "notes": notes,
            "reason": decisions.reason,
        },
        f" Moved {plural(len(edit.moved), 'resource')} {where}.",
        *map(_text, written),
        *(f"   {note}" for note in notes),
        f"   To undo this: {shlex.join((*back, *back_to))}",
        f"   Next: holdfast plan {' '.join(state.stack for state in written)}",
    )


def _run(
    invocation: Invocation,
    context: CommandContext,
    request: Request,
    show: Callable[[ChangeContext, Edit], None],
    question: str,
    *,
    yes: bool,
) -> Done:
    """Nothing is written if the user declines."""

    async def work(change_context: ChangeContext) -> Done:
        edit = await edits.preview(change_context, request)
        show(change_context, edit)
        for stack, change in zip(request.stacks, edit.changes, strict=True):
            require_allowed(change_context, stack, change, request.override, command=request.command)
        if not yes and request.override is None:
            require_terminal(f"To confirm: {request.command} --yes")
            if not await confirm(invocation.console, change_context, question):
                return edit, ()
        return edit, await edits.write(change_context, request, edit)

    return context.run(work)


def _text(written: Written) -> str:
    before = f"; version {written.backup} is the state before" if written.backup is not None else ""
    return f"   {written.stack}: serial {written.serial}, {resources_text(written.resources)}{before}"


def _document(written: Written) -> dict[str, object]:
    return fields(written, "stack", "run", "lineage", "serial", "resources", "backup")
