"""Undo drift that a rule covers: plan, guard, journal and approval as in any apply, then a check."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from msgspec import structs

from holdfast.changes.change import apply_change
from holdfast.drift.check import check_stack
from holdfast.drift.heal_rules import Healing, healing_of, outside_of_healing
from holdfast.drift.lifecycle import with_healing
from holdfast.drift.result import DriftResult
from holdfast.kernel.errors import Refused
from holdfast.plans.context import ChangeContext
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.runs.executor import RunExecutor
from holdfast.store.drift import StackDrift
from holdfast.system import clock
from holdfast.terraform.argv import PlanOptions

ATTEMPTED: Final = frozenset({Status.APPLIED, Status.FAILED, Status.UNKNOWN})


def decide_healing(
    context: ChangeContext, results: tuple[DriftResult, ...], now: datetime
) -> dict[str, Healing]:
    """By stack, for those that drifted and were looked at just now."""
    settings = context.project.config.drift
    return {
        result.stack.name: healing_of(result.known, result.stack, settings.heal, now, settings.zone)
        for result in results
        if result.found.observed is not None and result.found.error is None and result.known.open
    }


async def heal(
    context: ChangeContext,
    results: tuple[DriftResult, ...],
    *,
    now: Callable[[], datetime] = clock.now,
) -> tuple[DriftResult, ...]:
    """The results after the applies. What is not undone has the reason."""
    decisions = decide_healing(context, results, now())
    allowed = {name: healing for name, healing in decisions.items() if healing.allowed}
    by_name = {
        result.stack.name: structs.replace(result, not_healed=decisions[result.stack.name].reasons)
        if result.stack.name in decisions
        else result
        for result in results
    }
    if not allowed:
        return tuple(by_name.values())
    stacks = tuple(by_name[name].stack for name in allowed)
    rules = dict.fromkeys(rule for healing in allowed.values() for rule in healing.rules)
    applied = await apply_change(
        *(context, stacks, PlanOptions()),
        confirm=None,
        plan=lambda run: plan_healing(run, allowed),
        reason=f"healing drift: {'; '.join(rules)}",
    )
    again = await asyncio.gather(
        *(_after(context, by_name[done.stack.name], done, allowed[done.stack.name], now) for done in applied)
    )
    by_name |= {result.stack.name: result for result in again}
    return tuple(by_name.values())


async def plan_healing(run: RunExecutor, allowed: Mapping[str, Healing]) -> StackResult:
    healing = allowed[run.stack.name]
    return await run.plan(PlanOptions(), lambda result: review_healing(result, healing))


def review_healing(result: StackResult, healing: Healing) -> StackResult:
    """Refuses a plan that does anything but set back these findings."""
    if result.plan is None or result.status not in {Status.PLANNED, Status.WAITING}:
        return result
    outside = outside_of_healing(result.plan, healing.keys)
    if not outside:
        return result
    name = result.stack.name
    error = Refused(
        "HF-DRIFT-4",
        f"{name}: not healed: {outside[0]}",
        hint=f"Look at it, then apply it yourself: holdfast plan {name}",
    )
    return structs.replace(result, status=Status.REFUSED, error=error.problem, problems=error.problems)


async def _after(
    context: ChangeContext,
    before: DriftResult,
    done: StackResult,
    healing: Healing,
    now: Callable[[], datetime],
) -> DriftResult:
    """Record the attempt, and look again at what was applied."""
    if done.status not in ATTEMPTED:
        reason = done.error.message if done.error is not None else f"the apply was {done.status}"
        return structs.replace(before, healing=done, not_healed=(reason,))
    moment = now()
    await asyncio.to_thread(
        context.store.drift.update,
        before.stack.name,
        lambda known: with_attempt(known or before.known, healing, moment),
    )
    after = await check_stack(context, before.stack, now)
    left = () if done.status is Status.APPLIED else (f"the apply ended as {done.status}",)
    return structs.replace(after, healing=done, not_healed=left)


def with_attempt(known: StackDrift, healing: Healing, moment: datetime) -> StackDrift:
    findings = tuple(
        with_healing(finding, moment) if finding.key in healing.keys else finding
        for finding in known.findings
    )
    return structs.replace(known, findings=findings)
