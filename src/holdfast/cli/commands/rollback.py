"""`holdfast state rollback`: show what would change in the record, ask, do it, show the plan that follows."""

from __future__ import annotations

import sys

from holdfast.changes.change import plan_change
from holdfast.cli.command import Invocation
from holdfast.cli.context import Workshop
from holdfast.cli.views.change import show_details, show_footer, show_table
from holdfast.cli.views.state import rollback_document, show_changes
from holdfast.kernel.errors import Exit, UsageError
from holdfast.plans.context import Session
from holdfast.plans.result import StackResult, exit_of
from holdfast.runs.document import change_document
from holdfast.states.rollback import Preview, RolledBack, preview, rollback
from holdfast.system import clock
from holdfast.terraform.argv import PlanOptions


class Rollback:
    def __init__(self, invocation: Invocation, stack: str, version: str) -> None:
        self._invocation = invocation
        self._console = invocation.console
        self._workshop = Workshop(invocation)
        self._stack = self._workshop.repository.one(stack)
        self._version = version

    def run(self, *, yes: bool) -> Exit:
        if not yes and not sys.stdin.isatty():
            raise UsageError("HF-USE-5", "there is no terminal to ask on", hint="Say --yes.")
        seen: int | None = None
        if not yes:
            look = self._workshop.run(self._look)
            if not self._agreed(look):
                self._console.line(f" {self._stack.name}: left as it is")
                return Exit.FAILED
            seen = look.serial
        began = clock.monotonic()
        done, results = self._workshop.run(lambda session: self._go(session, seen))
        if self._invocation.as_json:
            self._invocation.document(rollback_document(self._stack, done, change_document(results)))
        else:
            show_table(self._console, results)
            show_details(self._console, results, verbose=self._invocation.verbose)
            show_footer(self._console, results, clock.monotonic() - began)
        return exit_of(results)

    async def _look(self, session: Session) -> Preview:
        return await preview(session, self._stack, self._version)

    async def _go(self, session: Session, seen: int | None) -> tuple[RolledBack, tuple[StackResult, ...]]:
        """What is done is told before anything else is tried."""
        done = await rollback(session, self._stack, self._version, seen=seen)
        was = f"instead of serial {done.previous}" if done.previous is not None else "where none was left"
        self._console.line(f" {self._stack.name}: version {done.goal} is back as serial {done.serial}, {was}")
        if done.backup is not None:
            self._console.say(f"   what was there before: version {done.backup}")
        self._console.say("   only the record moved; real objects stayed as they are, as this plan shows:")
        return done, await plan_change(session, (self._stack,), PlanOptions())

    def _agreed(self, look: Preview) -> bool:
        self._console.line(f" {self._stack.name}: back to {look.goal.entry.shown}; in the record:")
        show_changes(self._console, look.change)
        self._console.question("Only the record moves, no real object. Go back?")
        return sys.stdin.readline().strip().lower() in {"y", "yes"}
