"""`holdfast state push`, `adopt`, `rename`, `retire`: show what changes in a state, and ask before a loss."""

from __future__ import annotations

from pathlib import Path

from holdfast.cli.command import Invocation, fields
from holdfast.cli.confirmation import confirm, require_terminal
from holdfast.cli.context import CommandContext, run_on_stack
from holdfast.cli.views.state import resources_text, show_changes
from holdfast.kernel.errors import Exit, UsageError
from holdfast.kernel.text import plural
from holdfast.plans.context import ChangeContext
from holdfast.stacks.stack import Stack
from holdfast.states import adopt, operations, rename
from holdfast.states.rollback import compare
from holdfast.states.surgery import Override, StateChange, require_allowed
from holdfast.terraform.statefile.model import State

_NAMED = 3


def override_from(digest: str | None, reason: str | None) -> Override | None:
    if digest is None and reason is None:
        return None
    if digest is None or not (reason or "").strip():
        given, missing = ("--reason", "--override") if digest is None else ("--override", "--reason")
        raise UsageError(
            "HF-USE-19",
            f"{given} needs {missing}",
            hint="Without both, the command shows what it would remove, and the digest of that change.",
        )
    return Override(digest=digest, reason=str(reason))


async def confirm_change(
    invocation: Invocation,
    context: ChangeContext,
    stack: Stack,
    change: StateChange,
    *,
    override: Override | None,
    command: str,
    yes: bool,
) -> bool:
    """Show the difference; refuse what the guard denies; ask if resources would be removed."""
    console = invocation.console
    if change.before:
        show_changes(console, compare(context.engines, context.redactor, stack, change.before, change.after))
    overridden = require_allowed(context, stack, change, override, command=command)
    if overridden or yes or not change.loses:
        return True
    lost = change.lost_addresses
    more = ", …" if len(lost) > _NAMED else ""
    what = f"{plural(len(lost), 'resource')} ({', '.join(lost[:_NAMED])}{more})"
    if change.lost is None:
        what = "an unknown number of resources"
    require_terminal(
        f"To confirm: {command} --yes",
        what=f"{stack.name}: this removes {what} from its state; cannot ask to confirm without a terminal",
    )
    question = f"This removes {what} from the state. The resources themselves stay. Continue?"
    return await confirm(console, context, question)


def answer_unchanged(invocation: Invocation, stack: Stack) -> Exit:
    invocation.console.line(f" {stack.name}: the state was not changed")
    return Exit.FAILED


def run_push(
    invocation: Invocation, name: str, file: Path | None, *, override: Override | None, yes: bool
) -> Exit:
    async def work(context: ChangeContext, stack: Stack) -> tuple[StateChange, State | None]:
        change = await operations.preview_push(context, stack, file)
        command = operations.push_command(stack, file)
        if not await confirm_change(
            invocation, context, stack, change, override=override, command=command, yes=yes
        ):
            return change, None
        return change, await operations.push(context, stack, file, seen=change.digest, override=override)

    stack, (change, state) = run_on_stack(invocation, name, work)
    if state is None:
        return answer_unchanged(invocation, stack)
    return invocation.answer(
        {
            "version": 1,
            "stack": stack.name,
            **fields(state, "lineage", "serial"),
            "resources": state.managed,
            "removed": list(change.lost_addresses),
        },
        f" {stack.name}: pushed the state, serial {state.serial}. Next: holdfast plan {stack.name}",
    )


def run_adopt(invocation: Invocation, name: str, *, workspace: str | None) -> Exit:
    async def work(context: ChangeContext, stack: Stack) -> adopt.Adopted:
        return await adopt.adopt(context, stack, workspace=workspace)

    stack, adopted = run_on_stack(invocation, name, work)
    return _answer_adopted(invocation, stack, adopted)


def _answer_adopted(invocation: Invocation, stack: Stack, adopted: adopt.Adopted) -> Exit:
    contents = f"serial {adopted.serial}, {resources_text(adopted.resources)}"
    return invocation.answer(
        {
            "version": 1,
            "stack": stack.name,
            "adopted": str(adopted.source),
            "renamed": str(adopted.renamed),
            **fields(adopted, "serial", "resources"),
        },
        f" {stack.name}: adopted {adopted.source} ({contents})",
        f"   The original is now {adopted.renamed}.",
        f"   Next: holdfast plan {stack.name}",
    )


def run_accept_older(invocation: Invocation, name: str, *, workspace: str | None, reason: str) -> Exit:
    """The state that the stack has now; without a backend and a managed state, the file beside the code."""

    async def work(context: ChangeContext, stack: Stack) -> adopt.Adopted | adopt.Accepted:
        if adopt.has_backend(context.project.code, stack) or context.store.states.numbers(stack.name):
            return await adopt.accept_older(context, stack, reason=reason)
        return await adopt.adopt(context, stack, workspace=workspace, accepted=reason)

    stack, accepted = run_on_stack(invocation, name, work)
    if isinstance(accepted, adopt.Adopted):
        return _answer_adopted(invocation, stack, accepted)
    state, record = accepted.state, accepted.record
    was = f" instead of serial {record.serial}" if record is not None else ""
    return invocation.answer(
        {
            "version": 1,
            "stack": stack.name,
            "adopted": None,
            **fields(state, "lineage", "serial"),
            "resources": state.managed,
            "previous_serial": record.serial if record is not None else None,
            "previous_lineage": record.lineage if record is not None else None,
        },
        f" {stack.name}: its state is now recorded as serial {state.serial}{was}, "
        f"{resources_text(state.managed)}",
        f"   Next: holdfast plan {stack.name}",
    )


def run_start_empty(invocation: Invocation, name: str, *, override: Override | None, yes: bool) -> Exit:
    async def work(context: ChangeContext, stack: Stack) -> bool:
        change = await adopt.preview_start_empty(context, stack)
        command = f"holdfast state adopt {stack.name} --start-empty"
        confirmed = await confirm_change(
            invocation, context, stack, change, override=override, command=command, yes=yes
        )
        if confirmed:
            await adopt.start_empty(context, stack, seen=change.digest, override=override)
        return confirmed

    stack, confirmed = run_on_stack(invocation, name, work)
    if not confirmed:
        return answer_unchanged(invocation, stack)
    document: dict[str, object] = {"version": 1, "stack": stack.name, "adopted": None}
    return invocation.answer(document, f" {stack.name}: starts without a state")


def run_rename(invocation: Invocation, old: str, new: str) -> Exit:
    stack, done = run_on_stack(invocation, new, lambda context, stack: rename.rename(context, old, stack))
    resources = len(done.resources) if done.resources is not None else None
    return invocation.answer(
        {"version": 1, "stack": stack.name, "from": old, "serial": done.serial, "resources": done.resources},
        f" {stack.name}: has the state of {old} now, serial {done.serial}"
        + (f", {resources_text(resources)}" if resources is not None else ""),
        f"   Next: holdfast plan {stack.name}",
    )


def run_retire(invocation: Invocation, old: str, reason: str) -> Exit:
    context = CommandContext(invocation)
    orphan = context.run(lambda change_context: rename.retire(change_context, old, reason=reason))
    resources = orphan.resources
    known = (
        plural(len(resources), "resource") if resources is not None else "resources that are not known here"
    )
    return invocation.answer(
        {"version": 1, "stack": old, "serial": orphan.serial, "resources": resources, "reason": reason},
        f" {old}: its state (serial {orphan.serial}) is retired. It had {known}, which nothing manages now:",
        *(f"   {address}" for address in resources or ()),
    )
