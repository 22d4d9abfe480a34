"""Plans again after an apply that failed cleanly. `auto_replan` has the rules."""

from __future__ import annotations

from msgspec import structs

from holdfast.guard.decision import Allow
from holdfast.kernel.errors import HoldfastError
from holdfast.plans.context import ChangeContext
from holdfast.plans.plan_file import PlanFile, replan
from holdfast.plans.result import StackResult, read_outputs
from holdfast.plans.retry import Retrying
from holdfast.plans.status import Status
from holdfast.review.decide import decide
from holdfast.review.plan_checks import PlanChecks
from holdfast.runs.auto_replan import extra_changes
from holdfast.stacks.stack import Stack
from holdfast.terraform.argv import PlanOptions
from holdfast.terraform.statefile.sensitive import sensitive_in_outputs


async def allowed_replan(
    context: ChangeContext,
    checks: PlanChecks,
    stack: Stack,
    before: PlanFile,
    options: PlanOptions,
    *,
    done: frozenset[str],
    retrying: Retrying,
    seconds: float,
) -> PlanFile | None:
    """A new plan that may be applied. None if there is none: a note says why."""
    try:
        await retrying.wait(seconds, before="plan again")
        after = await replan(context, stack, before, options)
    except HoldfastError as error:
        retrying.note(f"Holdfast could not plan again: {error.problem.message}")
        return None
    if more := extra_changes(before.plan, after.plan, done=done):
        retrying.note(f"the new plan was not applied because it has additional changes: {', '.join(more)}")
        return None
    try:
        decision = await decide(context.project, context.store, checks, stack, after)
    except HoldfastError as error:
        retrying.note(f"the new plan was not applied: {error.problem.message}")
        return None
    if not isinstance(decision, Allow):
        retrying.note(f"the new plan was not applied: {decision.reasons[0].message}")
        return None
    return after


async def nothing_left(
    context: ChangeContext, planned: StackResult, plan_file: PlanFile, retrying: Retrying
) -> StackResult:
    """The result if the new plan shows that the failed change was made."""
    retrying.note("the new plan has no changes left")
    outputs = await plan_file.terraform.outputs()
    context.redactor.register_all(sensitive_in_outputs(outputs))
    return structs.replace(
        planned,
        status=Status.APPLIED,
        outputs=read_outputs(outputs),
        notes=(*plan_file.notes, *retrying.notes),
    )
