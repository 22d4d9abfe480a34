"""A change: the runs of its stacks, in dependency order and in parallel."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path

from msgspec import structs

from holdfast.audit.entry import What
from holdfast.changes.bundles import record_reads, restore_bundle, write_bundles
from holdfast.changes.continuation import RecordedChange
from holdfast.changes.dependencies import (
    blocked_result,
    needs,
    reversed_dependencies,
    with_dependencies,
)
from holdfast.changes.preconditions import (
    applicable_stacks,
    refusal,
    require_no_dependents,
    require_secrets,
)
from holdfast.hcl.eval.code import LOCK_FILE
from holdfast.kernel.errors import HoldfastError
from holdfast.plans import saved_plan
from holdfast.plans.context import ChangeContext
from holdfast.plans.events import ChangeStarted, Note
from holdfast.plans.restore import plans_destroy
from holdfast.plans.result import StackResult
from holdfast.plans.saved_plan import SavedPlan
from holdfast.plans.status import Status
from holdfast.plans.variables import undeclared_notes, with_variables
from holdfast.plans.workdir import require_homes, require_own_states
from holdfast.recovery.crash_report import explain_unknown_run
from holdfast.review.decide import deletions_in, has_change_budget, with_change_budget
from holdfast.review.plan_checks import PlanChecks
from holdfast.runs import audit_trail, lanes
from holdfast.runs.executor import RunExecutor
from holdfast.stacks.order import waves
from holdfast.stacks.stack import Stack
from holdfast.store.place import folders_of
from holdfast.store.retention import prune_runs, remove_orphaned_output
from holdfast.store.run_store import RunStore
from holdfast.system import clock, files
from holdfast.terraform.argv import PlanOptions

Results = tuple[StackResult, ...]
Confirm = Callable[[Results], Awaitable[bool]]
OnChecks = Callable[[PlanChecks], None]
"""Takes the checks of the change when they begin, to report on them later."""
Plan = Callable[[RunExecutor], Awaitable[StackResult]]
"""Plans a stack, or restores its saved plan."""

_PRUNE_PROBABILITY = 0.05
_UNDECIDED = frozenset({Status.PLANNED, Status.REFUSED, Status.WAITING})


async def plan_change(
    context: ChangeContext,
    stacks: tuple[Stack, ...],
    options: PlanOptions,
    *,
    out: Path | None = None,
    saved: str | None = None,
    update_lock_files: bool = False,
    on_checks: OnChecks | None = None,
) -> Results:
    """Plan every stack. With `out`, write a bundle for each one that has a plan.

    `saved`: where people find it, if that is not `out`.
    """
    context.identity.audit.require_whole()
    stacks = _with_variables(context, stacks, options)
    require_homes(context, stacks)
    if out is not None:
        saved_plan.prepare_folder(out)
    saved = saved or (str(out) if out is not None else None)
    runs = _open_runs(context, stacks, "plan", code=not options.destroy, saved=saved, on_checks=on_checks)

    async def plan(run: RunExecutor) -> None:
        await run.plan(options)
        if update_lock_files:
            _write_lock_file_back(run)
        if out is None:
            await run.close()

    try:
        await gather_all(plan(run) for run in runs.values())
        states = await record_reads(context, runs) if out is not None else {}
        _apply_change_budget(context, runs)
        results = with_dependencies(
            {name: run.result for name, run in runs.items()}, context.project.stacks.values()
        )
        if out is not None:
            await write_bundles(context, out, runs, results, states)
    finally:
        for run in runs.values():
            await run.close()
    in_order = tuple(results[stack.name] for stack in stacks)
    _tell_unreachable(context)
    weakened = context.project.weakened
    audit_trail.record_plans(context.identity.audit, context.control.tell, in_order, weakened)
    return audit_trail.with_break_glass(context.store, context.control.tell, in_order)


def _with_variables(
    context: ChangeContext, stacks: tuple[Stack, ...], options: PlanOptions
) -> tuple[Stack, ...]:
    """With the values of the command line, where there are any."""
    code, given = context.project.code, options.variables
    for note in undeclared_notes(code, stacks, given):
        context.control.tell(Note(stack=None, text=note))
    return tuple(with_variables(code, stack, given) for stack in stacks) if given else stacks


def _open_runs(
    context: ChangeContext,
    stacks: tuple[Stack, ...],
    operation: What,
    *,
    code: bool,
    saved: str | None,
    on_checks: OnChecks | None,
) -> dict[str, RunExecutor]:
    checks = PlanChecks(context.project, context.engines, context.control, stacks, code=code)
    if on_checks is not None:
        on_checks(checks)
    context.engines.expect(len(stacks))
    context.control.tell(ChangeStarted(stacks=tuple(stack.name for stack in stacks), operation=operation))
    explain = partial(explain_unknown_run, context)
    return {
        stack.name: RunExecutor(context, checks, stack, operation=operation, explain=explain, saved=saved)
        for stack in stacks
    }


def _apply_change_budget(context: ChangeContext, runs: dict[str, RunExecutor]) -> None:
    """All deletions of the change count, also those that are applied already."""
    if not has_change_budget(context.project, tuple(run.stack for run in runs.values())):
        return
    deletions = {
        name: deletions_in(context.project, run.stack, run.plan_file)
        for name, run in runs.items()
        if run.plan_file is not None
    }
    decisions = {
        name: (run.result.decision, run.approvals(run.result.digest))
        for name, run in runs.items()
        if run.result.digest is not None and run.result.status in _UNDECIDED
    }
    for name, decision in with_change_budget(decisions, deletions).items():
        runs[name].set_decision(decision)


async def gather_all(works: Iterable[Awaitable[object]]) -> None:
    """Wait for all, then raise the first error: a failure never ends another stack's Terraform."""
    for result in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


