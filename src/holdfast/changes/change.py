"""A change: the runs of its stacks, in dependency order, in parallel. Only here stages are put in order."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from msgspec import structs

from holdfast.audit.entry import What
from holdfast.changes.apply_rules import may_apply, refusal
from holdfast.changes.dependencies import blocked, needs, the_other_way, with_dependencies
from holdfast.changes.destroy import require_unneeded
from holdfast.config.settings import Owner
from holdfast.guard.decision import Allow
from holdfast.hcl.eval.code import LOCK_FILE
from holdfast.kernel.errors import HoldfastError, Refused
from holdfast.plans import saved_plan as bundles
from holdfast.plans import state_continuity
from holdfast.plans.context import Session
from holdfast.plans.events import Begun, Ended, Note
from holdfast.plans.result import StackResult
from holdfast.plans.saved_plan import Bundle, StateSeen
from holdfast.plans.status import SETTLED, Status
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import prepared, require_homes, state_at_hand
from holdfast.review.decide import budgeted, has_budget_of_change
from holdfast.review.plan_checks import PlanChecks
from holdfast.runs import audit_trail, lanes
from holdfast.runs.apply import used
from holdfast.runs.document import summary_document
from holdfast.runs.retention import forget_old, forget_words
from holdfast.runs.run import StackRun
from holdfast.stacks.order import waves
from holdfast.stacks.stack import Stack
from holdfast.system import clock, files
from holdfast.terraform.argv import PlanOptions
from holdfast.terraform.statefile.model import read_state

Results = tuple[StackResult, ...]
Confirm = Callable[[Results], Awaitable[bool]]

_BUNDLED = frozenset({Status.PLANNED, Status.UNCHANGED, Status.REFUSED, Status.WAITING})
"""Statuses with a plan that can still be applied later, perhaps after an override."""


_OFTEN_ENOUGH = 0.05
_STILL_OPEN = frozenset({Status.PLANNED, Status.REFUSED, Status.WAITING})


async def plan_change(
    session: Session,
    stacks: tuple[Stack, ...],
    options: PlanOptions,
    *,
    out: Path | None = None,
    update_lock_files: bool = False,
) -> Results:
    """Plan every stack. With `out`, write a bundle for each one that has a plan."""
    require_homes(session, stacks)
    if out is not None:
        bundles.prepare_folder(out)
    session.expected = len(stacks)
    session.tell(Begun(stacks=tuple(stack.name for stack in stacks), operation="plan"))
    session.checks = PlanChecks(session, stacks, code=not options.destroy)
    saved = str(out) if out is not None else None
    runs = {stack.name: StackRun(session, stack, operation="plan", saved=saved) for stack in stacks}

    async def one(run: StackRun) -> None:
        await run.plan(options)
        if update_lock_files:
            _write_lock_file_back(run)
        if out is None:
            await run.close()

    try:
        await all_of(one(run) for run in runs.values())
        _within_budget(session, tuple(runs.values()))
        results = with_dependencies({name: run.result for name, run in runs.items()}, session.stacks.values())
        if out is not None:
            await _write_bundles(session, out, runs, results)
    finally:
        for run in runs.values():
            await run.close()
    found = tuple(results[stack.name] for stack in stacks)
    audit_trail.planned(session, found)
    return audit_trail.with_break_glass(session, found)


def _within_budget(session: Session, runs: tuple[StackRun, ...]) -> None:
    """What all of them together would lose decides about each. Those that are applied already count."""
    if not has_budget_of_change(session, tuple(run.stack for run in runs)):
        return
    losses = {run.stack.name: lost for run in runs if (lost := run.losses()) is not None}
    decisions = {
        run.stack.name: (run.result.decision, run.result.digest)
        for run in runs
        if run.result.digest is not None and run.result.status in _STILL_OPEN
    }
    for name, decision in budgeted(session, decisions, losses).items():
        next(run for run in runs if run.stack.name == name).overruled(decision)


async def all_of(works: Iterable[Awaitable[object]]) -> None:
    """All to their end, whatever befalls one of them: nothing is taken from under a running Terraform."""
    ends = await asyncio.gather(*works, return_exceptions=True)
    for end in ends:
        if isinstance(end, BaseException):
            raise end


def _write_lock_file_back(run: StackRun) -> None:
    content = run.lock_file
    if content is not None:
        target = run.session.root / run.stack.module / LOCK_FILE
        if not target.exists() or target.read_bytes() != content:
            files.write(target, content, mode=0o644)
            run.session.tell(Note(stack=run.stack.name, text=f"wrote {run.stack.module}/{LOCK_FILE}"))


async def _write_bundles(
    session: Session, out: Path, runs: dict[str, StackRun], results: dict[str, StackResult]
) -> None:
    """Of every stack that has a plan. One whose dependency's state cannot be told fails alone."""
    key = session.key()
    seen = {name: run.state_seen for name, run in runs.items()}
    written: dict[str, str] = {}
    for name, run in runs.items():
        if results[name].status not in _BUNDLED:
            continue
        try:
            for other in run.stack.depends_on:
                seen[other] = seen.get(other) or await state_of(session, session.stack(other))
        except HoldfastError as error:
            run.refuse(error)
            results[name] = run.result
            continue
        dependencies = {other: one for other in run.stack.depends_on if (one := seen[other])}
        bundle = run.bundle(dependencies=dependencies, selection=tuple(runs))
        if bundle is not None:
            if not isinstance(results[name].decision, Allow):
                # Somebody may speak about it, and nobody about their own.
                await session.prove()
                session.store.consents.saved(bundle.digest, session.audit.who.document())
            bundles.write(out, bundle, summary_document(results[name]), key)
            written[name] = bundle.digest
    statuses = {name: result.status.value for name, result in results.items()}
    bundles.write_change(out, statuses=statuses, digests=written, key=key)


