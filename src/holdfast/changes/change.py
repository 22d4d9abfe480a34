"""A change: the runs of its stacks, in dependency order, in parallel. Only here stages are put in order."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path

from msgspec import structs

from holdfast.audit.entry import What
from holdfast.changes.dependencies import blocked, needs, the_other_way, with_dependencies
from holdfast.changes.preconditions import may_apply, refusal, require_unneeded
from holdfast.config.settings import Owner
from holdfast.guard.decision import Allow
from holdfast.hcl.eval.code import LOCK_FILE
from holdfast.kernel.errors import HoldfastError, Refused
from holdfast.plans import saved_plan as bundles
from holdfast.plans import state_continuity
from holdfast.plans.context import ChangeContext
from holdfast.plans.events import Begun, Ended, Note
from holdfast.plans.result import StackResult
from holdfast.plans.saved_plan import SavedPlan, StateIdentity
from holdfast.plans.status import Status
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import open_workdir, require_homes, state_at_hand
from holdfast.recovery.crash_report import explain_unknown_run
from holdfast.review.decide import has_change_budget, with_change_budget
from holdfast.review.plan_checks import PlanChecks
from holdfast.runs import audit_trail, lanes
from holdfast.runs.apply import used
from holdfast.runs.document import summary_document
from holdfast.runs.executor import RunExecutor
from holdfast.stacks.order import waves
from holdfast.stacks.stack import Stack
from holdfast.store.retention import prune_runs, remove_orphaned_output
from holdfast.store.run_store import RunStore
from holdfast.system import clock, files
from holdfast.terraform.argv import PlanOptions
from holdfast.terraform.statefile.model import read_state

Results = tuple[StackResult, ...]
Confirm = Callable[[Results], Awaitable[bool]]
OnChecks = Callable[[PlanChecks], None]
"""Takes the checks of the change when they begin, to report on them later."""

_BUNDLED = frozenset({Status.PLANNED, Status.UNCHANGED, Status.REFUSED, Status.WAITING})
"""Statuses with a plan that can still be applied later, perhaps after an override."""


_OFTEN_ENOUGH = 0.05
_STILL_OPEN = frozenset({Status.PLANNED, Status.REFUSED, Status.WAITING})


async def plan_change(
    context: ChangeContext,
    stacks: tuple[Stack, ...],
    options: PlanOptions,
    *,
    out: Path | None = None,
    update_lock_files: bool = False,
    on_checks: OnChecks | None = None,
) -> Results:
    """Plan every stack. With `out`, write a bundle for each one that has a plan."""
    require_homes(context, stacks)
    if out is not None:
        bundles.prepare_folder(out)
    checks = PlanChecks(context.project, context.engines, context.control, stacks, code=not options.destroy)
    saved = str(out) if out is not None else None
    runs = _open_runs(context, checks, stacks, "plan", saved=saved, on_checks=on_checks)

    async def one(run: RunExecutor) -> None:
        await run.plan(options)
        if update_lock_files:
            _write_lock_file_back(run)
        if out is None:
            await run.close()

    try:
        await all_of(one(run) for run in runs.values())
        _within_budget(context, tuple(runs.values()))
        results = with_dependencies(
            {name: run.result for name, run in runs.items()}, context.project.stacks.values()
        )
        if out is not None:
            await _write_bundles(context, out, runs, results)
    finally:
        for run in runs.values():
            await run.close()
    found = tuple(results[stack.name] for stack in stacks)
    audit_trail.record_plans(context.identity.audit, context.control.tell, found)
    return audit_trail.with_break_glass(context.store, context.control.tell, found)


def _within_budget(context: ChangeContext, runs: tuple[RunExecutor, ...]) -> None:
    """What all of them together would lose decides about each. Those that are applied already count."""
    if not has_change_budget(context.project.config, tuple(run.stack for run in runs)):
        return
    losses = {run.stack.name: lost for run in runs if (lost := run.losses()) is not None}
    decisions = {
        run.stack.name: (run.result.decision, run.result.digest)
        for run in runs
        if run.result.digest is not None and run.result.status in _STILL_OPEN
    }
    for name, decision in with_change_budget(context.store, decisions, losses).items():
        next(run for run in runs if run.stack.name == name).overruled(decision)


async def all_of(works: Iterable[Awaitable[object]]) -> None:
    """All to their end, whatever befalls one of them: nothing is taken from under a running Terraform."""
    ends = await asyncio.gather(*works, return_exceptions=True)
    for end in ends:
        if isinstance(end, BaseException):
            raise end


def _write_lock_file_back(run: RunExecutor) -> None:
    content = run.lock_file
    if content is not None:
        target = run.context.project.root / run.stack.module / LOCK_FILE
        if not target.exists() or target.read_bytes() != content:
            files.write(target, content, mode=0o644)
            run.context.control.tell(Note(stack=run.stack.name, text=f"wrote {run.stack.module}/{LOCK_FILE}"))


async def _write_bundles(
    context: ChangeContext, out: Path, runs: dict[str, RunExecutor], results: dict[str, StackResult]
) -> None:
    """Of every stack that has a plan. One whose dependency's state cannot be told fails alone."""
    key = context.store.key
    seen = {name: run.state_seen for name, run in runs.items()}
    written: dict[str, str] = {}
    for name, run in runs.items():
        if results[name].status not in _BUNDLED:
            continue
        try:
            for other in run.stack.depends_on:
                seen[other] = seen.get(other) or await state_of(context, context.project.stacks[other])
        except HoldfastError as error:
            run.refuse(error)
            results[name] = run.result
            continue
        dependencies = {other: one for other in run.stack.depends_on if (one := seen[other])}
        bundle = run.bundle(dependencies=dependencies, selection=tuple(runs))
        if bundle is not None:
            if not isinstance(results[name].decision, Allow):
                # A saved plan can be approved, but not by the person who planned it.
                await context.identity.prove()
                context.store.approvals.record_author(bundle.digest, context.identity.audit.who.document())
            bundles.write(out, bundle, summary_document(results[name]), key)
            written[name] = bundle.digest
    statuses = {name: result.status.value for name, result in results.items()}
    bundles.write_change(out, statuses=statuses, digests=written, key=key)


