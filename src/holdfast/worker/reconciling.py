"""A run whose outcome is unknown is reconciled on the server, as `runs reconcile --yes` does it."""

from __future__ import annotations

from holdfast.changes.reconciliation import reconcile_run
from holdfast.kernel.errors import HoldfastError
from holdfast.plans.context import ChangeContext
from holdfast.plans.errors import status_of
from holdfast.plans.events import Note
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.recovery.crash_report import known, started
from holdfast.recovery.reconcile import Proposal, Request
from holdfast.runs.claims import claim_on
from holdfast.stacks.stack import Stack


async def reconcile_stack(context: ChangeContext, stack: Stack, before: str | None) -> StackResult:
    """`before`: the interrupted run. Nothing is imported or closed that needs a person's decision."""
    tell = context.control.tell

    def show(proposal: Proposal) -> None:
        for line in (started(proposal.report.claim, proposal.report), *known(proposal.report)):
            tell(Note(stack=stack.name, text=line))
        for imported in proposal.resolution.imports:
            tell(Note(stack=stack.name, text=f"{imported.address}: import {imported.id}"))

    run = context.identity.runs.get(stack.name)
    claim = claim_on(context.store, stack.name)
    if claim is None or claim.run != before:
        note = f"run {before} is resolved already"
        return StackResult(stack=stack, status=Status.UNCHANGED, run=run, notes=(note,))
    try:
        done, rest = await reconcile_run(
            *(context, stack, claim, Request()), show=show, ask=None, ask_rest=None
        )
    except HoldfastError as error:
        return StackResult(
            stack=stack, status=status_of(error), run=run, error=error.problem, problems=error.problems
        )
    if rest is not None:
        return rest
    status = Status.UNCHANGED if done.settled else Status.UNKNOWN
    return StackResult(stack=stack, status=status, run=run, notes=done.notes)