async def state_of(session: Session, stack: Stack) -> StateSeen:
    """The identity of a state that this change does not plan."""
    async with session.places, prepared(session, stack) as ready:
        content = state_at_hand(session, ready)
        if content is None:
            terraform = Terraform(session, ready)
            await terraform.init()
            content = await terraform.state_pull()
        return state_continuity.identity(read_state(content))


# Apply


async def apply_change(
    session: Session,
    stacks: tuple[Stack, ...],
    options: PlanOptions,
    *,
    confirm: Confirm | None,
    what: What = "apply",
) -> Results:
    """Plan and apply. With `confirm`, wave by wave, asking before each; without, as soon as each can.

    A destroy goes the other way: what others need goes last.
    Nothing is planned before the lanes are ours: what another change does there would make it stale.
    """
    require_homes(session, stacks)

    async def plan(run: StackRun) -> StackResult:
        return await run.plan(options)

    return await _apply(session, stacks, plan, confirm=confirm, what=what)


async def _apply(
    session: Session,
    stacks: tuple[Stack, ...],
    plan: Callable[[StackRun], Awaitable[StackResult]],
    *,
    confirm: Confirm | None = None,
    what: What = "apply",
    saved: str | None = None,
) -> Results:
    ours, reverse = may_apply(session, stacks), what == "destroy"
    async with lanes.held(session, ours) as holding:
        audit_trail.begun(session, ours, what=what)
        runs = _begun(session, stacks, what, saved)
        try:
            if confirm is None and not has_budget_of_change(session, stacks):
                await _apply_flowing(session, runs, plan, reverse=reverse)
            else:
                await _apply_by_wave(session, runs, plan, confirm, reverse=reverse)
        finally:
            for run in runs.values():
                await run.close()
                audit_trail.ended(session, run.result, what=what, override_reason=run.override_reason())
            await audit_trail.closed(session)
            _forget(session)
        results = holding.explained(tuple(run.result for run in runs.values()))
        return audit_trail.with_break_glass(session, results)


def _forget(session: Session) -> None:
    """Words that lie in memory, and runs from long ago: to look for these costs more than they do."""
    with contextlib.suppress(HoldfastError, OSError):
        forget_words(session.store)
        if clock.chance() < _OFTEN_ENOUGH:
            forget_old(session.store)


def _begun(session: Session, stacks: Iterable[Stack], what: What, saved: str | None) -> dict[str, StackRun]:
    runs = {stack.name: StackRun(session, stack, operation=what, saved=saved) for stack in stacks}
    session.checks = PlanChecks(session, tuple(run.stack for run in runs.values()), code=what != "destroy")
    session.expected = len(runs)
    session.tell(Begun(stacks=tuple(runs), operation=what))
    return runs


async def _apply_flowing(
    session: Session,
    runs: dict[str, StackRun],
    plan: Callable[[StackRun], Awaitable[StackResult]],
    *,
    reverse: bool,
) -> None:
    done = {name: asyncio.Event() for name in runs}
    waits = needs((run.stack for run in runs.values()), session.stacks.values())
    waits = the_other_way(waits) if reverse else waits

    async def one(run: StackRun) -> None:
        needed = waits[run.stack.name]
        try:
            for name in needed:
                await done[name].wait()
            if not _stopped(session, run, [runs[name] for name in needed]):
                await plan(run)
                await run.apply()
        finally:
            await run.close()
            done[run.stack.name].set()

    await all_of(one(run) for run in runs.values())