async def state_of(context: ChangeContext, stack: Stack) -> StateIdentity:
    """The identity of a state that this change does not plan."""
    async with context.engines.slots, open_workdir(context, stack) as ready:
        content = state_at_hand(context.store, ready)
        if content is None:
            terraform = Terraform(context, ready)
            await terraform.init()
            content = await terraform.state_pull()
        return state_continuity.identity(read_state(content))


# Apply


async def apply_change(
    context: ChangeContext,
    stacks: tuple[Stack, ...],
    options: PlanOptions,
    *,
    confirm: Confirm | None,
    what: What = "apply",
    on_checks: OnChecks | None = None,
) -> Results:
    """Plan and apply. With `confirm`, wave by wave, asking before each; without, as soon as each can.

    A destroy goes the other way: what others need goes last.
    Nothing is planned before the lanes are ours: what another change does there would make it stale.
    """
    require_homes(context, stacks)

    async def plan(run: RunExecutor) -> StackResult:
        return await run.plan(options)

    return await _apply(context, stacks, plan, confirm=confirm, what=what, on_checks=on_checks)


async def _apply(
    context: ChangeContext,
    stacks: tuple[Stack, ...],
    plan: Callable[[RunExecutor], Awaitable[StackResult]],
    *,
    confirm: Confirm | None = None,
    what: What = "apply",
    saved: str | None = None,
    on_checks: OnChecks | None = None,
) -> Results:
    ours, reverse = may_apply(context.project, stacks), what == "destroy"
    async with lanes.hold_lanes(context.store, context.control, context.identity, ours) as holding:
        audit_trail.record_start(context.identity.audit, ours, what=what)
        checks = PlanChecks(context.project, context.engines, context.control, stacks, code=not reverse)
        runs = _open_runs(context, checks, stacks, what, saved=saved, on_checks=on_checks)
        try:
            if confirm is None and not has_change_budget(context.project.config, stacks):
                await _apply_flowing(context, runs, plan, reverse=reverse)
            else:
                await _apply_by_wave(context, runs, plan, confirm, reverse=reverse)
        finally:
            for run in runs.values():
                await run.close()
                audit_trail.record_end(
                    context.identity.audit,
                    context.control.tell,
                    run.result,
                    what=what,
                    override_reason=run.override_reason(),
                )
            await audit_trail.flush(context.identity.audit, context.control.tell)
            _forget(context.store)
        results = holding.explain_cancelled(tuple(run.result for run in runs.values()))
        return audit_trail.with_break_glass(context.store, context.control.tell, results)


def _forget(store: RunStore) -> None:
    """Words that lie in memory, and runs from long ago: to look for these costs more than they do."""
    with contextlib.suppress(HoldfastError, OSError):
        remove_orphaned_output(store)
        if clock.chance() < _OFTEN_ENOUGH:
            prune_runs(store)


def _open_runs(
    context: ChangeContext,
    checks: PlanChecks,
    stacks: tuple[Stack, ...],
    operation: What,
    *,
    saved: str | None,
    on_checks: OnChecks | None,
) -> dict[str, RunExecutor]:
    if on_checks is not None:
        on_checks(checks)
    context.engines.expect(len(stacks))
    context.control.tell(Begun(stacks=tuple(stack.name for stack in stacks), operation=operation))
    explain = partial(explain_unknown_run, context)
    return {
        stack.name: RunExecutor(context, checks, stack, operation=operation, explain=explain, saved=saved)
        for stack in stacks
    }


