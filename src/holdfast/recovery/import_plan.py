"""The plan that imports what an interrupted run created: nothing else, unless the guard allows it.

Terraform may also update a resource that it imports, when the code asks for other values than the resource
has. That is a change like any other: guard, freezes, policies and approvals decide on it, and it is shown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from holdfast.guard.decision import Allow
from holdfast.kernel.errors import Refused
from holdfast.plans.context import ChangeContext
from holdfast.plans.plan_file import PlanFile, plan_with
from holdfast.plans.terraform import Terraform
from holdfast.recovery.imports import Import
from holdfast.review.decide import decide
from holdfast.review.plan_checks import PlanChecks
from holdfast.stacks.stack import Stack
from holdfast.terraform.argv import PlanOptions
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.plan.model import Plan

_STATE_ONLY = frozenset({ChangeKind.NO_OP, ChangeKind.READ})


class WithLock(Protocol):
    """Does work that needs the state lock."""

    async def __call__(self, work: Callable[[], Awaitable[PlanFile]]) -> PlanFile: ...


async def plan_imports(
    context: ChangeContext, terraform: Terraform, wanted: tuple[Import, ...], with_lock: WithLock
) -> PlanFile:
    """A plan of exactly these imports, which may be applied."""
    workdir = terraform.workdir
    seen = context.store.last_seen(workdir.stack.name)
    options = PlanOptions(
        targets=tuple(item.address for item in wanted),
        imports=tuple((item.address, item.id) for item in wanted),
    )
    plan_file = await with_lock(lambda: plan_with(context, workdir.stack, terraform, options, seen))
    require_only_imports(workdir.stack, plan_file.plan, wanted)
    if updates := updated_imports(plan_file.plan):
        await _require_allowed(context, workdir.stack, plan_file, updates)
    return plan_file


def updated_imports(plan: Plan) -> tuple[str, ...]:
    """Addresses that the plan imports and then updates in place."""
    return tuple(change.address for change in plan.changes if change.kind is ChangeKind.UPDATE)


def require_only_imports(stack: Stack, plan: Plan, wanted: tuple[Import, ...]) -> None:
    """Any change but an import, or an update of what is imported, is refused."""
    imported = {change.address for change in plan.changes if change.importing is not None}
    more = [
        f"{change.address} ({', '.join(change.actions)})"
        for change in plan.changes
        if change.kind not in _STATE_ONLY
        and not (change.kind is ChangeKind.UPDATE and change.address in imported)
    ]
    more += [f"{invocation.address} (action)" for invocation in plan.action_invocations]
    if more or plan.errored:
        raise Refused(
            "HF-REC-10",
            f"{stack.name}: besides the imports, Terraform would change resources: {', '.join(more)}",
            hint="Check the ids (--import ADDR=ID), or adjust the code to the existing resources.",
        )
    missing = {item.address for item in wanted} - imported
    if missing or imported - {item.address for item in wanted}:
        what = (
            f"does not plan to import {', '.join(sorted(missing))}" if missing else "plans other imports too"
        )
        raise Refused(
            "HF-REC-10",
            f"{stack.name}: Terraform {what}",
            hint="Check that the code still declares them: Terraform imports only declared resources.",
        )


async def _require_allowed(
    context: ChangeContext, stack: Stack, plan_file: PlanFile, updates: tuple[str, ...]
) -> None:
    """As for any plan."""
    checks = PlanChecks(context.project, context.engines, context.control, (stack,), form=False)
    decision = await decide(context.project, context.store, checks, stack, plan_file)
    if not isinstance(decision, Allow):
        reason = decision.reasons[0]
        raise Refused(
            reason.code,
            f"{stack.name}: the imports would also update {', '.join(updates)}: {reason.message}",
            hint="Adjust the code to the existing resources, or add `lifecycle { ignore_changes = all }` to "
            "them, and reconcile again. A plan of its own can change them afterwards.",
        )