def _write_lock_file_back(run: RunExecutor) -> None:
    content = run.plan_file.terraform.lock if run.plan_file is not None else None
    target = run.context.project.root / run.stack.module / LOCK_FILE
    if content is not None and files.content_of(target) != content:
        files.write(target, content, mode=0o644)
        run.context.control.tell(Note(stack=run.stack.name, text=f"wrote {run.stack.module}/{LOCK_FILE}"))


# Apply


async def apply_change(
    context: ChangeContext,
    stacks: tuple[Stack, ...],
    options: PlanOptions,
    *,
    confirm: Confirm | None,
    what: What = "apply",
    plan: Plan | None = None,
    reason: str | None = None,
    record: RecordedChange | None = None,
    saved: str | None = None,
    on_checks: OnChecks | None = None,
) -> Results:
    """Plan and apply. With `confirm`, wave by wave, asking before each; without, each stack when it can.

    A destroy runs in reverse order. Nothing is planned before the lanes are held: another change could make
    the plan stale. `plan` plans a stack in its own way, and `reason` is recorded in the audit log. A `record`
    has the options of each stack.
    """
    options_of = record.options if record is not None else {}
    stacks = tuple(
        with_variables(context.project.code, stack, options_of.get(stack.name, options).variables)
        for stack in _with_variables(context, stacks, options)
    )
    require_homes(context, stacks)
    return await _apply(
        context,
        stacks,
        plan or (lambda run: run.plan(options_of.get(run.stack.name, options))),
        confirm=confirm,
        what=what,
        reason=reason,
        record=record,
        saved=saved,
        on_checks=on_checks,
    )


async def apply_bundles(
    context: ChangeContext,
    pairs: Iterable[tuple[Stack, SavedPlan]],
    *,
    saved: str | None = None,
    record: RecordedChange | None = None,
    on_checks: OnChecks | None = None,
) -> Results:
    """Apply saved plans. Each is checked at the last moment, when the stacks before it are applied."""
    code = context.project.code
    bundles = {
        stack.name: (with_variables(code, stack, bundle.options.variables), bundle) for stack, bundle in pairs
    }
    require_own_states(context, (stack for stack, _ in bundles.values()))
    warnings: dict[str, str] = {}

    async def restore(run: RunExecutor) -> StackResult:
        return await restore_bundle(context, run, bundles[run.stack.name][1], warnings)

    destroyed = [stack for stack, bundle in bundles.values() if plans_destroy(bundle)]
    require_no_dependents(context.project, context.store, destroyed)
    results = await _apply(
        context,
        tuple(stack for stack, _ in bundles.values()),
        restore,
        what="destroy" if bundles and len(destroyed) == len(bundles) else "apply",
        saved=saved,
        record=record,
        on_checks=on_checks,
    )
    return tuple(
        structs.replace(result, notes=(*result.notes, warnings[result.stack.name]))
        if result.stack.name in warnings
        else result
        for result in results
    )