async def _apply_flowing(
    context: ChangeContext,
    runs: dict[str, RunExecutor],
    plan: Callable[[RunExecutor], Awaitable[StackResult]],
    *,
    reverse: bool,
) -> None:
    done = {name: asyncio.Event() for name in runs}
    waits = needs((run.stack for run in runs.values()), context.project.stacks.values())
    waits = the_other_way(waits) if reverse else waits

    async def one(run: RunExecutor) -> None:
        needed = waits[run.stack.name]
        try:
            for name in needed:
                await done[name].wait()
            if not _stopped(context, run, [runs[name] for name in needed]):
                await plan(run)
                await run.apply()
        finally:
            await run.close()
            done[run.stack.name].set()

    await all_of(one(run) for run in runs.values())


async def _apply_by_wave(
    context: ChangeContext,
    runs: dict[str, RunExecutor],
    plan: Callable[[RunExecutor], Awaitable[StackResult]],
    confirm: Confirm | None,
    *,
    reverse: bool,
) -> None:
    stacks = tuple(run.stack for run in runs.values())
    everything = tuple(context.project.stacks.values())
    waits = needs(stacks, everything)
    waits = the_other_way(waits) if reverse else waits
    groups = waves(stacks, among=everything)
    for wave in reversed(groups) if reverse else groups:
        now = [
            runs[stack.name]
            for stack in wave
            if not _stopped(context, runs[stack.name], [runs[name] for name in waits[stack.name]])
        ]
        await all_of(plan(run) for run in now)
        _within_budget(context, tuple(runs.values()))
        ready = [run for run in now if run.result.status is Status.PLANNED]
        if ready and confirm is not None and not await confirm(tuple(run.result for run in now)):
            for run in ready:
                run.decline()
            continue
        await all_of(run.apply() for run in ready)


def _stopped(context: ChangeContext, run: RunExecutor, needed: Iterable[RunExecutor]) -> bool:
    """Whether the stack must not begin: not ours to apply, or something it needs is not there."""
    refused = refusal(context.project, run.stack)
    if refused is not None:
        run.refuse(refused)
        return True
    for other in needed:
        if not other.result.status.satisfies_dependents:
            ends = run.operation == "destroy"
            run.end_with(blocked(run.result, other.stack.name, f"is {other.result.status}", ends=ends))
            return True
    return False


# Bundles


async def apply_bundles(
    context: ChangeContext,
    found: Iterable[tuple[Stack, SavedPlan]],
    *,
    saved: str | None = None,
    on_checks: OnChecks | None = None,
) -> Results:
    """Apply plans that were made before. Each is checked at the last moment, when its turn has come."""
    pairs = {stack.name: (stack, bundle) for stack, bundle in found}
    stacks = tuple(stack for stack, _ in pairs.values())
    warnings: dict[str, str] = {}

    async def restore(run: RunExecutor) -> StackResult:
        name, bundle = run.stack.name, pairs[run.stack.name][1]
        try:
            if warning := _require_store(context.store, run.stack, bundle):
                warnings[name] = warning
                context.control.tell(Note(stack=name, text=warning))
            await _require_dependencies(context, run.stack, bundle)
        except HoldfastError as error:
            run.refuse(error)
            return run.result
        result = await run.restore(bundle)
        if result.status is not Status.PLANNED:
            context.control.tell(Ended(result=result))
        return result

    ends = bool(pairs) and all(bundle.destroy for _, bundle in pairs.values())
    require_unneeded(
        context.project, context.store, [stack for stack, bundle in pairs.values() if bundle.destroy]
    )
    what: What = "destroy" if ends else "apply"
    results = await _apply(context, stacks, restore, what=what, saved=saved, on_checks=on_checks)
    return tuple(_warned(result, warnings.get(result.stack.name)) for result in results)


def _warned(result: StackResult, warning: str | None) -> StackResult:
    return structs.replace(result, notes=(*result.notes, warning)) if warning else result


def _require_store(store: RunStore, stack: Stack, bundle: SavedPlan) -> str | None:
    """If the plan's own store cannot be reached, it is unknown whether the plan was used."""
    mark = store.used(bundle.digest)
    if mark is not None:
        raise used(stack.name, mark)
    if bundle.store == store.id():
        return None
    ours = stack.target is not None and stack.target.owner is Owner.CI
    if stack.production or bundle.production or ours:
        raise Refused(
            "HF-BUND-7",
            f"{stack.name}: the plan was made with another run store ({bundle.store}), "
            "so it is unknown whether it was already applied",
            hint="Plan and apply with the same store, or make a new plan here.",
        )
    return "the plan comes from another run store; only Terraform's own stale-plan check applies"


async def _require_dependencies(context: ChangeContext, stack: Stack, bundle: SavedPlan) -> None:
    for name, then in bundle.dependencies.items():
        if name not in context.project.stacks:
            raise Refused(
                "HF-BUND-8",
                f"{stack.name}: {name}, which it depended on when the plan was made, no longer exists",
                hint=f"Plan {stack.name} again.",
            )
        now = await state_of(context, context.project.stacks[name])
        if now != then:
            raise Refused(
                "HF-BUND-8",
                f"{stack.name}: {name}, which it depends on, changed since the plan was made "
                f"(serial {then.serial} then, {now.serial} now)",
                hint=f"Plan {stack.name} again.",
            )
