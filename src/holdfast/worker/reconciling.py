"""A run whose outcome is unknown is reconciled on the server, as `runs reconcile --yes` does it."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.changes.reconciliation import reconcile_run
from holdfast.kernel.errors import HoldfastError, UnknownOutcome
from holdfast.plans.context import ChangeContext
from holdfast.plans.errors import status_of
from holdfast.plans.events import Note
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.plans.variables import with_variables
from holdfast.recovery.crash_report import known, started
from holdfast.recovery.reconcile import Proposal, Request
from holdfast.runs.claims import claim_on
from holdfast.stacks.stack import Stack
from holdfast.store.server_runs.contents import ChangeOptions
from holdfast.terraform.argv import VariableOption


async def reconcile_stack(
    context: ChangeContext,
    stack: Stack,
    before: str | None,
    options: ChangeOptions,
    variables: Iterable[VariableOption],
) -> StackResult:
    """`before`: the interrupted run. The stack gets the values of variables that it had.

    Nothing is imported or closed that needs a person's decision, unless the options have it.
    """
    tell = context.control.tell

    def show(proposal: Proposal) -> None:
        for line in (started(proposal.report.claim, proposal.report), *known(proposal.report)):
            tell(Note(stack=stack.name, text=line))
        for imported in proposal.resolution.imports:
            tell(Note(stack=stack.name, text=f"{imported.address}: import {imported.id}"))

    run = context.identity.runs.get(stack.name)
    claim = claim_on(context.store, stack.name)
    if claim is not None and claim.run != before:
        error = UnknownOutcome(
            "HF-RUN-34",
            f"{stack.name}: the run whose outcome is unknown is {claim.run}, not {before}",
            hint=f"Reconcile that one: holdfast runs reconcile {claim.run}",
        )
        return _failed(stack, run, error)
    if claim is None:
        note = f"run {before} is resolved already"
        return StackResult(stack=stack, status=Status.UNCHANGED, run=run, notes=(note,))
    stack = with_variables(context.project.code, stack, variables)
    request = Request(
        imports=options.imports, recreate=frozenset(options.recreate), declared=options.declared
    )
    try:
        done, rest = await reconcile_run(
            *(context, stack, claim, request), show=show, ask=None, ask_rest=None, same_variables=True
        )
    except HoldfastError as error:
        return _failed(stack, run, error)
    if rest is not None:
        return rest
    status = Status.UNCHANGED if done.settled else Status.UNKNOWN
    return StackResult(stack=stack, status=status, run=run, notes=done.notes)


def _failed(stack: Stack, run: str | None, error: HoldfastError) -> StackResult:
    return StackResult(
        stack=stack, status=status_of(error), run=run, error=error.problem, problems=error.problems
    )