async def _apply(
    context: ChangeContext,
    stacks: tuple[Stack, ...],
    plan: Plan,
    *,
    confirm: Confirm | None = None,
    what: What = "apply",
    saved: str | None = None,
    reason: str | None = None,
    record: RecordedChange | None = None,
    on_checks: OnChecks | None = None,
) -> Results:
    context.store.require_apply_key(what)
    ours, reverse = applicable_stacks(context.project, stacks), what == "destroy"
    audit, tell = context.identity.audit, context.control.tell
    async with lanes.hold_lanes(context.store, context.control, context.identity, ours) as held:
        await require_secrets(context, ours)
        audit_trail.record_start(audit, ours, what=what, weakened=context.project.weakened, reason=reason)
        runs = _open_runs(context, stacks, what, code=not reverse, saved=saved, on_checks=on_checks)
        needed = needs(stacks, context.project.stacks.values())
        needed = reversed_dependencies(needed) if reverse else needed
        if record is not None:
            record.begin(context.store)
        try:
            if confirm is None and not has_change_budget(context.project, stacks):
                await _apply_when_ready(context, runs, plan, needed)
            else:
                await _apply_by_wave(context, runs, plan, needed, confirm, reverse=reverse)
        finally:
            # Processes take a while to end, and what follows needs none of them.
            ending = asyncio.create_task(context.engines.end_idle())
            await asyncio.sleep(0)
            for run in runs.values():
                await run.close()
                audit_trail.record_end(
                    audit, tell, run.result, what=what, override_reason=run.override_reason()
                )
            if record is not None:
                record.finish(context.store, tell, [run.result for run in runs.values()])
            await asyncio.gather(audit_trail.flush(audit, tell), ending)
            _clean_up(context.store)
        _tell_unreachable(context)
        results = held.explain_cancelled(tuple(run.result for run in runs.values()))
        if context.project.config.audit_s3 is not None:
            from holdfast.changes.audit_sink import accept_sink  # noqa: PLC0415 - only where a sink is configured

            await accept_sink(context, results)
        return audit_trail.with_break_glass(context.store, tell, results)


def _tell_unreachable(context: ChangeContext) -> None:
    """Once for all stacks: each result has its own error, and the first one has Terraform's words."""
    for text in context.hosts.summaries():
        context.control.tell(Note(stack=None, text=text))


def _clean_up(store: RunStore) -> None:
    """Searching for old runs costs more than keeping them; a store elsewhere is asked about each buffer."""
    now_and_then = clock.chance() < _PRUNE_PROBABILITY
    with contextlib.suppress(HoldfastError, OSError):
        if now_and_then or folders_of(store.blobs):
            remove_orphaned_output(store)
        if now_and_then:
            prune_runs(store)


async def _apply_when_ready(
    context: ChangeContext, runs: dict[str, RunExecutor], plan: Plan, needed: dict[str, tuple[str, ...]]
) -> None:
    """Each stack starts when those that it needs are finished."""
    finished = {name: asyncio.Event() for name in runs}

    async def apply(name: str, run: RunExecutor) -> None:
        try:
            for other in needed[name]:
                await finished[other].wait()
            if _may_start(context, run, [runs[other] for other in needed[name]]):
                await plan(run)
                await run.apply()
        finally:
            await run.close()
            finished[name].set()

    await gather_all(apply(name, run) for name, run in runs.items())


async def _apply_by_wave(
    context: ChangeContext,
    runs: dict[str, RunExecutor],
    plan: Plan,
    needed: dict[str, tuple[str, ...]],
    confirm: Confirm | None,
    *,
    reverse: bool,
) -> None:
    """All stacks of a wave are planned before one is applied: people and the budget see them together."""
    groups = waves(tuple(run.stack for run in runs.values()), among=tuple(context.project.stacks.values()))
    for wave in reversed(groups) if reverse else groups:
        started = [
            runs[stack.name]
            for stack in wave
            if _may_start(context, runs[stack.name], [runs[other] for other in needed[stack.name]])
        ]
        await gather_all(plan(run) for run in started)
        _apply_change_budget(context, runs)
        ready = [run for run in started if run.result.status is Status.PLANNED]
        if ready and confirm is not None and not await confirm(tuple(run.result for run in started)):
            for run in ready:
                run.decline()
            continue
        # Also those without changes: hooks may be due.
        await gather_all(run.apply() for run in started)


def _may_start(context: ChangeContext, run: RunExecutor, needed: Iterable[RunExecutor]) -> bool:
    """False, with the reason as its result, for a stack that is refused here or lacks one it needs."""
    refused = refusal(context.project, run.stack)
    if refused is not None:
        run.refuse(refused)
        return False
    for other in needed:
        if not other.result.status.satisfies_dependents:
            destroy = run.operation == "destroy"
            run.end_with(blocked_result(run.result, other.stack.name, other.result.status, destroys=destroy))
            return False
    return True
