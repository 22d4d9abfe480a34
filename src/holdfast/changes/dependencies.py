"""What `depends_on` means inside one change: who waits for whom, and what follows from an answer. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import structs

from holdfast.plans.result import ResultError, StackResult
from holdfast.plans.status import Status
from holdfast.stacks.order import waves
from holdfast.stacks.stack import Stack

PLAN_FAILED = "HF-TF-3"
"""Terraform could not plan: perhaps for want of something that a dependency is yet to make."""

_HAS_A_PLAN = frozenset({Status.PLANNED, Status.UNCHANGED, Status.WAITING})
_PENDING = frozenset({Status.PLANNED, Status.REFUSED, Status.WAITING})


def needs(chosen: Iterable[Stack], among: Iterable[Stack]) -> dict[str, tuple[str, ...]]:
    """For each chosen stack, the chosen ones it waits for.

    A stack that is not chosen is not run, and still keeps two others in order.
    """
    ours = {stack.name: stack for stack in chosen}
    everything = {**{stack.name: stack for stack in among}, **ours}
    found: dict[str, tuple[str, ...]] = {}
    for name, stack in ours.items():
        nearest: set[str] = set()
        passed: set[str] = set()
        queue = list(stack.depends_on)
        while queue:
            other = queue.pop()
            if other in ours:
                nearest.add(other)
            elif other not in passed and other in everything:
                passed.add(other)
                queue.extend(everything[other].depends_on)
        found[name] = tuple(sorted(nearest - {name}))
    return found


def the_other_way(waits: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """For an end: a stack waits for those that need it."""
    return {name: tuple(sorted(other for other, needed in waits.items() if name in needed)) for name in waits}


def with_dependencies(
    results: Mapping[str, StackResult], among: Iterable[Stack] = ()
) -> dict[str, StackResult]:
    """What a dependency's answer means for the stacks that need it, after a plan of all."""
    everything = tuple(among)
    stacks = tuple(result.stack for result in results.values())
    waits = needs(stacks, everything)
    settled: dict[str, StackResult] = {}
    for wave in waves(stacks, among=everything):
        for stack in wave:
            needed = [settled[name] for name in waits[stack.name]]
            settled[stack.name] = _beside(results[stack.name], needed)
    return settled


def _beside(result: StackResult, needed: list[StackResult]) -> StackResult:
    """Failed by its own fault stays failed: `blocked` adds nothing to the exit code and must hide nothing."""
    for_want_of_it = result.status is Status.FAILED and _only_the_plan_failed(result)
    if result.status not in _HAS_A_PLAN and not for_want_of_it:
        return result
    stopping = next((other for other in needed if other.status.stops_dependents), None)
    if stopping is not None and result.status is Status.WAITING:
        # That it waits for people must not be hidden either.
        note = f"its dependency {stopping.stack.name} is {stopping.status}"
        return structs.replace(result, notes=(*result.notes, note))
    if stopping is not None:
        return blocked(result, stopping.stack.name, _state_of(stopping.status))
    pending = [one.stack.name for one in needed if one.status in _PENDING]
    if not pending:
        return result
    if for_want_of_it:
        return blocked(result, pending[0], "is not applied yet")
    note = f"planned before its dependency {', '.join(pending)} is applied; the plan may change then"
    return structs.replace(result, notes=(*result.notes, note))


def _state_of(status: Status) -> str:
    return "failed" if status is Status.FAILED else f"is {status}"


def _only_the_plan_failed(result: StackResult) -> bool:
    return bool(result.problems) and all(one.code == PLAN_FAILED for one in result.problems)


def blocked(result: StackResult, dependency: str, why: str, *, ends: bool = False) -> StackResult:
    """`ends`: it was to be destroyed, but the other stack depends on it."""
    relation = "is used by" if ends else "depends on"
    hint = f"Destroy {dependency} first." if ends else f"Fix or apply {dependency} first."
    reason = f" ({result.error.message})" if result.error is not None else ""
    return structs.replace(
        result,
        status=Status.BLOCKED,
        digest=None,
        error=ResultError(
            code="HF-RUN-3",
            message=f"{result.stack.name} {relation} {dependency}, which {why}{reason}",
            hint=hint,
        ),
    )
