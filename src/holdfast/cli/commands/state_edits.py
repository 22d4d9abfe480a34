"""`holdfast state mv` and `state rm`: show what changes in the states, ask, and write them."""

from __future__ import annotations

import asyncio
import shlex
import sys

from msgspec import Struct

from holdfast.cli.command import Invocation, fields
from holdfast.cli.commands.state_changes import override_from, unchanged
from holdfast.cli.context import CommandContext
from holdfast.cli.views.state import resources_text, show_changes
from holdfast.kernel.errors import Exit, UsageError
from holdfast.kernel.text import plural
from holdfast.plans.context import ChangeContext
from holdfast.states import edits, moves
from holdfast.states.edits import Request, Written, require_address
from holdfast.states.moves import Move
from holdfast.states.rollback import compare
from holdfast.states.surgery import StateChange, require_allowed

_SHOWN = 20


class Decisions(Struct, frozen=True):
    """What the user decided on the command line."""

    override: str | None
    reason: str | None
    yes: bool

    def request(self, *command: str) -> Request:
        """A reason is recorded with and without an override."""
        override = override_from(self.override, self.reason) if self.override is not None else None
        return Request(command=shlex.join(("holdfast", *command)), override=override, reason=self.reason)


async def _confirmed(invocation: Invocation, request: Request, question: str, *, yes: bool) -> bool:
    if yes or request.override is not None:
        return True
    if not sys.stdin.isatty():
        raise UsageError(
            "HF-USE-5",
            "cannot ask for confirmation without a terminal; nothing was changed",
            hint=f"To confirm: {request.command} --yes",
        )
    invocation.console.question(question)
    answer = await asyncio.to_thread(sys.stdin.readline)
    return answer.strip().lower() in {"y", "yes"}


def run_rm(invocation: Invocation, name: str, addresses: tuple[str, ...], decisions: Decisions) -> Exit:
    console, context = invocation.console, CommandContext(invocation)
    for address in addresses:
        require_address(address)
    stack = context.repository.stack(name)
    request = decisions.request("state", "rm", stack.name, *addresses)

    async def work(change_context: ChangeContext) -> tuple[StateChange, Written | None]:
        change = await edits.preview_removal(change_context, stack, addresses)
        console.say(f" Remove from the state of {stack.name}:")
        before, after = change.before, change.after
        show_changes(console, compare(change_context.engines, change_context.redactor, stack, before, after))
        require_allowed(change_context, stack, change, request.override, command=request.command)
        question = "The resources themselves stay, and nothing manages them any more. Remove them?"
        if not await _confirmed(invocation, request, question, yes=decisions.yes):
            return change, None
        return change, await edits.remove(change_context, stack, addresses, change, request)

    change, written = context.run(work)
    if written is None:
        return unchanged(invocation, stack)
    removed = list(change.lost_addresses)
    return invocation.answer(
        {"version": 1, **_written(written), "removed": removed, "reason": decisions.reason},
        f" Removed {plural(len(removed), 'resource')} from the state of {stack.name}.",
        _written_text(written),
        "   Remove them from the code too: the next plan would create again what it still declares.",
        f"   To undo this: holdfast state rollback {stack.name} {written.backup}",
        f"   Next: holdfast plan {stack.name}",
    )


def run_mv(
    invocation: Invocation, name: str, other: str, address: str, target: str, decisions: Decisions
) -> Exit:
    context = CommandContext(invocation)
    for given in (address, target):
        require_address(given)
    source, destination = context.repository.stack(name), context.repository.stack(other)
    to = ("--to", destination.name) if source.name != destination.name else ()
    request = decisions.request("state", "mv", source.name, address, target, *to)

    async def work(change_context: ChangeContext) -> tuple[Move, tuple[str, ...], tuple[Written, ...]]:
        move = await moves.preview(change_context, source, destination, address, target)
        notes = moves.notes_on(change_context.project, move)
        _show_move(invocation, move)
        for stack, change in ((source, move.leaving), (destination, move.arriving)):
            if change is not None:
                require_allowed(change_context, stack, change, request.override, command=request.command)
        question = "Only the state changes, no real resource. Move?"
        if not await _confirmed(invocation, request, question, yes=decisions.yes):
            return move, notes, ()
        return move, notes, await moves.move(change_context, move, request)

    move, notes, written = context.run(work)
    if not written:
        return unchanged(invocation, source)
    document = {
        "version": 1,
        **_written(written[0]),
        "moved": [{"from": old, "to": new, "deposed": deposed} for old, new, deposed in move.moved],
        "destination": _written(written[1]) if to else None,
        "notes": list(notes),
        "reason": decisions.reason,
    }
    back = ("--to", source.name) if to else ()
    undo = shlex.join(("holdfast", "state", "mv", destination.name, target, address, *back))
    return invocation.answer(
        document,
        f" Moved {plural(len(move.moved), 'resource')} {_where(move)}.",
        *map(_written_text, written),
        *(f"   {note}" for note in notes),
        f"   To undo this: {undo}",
        f"   Next: holdfast plan {' '.join(one.stack for one in written)}",
    )


def _where(move: Move) -> str:
    if move.arriving is None:
        return f"in the state of {move.source.name}"
    return f"from {move.source.name} to {move.destination.name}"


def _written_text(written: Written) -> str:
    before = f"; version {written.backup} is the state before" if written.backup is not None else ""
    return f"   {written.stack}: serial {written.serial}, {resources_text(written.resources)}{before}"


def _show_move(invocation: Invocation, move: Move) -> None:
    console = invocation.console
    console.say(f" Move {plural(len(move.moved), 'resource')} {_where(move)}:")
    for old, new, deposed in move.moved[:_SHOWN]:
        more = f"  (deposed {deposed})" if deposed is not None else ""
        console.say(("   → ", "cyan"), f"{old}  to  {new}{more}")
    if len(move.moved) > _SHOWN:
        console.say(f"   and {len(move.moved) - _SHOWN} more; all of them: --json")


def _written(written: Written) -> dict[str, object]:
    return fields(written, "stack", "run", "lineage", "serial", "resources", "backup")
