"""`holdfast state rollback`: show what changes in the state, ask, restore it, show the resulting plan."""

from __future__ import annotations

import sys

from holdfast.changes.change import plan_change
from holdfast.cli.command import Invocation
from holdfast.cli.context import CommandContext
from holdfast.cli.views.change import show_details, show_footer, show_table
from holdfast.cli.views.state import rollback_document, show_changes
from holdfast.kernel.errors import Exit, UsageError
from holdfast.plans.context import ChangeContext
from holdfast.plans.result import StackResult, exit_code
from holdfast.runs.document import change_document
from holdfast.states.rollback import Preview, RolledBack, preview, rollback
from holdfast.system import clock
from holdfast.terraform.argv import PlanOptions


class Rollback:
    def __init__(self, invocation: Invocation, stack: str, version: str) -> None:
        self._invocation = invocation
        self._console = invocation.console
        self._context = CommandContext(invocation)
        self._stack = self._context.repository.stack(stack)
        self._version = version

    def run(self, *, yes: bool) -> Exit:
        if not yes and not sys.stdin.isatty():
            raise UsageError("HF-USE-5", "cannot ask for confirmation without a terminal", hint="Add --yes.")
        seen: int | None = None
        if not yes:
            shown = self._context.run(
                lambda change_context: preview(change_context, self._stack, self._version)
            )
            if not self._confirm(shown):
                self._console.line(f" {self._stack.name}: the state was not changed")
                return Exit.FAILED
            seen = shown.serial
        started = clock.monotonic()
        done, results = self._context.run(lambda change_context: self._roll_back(change_context, seen))
        if self._invocation.as_json:
            self._invocation.document(rollback_document(self._stack, done, change_document(results)))
        else:
            show_table(self._console, results)
            show_details(self._console, results, verbose=self._invocation.verbose)
            show_footer(self._console, results, clock.monotonic() - started)
        return exit_code(results)

    async def _roll_back(
        self, change_context: ChangeContext, seen: int | None
    ) -> tuple[RolledBack, tuple[StackResult, ...]]:
        """Report the rollback before planning, which may fail."""
        done = await rollback(change_context, self._stack, self._version, seen=seen)
        replaced = f"replaces serial {done.previous}" if done.previous is not None else "there was no state"
        self._console.line(
            f" {self._stack.name}: restored version {done.goal} as serial {done.serial}; {replaced}"
        )
        if done.backup is not None:
            self._console.say(f"   The state before the rollback is version {done.backup}.")
        self._console.say("   Only the state changed. This plan compares it with the real resources:")
        return done, await plan_change(change_context, (self._stack,), PlanOptions())

    def _confirm(self, shown: Preview) -> bool:
        self._console.line(f" {self._stack.name}: roll back to {shown.goal.entry.shown}")
        show_changes(self._console, shown.change)
        self._console.question("This changes only the state, no real resource. Roll back?")
        return sys.stdin.readline().strip().lower() in {"y", "yes"}
