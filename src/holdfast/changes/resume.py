"""After a reconcile: the ordinary plan of what is left, applied as a run of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from msgspec import structs

from holdfast.changes.preconditions import require_owner
from holdfast.kernel.errors import Busy, Refused
from holdfast.plans.context import ChangeContext
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.recovery.crash_report import explain_unknown_run
from holdfast.review.plan_checks import PlanChecks
from holdfast.runs import audit_trail, lanes
from holdfast.runs.executor import RunExecutor
from holdfast.runs.intent import PlanIntent
from holdfast.stacks.stack import Stack
from holdfast.terraform.argv import PlanOptions

Ask = Callable[[StackResult], Awaitable[bool]]


async def apply_remaining(
    context: ChangeContext, stack: Stack, intent: PlanIntent, ask: Ask | None
) -> StackResult:
    """Without `ask`, apply only what the interrupted run had planned; the rest needs its own plan."""
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
            return held.explain_cancelled((await _apply_rest(run, intent, ask),))[0]
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


async def _apply_rest(run: RunExecutor, intent: PlanIntent, ask: Ask | None) -> StackResult:
    result = await run.plan(PlanOptions(destroy=_destroys(intent)))
    if result.status is not Status.PLANNED:
        return result
    more = changes_outside_intent(intent, result)
    if ask is None and more:
        note = f"not applied: the plan has changes that the interrupted run did not plan ({', '.join(more)})"
        return structs.replace(result, notes=(*result.notes, note))
    if ask is not None and not await ask(result):
        run.decline()
        return run.result
    return await run.apply()


def _destroys(intent: PlanIntent) -> bool:
    """A destroy is continued as a destroy: a normal plan would create everything again."""
    return bool(intent.changes) and all(change.actions == ("delete",) for change in intent.changes)


def changes_outside_intent(intent: PlanIntent, result: StackResult) -> tuple[str, ...]:
    """Addresses that the new plan would change and the old one did not."""
    planned = {change.address for change in intent.changes}
    changes = result.plan.changes if result.plan is not None else ()
    return tuple(
        sorted({change.address for change in changes if change.has_effect and change.address not in planned})
    )