async def _apply_by_wave(
    session: Session,
    runs: dict[str, StackRun],
    plan: Callable[[StackRun], Awaitable[StackResult]],
    confirm: Confirm | None,
    *,
    reverse: bool,
) -> None:
    stacks = tuple(run.stack for run in runs.values())
    everything = tuple(session.stacks.values())
    waits = needs(stacks, everything)
    waits = the_other_way(waits) if reverse else waits
    groups = waves(stacks, among=everything)
    for wave in reversed(groups) if reverse else groups:
        now = [
            runs[stack.name]
            for stack in wave
            if not _stopped(session, runs[stack.name], [runs[name] for name in waits[stack.name]])
        ]
        await all_of(plan(run) for run in now)
        _within_budget(session, tuple(runs.values()))
        ready = [run for run in now if run.result.status is Status.PLANNED]
        if ready and confirm is not None and not await confirm(tuple(run.result for run in now)):
            for run in ready:
                run.decline()
            continue
        await all_of(run.apply() for run in ready)


def _stopped(session: Session, run: StackRun, needed: Iterable[StackRun]) -> bool:
    """Whether the stack must not begin: not ours to apply, or something it needs is not there."""
    refused = refusal(session, run.stack)
    if refused is not None:
        run.refuse(refused)
        return True
    for other in needed:
        if other.result.status not in SETTLED:
            run.result = blocked(
                run.result, other.stack.name, f"is {other.result.status}", ends=run.operation == "destroy"
            )
            session.tell(Ended(result=run.result))
            return True
    return False


# Bundles


async def apply_bundles(
    session: Session, found: Iterable[tuple[Stack, Bundle]], *, saved: str | None = None
) -> Results:
    """Apply plans that were made before. Each is checked at the last moment, when its turn has come."""
    pairs = {stack.name: (stack, bundle) for stack, bundle in found}
    stacks = tuple(stack for stack, _ in pairs.values())
    warnings: dict[str, str] = {}

    async def restore(run: StackRun) -> StackResult:
        name, bundle = run.stack.name, pairs[run.stack.name][1]
        try:
            if warning := _require_store(session, run.stack, bundle):
                warnings[name] = warning
                session.tell(Note(stack=name, text=warning))
            await _require_dependencies(session, run.stack, bundle)
        except HoldfastError as error:
            run.refuse(error)
            return run.result
        result = await run.restore(bundle)
        if result.status is not Status.PLANNED:
            session.tell(Ended(result=result))
        return result

    ends = bool(pairs) and all(bundle.destroy for _, bundle in pairs.values())
    require_unneeded(session, [stack for stack, bundle in pairs.values() if bundle.destroy])
    results = await _apply(session, stacks, restore, what="destroy" if ends else "apply", saved=saved)
    return tuple(_warned(result, warnings.get(result.stack.name)) for result in results)


def _warned(result: StackResult, warning: str | None) -> StackResult:
    return structs.replace(result, notes=(*result.notes, warning)) if warning else result


def _require_store(session: Session, stack: Stack, bundle: Bundle) -> str | None:
    """Where the plan's own record cannot be reached, nobody can say whether it was used."""
    mark = session.store.used(bundle.digest)
    if mark is not None:
        raise used(stack.name, mark)
    if bundle.store == session.store.id():
        return None
    ours = stack.target is not None and stack.target.owner is Owner.CI
    if stack.production or bundle.production or ours:
        raise Refused(
            "HF-BUND-7",
            f"{stack.name}: the plan was made with another run store ({bundle.store}), "
            "so nobody can say whether it was used",
            hint="Plan and apply with the same store, or make a new plan here.",
        )
    return "the plan comes from another run store; only Terraform's own check for staleness is left"


async def _require_dependencies(session: Session, stack: Stack, bundle: Bundle) -> None:
    for name, then in bundle.dependencies.items():
        if name not in session.stacks:
            raise Refused(
                "HF-BUND-8",
                f"{stack.name}: {name}, which it depended on when the plan was made, is no stack any more",
                hint=f"Plan {stack.name} again.",
            )
        now = await state_of(session, session.stack(name))
        if now != then:
            raise Refused(
                "HF-BUND-8",
                f"{stack.name}: {name}, which it depends on, changed since the plan was made "
                f"(serial {then.serial} then, {now.serial} now)",
                hint=f"Plan {stack.name} again.",
            )
