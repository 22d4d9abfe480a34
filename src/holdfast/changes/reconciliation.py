"""Reconcile an interrupted run, then plan and apply what it left undone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial

from msgspec import structs

from holdfast.kernel.errors import Busy, Refused
from holdfast.plans.context import ChangeContext
from holdfast.plans.policies import require_owner, require_owner_of_state
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.recovery.crash_report import explain_unknown_run
from holdfast.recovery.reconcile import Ask, Reconciled, Request, Show, reconcile
from holdfast.review.plan_checks import PlanChecks
from holdfast.runs import audit_trail, lanes
from holdfast.runs.claims import Claim
from holdfast.runs.executor import RunExecutor
from holdfast.runs.intent import PlanIntent, PlannedChange
from holdfast.stacks.stack import Stack
from holdfast.terraform.argv import PlanOptions
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.plan.model import Plan, ResourceChange

AskRest = Callable[[StackResult], Awaitable[bool]]


async def reconcile_run(
    context: ChangeContext,
    stack: Stack,
    claim: Claim,
    request: Request,
    *,
    show: Show,
    ask: Ask | None,
    ask_rest: AskRest | None,
    same_variables: bool = False,
) -> tuple[Reconciled, StackResult | None]:
    """What was resolved, and the result of what was left; None if nothing was planned.

    `same_variables`: the stack has the values that the command line gave the interrupted run.
    A target that CI owns is reconciled in CI too: imports write its state, and the rest is an apply.
    """
    require_owner_of_state(context.project, context.store, stack, reconciles=claim.run)
    done = await reconcile(context, stack, claim, request, show=show, ask=ask)
    if not done.settled or claim.intent.plan is None:
        return done, None
    intent = claim.intent.plan
    if same_variables:
        intent = structs.replace(intent, variables=())
    return done, await apply_remaining(context, stack, intent, ask_rest, doubtful=done.doubtful)


async def apply_remaining(
    context: ChangeContext,
    stack: Stack,
    intent: PlanIntent,
    ask: AskRest | None,
    *,
    doubtful: tuple[str, ...] = (),
) -> StackResult:
    """Without `ask`, apply only what the interrupted run had planned; the rest needs its own plan.

    `doubtful` are creates that failed and may have created their resource: without `ask` none is repeated.
    """
    run = RunExecutor(
        context,
        PlanChecks(context.project, context.engines, context.control, (stack,), form=False),
        stack,
        operation="apply",
        explain=partial(explain_unknown_run, context),
    )
    try:
        require_owner(context.project, stack)
        async with lanes.hold_lanes(context.store, context.control, context.identity, (stack,)) as held:
            return held.explain_cancelled((await _apply_rest(run, intent, ask, doubtful),))[0]
    except (Busy, Refused) as error:
        # The interrupted run is settled; the rest needs an apply of its own.
        run.refuse(error)
        return run.result
    finally:
        await run.close()
        audit_trail.record_end(
            context.identity.audit, context.control.tell, run.result, what="apply", override_reason=None
        )
        await audit_trail.flush(context.identity.audit, context.control.tell)


async def _apply_rest(
    run: RunExecutor, intent: PlanIntent, ask: AskRest | None, doubtful: tuple[str, ...]
) -> StackResult:
    # A destroy is continued as a destroy: a normal plan would create everything again.
    result = await run.plan(PlanOptions(destroy=intent.destroy))
    if result.status is not Status.PLANNED:
        return result
    if ask is None and (why := _why_not_applied(intent, result, doubtful)) is not None:
        name = run.stack.name
        note = f"not applied: {why}. Review the plan and apply it: holdfast apply {name}"
        return structs.replace(result, notes=(*result.notes, note))
    if ask is not None and not await ask(result):
        run.decline()
        return run.result
    return await run.apply()


def _why_not_applied(intent: PlanIntent, result: StackResult, doubtful: tuple[str, ...]) -> str | None:
    if result.plan is None:
        return "there is no plan"
    if more := changes_outside_intent(intent, result.plan):
        return f"the plan has changes that the interrupted run did not plan ({', '.join(more)})"
    if intent.variables:
        return f"the interrupted run had values from the command line ({', '.join(intent.variables)})"
    creates = {change.address for change in result.plan.changes if "create" in change.actions}
    again = [address for address in doubtful if address in creates]
    return f"these failed and may exist anyway: {', '.join(again)}" if again else None


# What the new plan may do, by what the interrupted one was to do at the same address


_AFTER_A_CREATE = frozenset({ChangeKind.CREATE, ChangeKind.UPDATE})
"""The resource does not exist yet, or it does by now and gets the values that it lacks."""
_CONTINUES: Mapping[ChangeKind, frozenset[ChangeKind]] = {
    ChangeKind.CREATE: _AFTER_A_CREATE,
    ChangeKind.UPDATE: frozenset({ChangeKind.UPDATE}),
    ChangeKind.DELETE: frozenset({ChangeKind.DELETE}),
    ChangeKind.FORGET: frozenset({ChangeKind.FORGET}),
    ChangeKind.DELETE_THEN_CREATE: _AFTER_A_CREATE | {ChangeKind.DELETE_THEN_CREATE},
    ChangeKind.CREATE_THEN_DELETE: _AFTER_A_CREATE | {ChangeKind.CREATE_THEN_DELETE},
    ChangeKind.CREATE_THEN_FORGET: _AFTER_A_CREATE | {ChangeKind.CREATE_THEN_FORGET},
    ChangeKind.FORGET_THEN_CREATE: _AFTER_A_CREATE | {ChangeKind.FORGET_THEN_CREATE},
}


def changes_outside_intent(intent: PlanIntent, plan: Plan) -> tuple[str, ...]:
    """What the new plan would do that the interrupted one did not, each with its action."""
    planned = {(change.address, change.deposed): change for change in intent.changes}
    return tuple(sorted(set(_outside(planned, plan))))


def _outside(planned: Mapping[tuple[str, str | None], PlannedChange], plan: Plan) -> Iterator[str]:
    for change in plan.changes:
        if change.has_effect and change.kind is not ChangeKind.READ and not _continues(planned, change):
            yield f"{change.address}: {', '.join(change.actions)}"
    yield from (f"{invocation.address}: action" for invocation in plan.action_invocations)


def _continues(planned: Mapping[tuple[str, str | None], PlannedChange], change: ResourceChange) -> bool:
    before = planned.get((change.address, change.deposed))
    if before is None:
        # The old resource of a replacement that created the new one first.
        replaced = planned.get((change.address, None))
        left = replaced is not None and replaced.kind is ChangeKind.CREATE_THEN_DELETE
        return left and change.deposed is not None and change.kind is ChangeKind.DELETE
    if change.importing is not None and not before.importing:
        return False
    if change.moved and change.previous_address != before.previous_address:
        return False
    return change.kind is ChangeKind.NO_OP or change.kind in _CONTINUES.get(before.kind, ())
