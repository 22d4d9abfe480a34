"""What `depends_on` means in one change: which stack waits for which, what follows from a result. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import structs

from holdfast.kernel.errors import Problem
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.stacks.order import waves
from holdfast.stacks.stack import Stack

PLAN_FAILED = "HF-TF-3"
"""Terraform could not plan: perhaps because a dependency has not created something yet."""

_HAS_A_PLAN = frozenset({Status.PLANNED, Status.UNCHANGED, Status.WAITING})
_PENDING = frozenset({Status.PLANNED, Status.REFUSED, Status.WAITING})
_STATUS_CLAUSES = {
    Status.PLANNED: "is not applied yet",
    Status.FAILED: "failed",
    Status.CANCELLED: "was cancelled",
    Status.UNKNOWN: "has an unknown outcome",
    Status.WAITING: "needs an approval",
}


def needs(chosen: Iterable[Stack], among: Iterable[Stack]) -> dict[str, tuple[str, ...]]:
    """For each chosen stack, the chosen ones it waits for, also through stacks that are not chosen."""
    ours = {stack.name: stack for stack in chosen}
    everything = {**{stack.name: stack for stack in among}, **ours}
    waits: dict[str, tuple[str, ...]] = {}
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
        waits[name] = tuple(sorted(nearest - {name}))
    return waits


def reversed_dependencies(waits: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """For a destroy: a stack waits for those that depend on it."""
    return {name: tuple(sorted(other for other, needed in waits.items() if name in needed)) for name in waits}


def with_dependencies(
    results: Mapping[str, StackResult], among: Iterable[Stack] = ()
) -> dict[str, StackResult]:
    """The results of a plan, with what each means for the stacks that depend on it."""
    everything = tuple(among)
    stacks = tuple(result.stack for result in results.values())
    waits = needs(stacks, everything)
    final: dict[str, StackResult] = {}
    for wave in waves(stacks, among=everything):
        for stack in wave:
            needed = [final[name] for name in waits[stack.name]]
            final[stack.name] = _with_needed(results[stack.name], needed)
    return final


def _with_needed(result: StackResult, needed: list[StackResult]) -> StackResult:
    """`blocked` adds nothing to the exit code, so it must not hide a failure of the stack's own."""
    only_plan_failed = bool(result.problems) and all(error.code == PLAN_FAILED for error in result.problems)
    may_lack_dependency = result.status is Status.FAILED and only_plan_failed
    if result.status not in _HAS_A_PLAN and not may_lack_dependency:
        return _with_blocker(result, needed)
    stopping = next((other for other in needed if other.status.stops_dependents), None)
    if stopping is not None and result.status is Status.WAITING:
        # The missing approval must not be hidden either.
        note = f"depends on {stopping.stack.name}, which {status_clause(stopping.status)}"
        return structs.replace(result, notes=(*result.notes, note))
    if stopping is not None:
        return blocked_result(result, stopping.stack.name, stopping.status)
    pending = [other.stack.name for other in needed if other.status in _PENDING]
    if not pending:
        return result
    if may_lack_dependency:
        return blocked_result(result, pending[0], Status.PLANNED)
    was = "was" if len(pending) == 1 else "were"
    note = (
        f"planned before {', '.join(pending)}, which it depends on, {was} applied; the plan may change then"
    )
    return structs.replace(result, notes=(*result.notes, note))


def _with_blocker(result: StackResult, needed: list[StackResult]) -> StackResult:
    """If an output that it needs does not exist, it waits for a stack that is not applied yet."""
    missing = next((other for other in needed if not other.status.satisfies_dependents), None)
    if result.status is not Status.BLOCKED or missing is None:
        return result
    return structs.replace(result, blocked_by=missing.stack.name)


def status_clause(status: Status) -> str:
    """What a message says about a stack that stops others: `dev/network failed`."""
    return _STATUS_CLAUSES.get(status, f"is {status}")


def blocked_result(
    result: StackResult, dependency: str, status: Status, *, destroys: bool = False
) -> StackResult:
    """By the status of another stack. `destroys`: it was to be destroyed, but the other depends on it."""
    relation = "is used by" if destroys else "depends on"
    reason = f" ({result.error.message})" if result.error is not None else ""
    return structs.replace(
        result,
        status=Status.BLOCKED,
        digest=None,
        blocked_by=dependency,
        error=Problem(
            code="HF-RUN-3",
            message=f"{result.stack.name} {relation} {dependency}, which {status_clause(status)}{reason}",
            hint=_next_step(dependency, status, destroys=destroys),
        ),
    )


def _next_step(dependency: str, status: Status, *, destroys: bool) -> str:
    if status is Status.BLOCKED:
        return f"See what blocks {dependency}."
    if status is Status.WAITING:
        return f"Get {dependency} approved first, as described there."
    if destroys:
        return f"Destroy {dependency} first: holdfast destroy {dependency}"
    return f"Fix or apply {dependency} first: holdfast apply {dependency}"
