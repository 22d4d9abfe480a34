"""`holdfast state rollback`: show what changes in the state, ask, restore it, show the resulting plan."""

from __future__ import annotations

from holdfast.changes.change import plan_change
from holdfast.cli.command import Invocation
from holdfast.cli.confirmation import confirm, require_terminal
from holdfast.cli.context import CommandContext
from holdfast.cli.states.changes import answer_unchanged, confirm_change
from holdfast.cli.views.change import show_details, show_footer, show_table
from holdfast.cli.views.state import rollback_document
from holdfast.kernel.errors import Exit
from holdfast.plans.context import ChangeContext
from holdfast.plans.result import StackResult, exit_code
from holdfast.runs.document import change_document
from holdfast.stacks.stack import Stack
from holdfast.states.rollback import Preview, RolledBack, preview, rollback
from holdfast.states.surgery import Override
from holdfast.system import clock
from holdfast.terraform.argv import PlanOptions


def run_rollback(
    invocation: Invocation, name: str, version: str, *, yes: bool, override: Override | None
) -> Exit:
    console, context = invocation.console, CommandContext(invocation)
    stack = context.repository.stack(name)
    if not yes:
        require_terminal()

    async def preview_and_ask(change_context: ChangeContext) -> Preview | None:
        shown = await _preview(invocation, change_context, stack, version, override)
        question = "This changes only the state, no real resource. Roll back?"
        return shown if yes or await confirm(console, change_context, question) else None

    shown = context.run(preview_and_ask)
    if shown is None:
        return answer_unchanged(invocation, stack)
    started = clock.monotonic()

    async def work(change_context: ChangeContext) -> tuple[RolledBack, tuple[StackResult, ...]]:
        """Report the rollback before planning, which may fail."""
        done = await rollback(change_context, stack, version, seen=shown.change.digest, override=override)
        replaced = f"replaces serial {done.previous}" if done.previous is not None else "there was no state"
        console.line(f" {stack.name}: restored version {done.goal} as serial {done.serial}; {replaced}")
        if done.backup is not None:
            console.say(f"   The state before the rollback is version {done.backup}.")
        console.say("   Only the state changed. This plan compares it with the real resources:")
        return done, await plan_change(change_context, (stack,), PlanOptions())

    done, results = context.run(work)
    return invocation.answer(
        rollback_document(stack, done, shown.change, change_document(results)),
        lambda: show_table(console, results),
        lambda: show_details(console, results, verbose=invocation.verbose),
        lambda: show_footer(console, results, clock.monotonic() - started),
        exit_code=exit_code(results),
    )


async def _preview(
    invocation: Invocation, context: ChangeContext, stack: Stack, version: str, override: Override | None
) -> Preview:
    """Show the difference; refuse what the guard denies."""
    shown = await preview(context, stack, version)
    invocation.console.line(f" {stack.name}: roll back to {shown.goal.entry.shown}")
    command = f"holdfast state rollback {stack.name} {version}"
    await confirm_change(
        invocation, context, stack, shown.change, override=override, command=command, yes=True
    )
    return shown
