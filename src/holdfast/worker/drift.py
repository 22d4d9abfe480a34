"""What a worker does for drift: read a schedule, look at a stack, undo what a rule allows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import structs

from holdfast.changes.repository import Repository
from holdfast.drift.check import check_stack
from holdfast.drift.heal_rules import Healing, healing_of
from holdfast.drift.healing import ATTEMPTED, review_healing, with_attempt
from holdfast.drift.report import headline
from holdfast.drift.result import DriftResult
from holdfast.kernel.errors import Refused
from holdfast.plans.context import ChangeContext
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.stacks.stack import Stack
from holdfast.store.drift import StackStatus
from holdfast.store.run_store import RunStore
from holdfast.system import clock

_STATUSES: Final = {
    StackStatus.IN_SYNC: Status.UNCHANGED,
    StackStatus.DRIFTED: Status.UNCHANGED,
    StackStatus.UNAPPLIED: Status.UNCHANGED,
    StackStatus.NOT_CHECKED: Status.FAILED,
}
"""Nothing was planned that could be applied; a run says only whether it could look."""


def drift_list(repository: Repository) -> bytes:
    """The schedule of a repository, and its stacks."""
    settings = repository.config.drift
    document: dict[str, Any] = {
        "schedule": settings.schedule,
        "zone": settings.zone,
        "spread": settings.spread,
        "stacks": [
            {
                "stack": stack.name,
                "environment": stack.environment,
                "production": stack.production,
                "target": stack.target.name if stack.target is not None else None,
            }
            for stack in repository.stacks
            if not stack.is_unknown
        ],
    }
    return msgspec.json.encode(document)


async def look(context: ChangeContext, stack: Stack, now: Callable[[], datetime] = clock.now) -> StackResult:
    """Record what is found, and whether it would be healed."""
    result = await check_stack(context, stack, now)
    rules = _healing(context, stack, now).rules if _may_heal(result) else ()
    if result.known.healing != rules:
        context.store.drift.update(
            stack.name, lambda known: structs.replace(known or result.known, healing=rules)
        )
    return run_result(result, context.identity.runs.get(stack.name))


def _may_heal(result: DriftResult) -> bool:
    return result.status is StackStatus.DRIFTED and result.found.error is None


def _healing(context: ChangeContext, stack: Stack, now: Callable[[], datetime]) -> Healing:
    """None of its rules, if anything is outside of them."""
    settings = context.project.config.drift
    known = context.store.drift.of(stack.name)
    if known is None:
        return Healing()
    healing = healing_of(known, stack, settings.heal, now(), settings.zone)
    return healing if healing.allowed else Healing(reasons=healing.reasons)


def run_result(result: DriftResult, run: str | None) -> StackResult:
    error = result.found.error
    return StackResult(
        stack=result.stack,
        status=_STATUSES[result.status],
        run=run,
        error=error if result.status is StackStatus.NOT_CHECKED else None,
        problems=(error,) if error is not None else (),
        notes=(headline(result), *result.found.notes),
        duration=result.duration,
    )


class HealingRun:
    """The apply that undoes drift: decided once more when it is planned, and recorded as an attempt."""

    def __init__(self) -> None:
        self._healing: dict[str, Healing] = {}

    def require(self, context: ChangeContext, stack: Stack) -> None:
        """Raises Refused if the rules no longer allow it."""
        healing = self._healing[stack.name] = _healing(context, stack, clock.now)
        if not healing.allowed:
            reason = healing.reasons[0] if healing.reasons else "nothing is to be healed any more"
            raise Refused("HF-DRIFT-4", f"{stack.name}: not healed: {reason}", hint="holdfast drift")

    def review(self, result: StackResult) -> StackResult:
        return review_healing(result, self._healing.get(result.stack.name, Healing()))

    def record(self, store: RunStore, result: StackResult) -> None:
        """Also if the apply failed. One that waited for an approval was decided by another worker."""
        if result.status not in ATTEMPTED or result.plan is None:
            return
        moment, name = clock.now(), result.stack.name
        known = store.drift.of(name)
        if known is None:
            return
        healing = self._healing.get(name) or Healing(keys=frozenset(finding.key for finding in known.open))
        store.drift.update(name, lambda before: with_attempt(before or known, healing, moment))
