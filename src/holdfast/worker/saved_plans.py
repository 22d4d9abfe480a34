"""The saved plans of a change: those that a person decided on, and those that wait for a decision."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from holdfast.changes.bundles import record_reads, restore_bundle, write_bundles
from holdfast.kernel.errors import Refused
from holdfast.plans.base_rules import rules_of_bundles
from holdfast.plans.context import ChangeContext
from holdfast.plans.result import StackResult
from holdfast.plans.saved_plan import SavedPlan
from holdfast.plans.status import Status
from holdfast.runs.executor import RunExecutor
from holdfast.store.server_runs.phases import Operation, RunPhase
from holdfast.store.server_runs.rows import Change, RunRows
from holdfast.system import files
from holdfast.worker.run_contents import RunContents
from holdfast.worker.selected_stacks import SelectedStacks, next_plan, outdated
from holdfast.worker.store_client import WorkerRunStore

_STALE: Final = frozenset({"HF-BUND-5", "HF-BUND-6", "HF-BUND-8", "HF-BUND-11", "HF-BUND-23"})
"""The state, the outputs that it read or its environment changed: it is planned and decided on once more."""
_UNDECIDED: Final = frozenset({Status.WAITING, Status.REFUSED})
"""A plan that a person can approve, or whose denial an admin can override."""


class SavedPlans:
    def __init__(self, runs: RunRows, contents: RunContents, store: WorkerRunStore) -> None:
        self.stale: set[str] = set()
        """Stacks whose saved plan no longer counts."""
        self._waiting: set[str] = set()
        """Stacks whose new plan waits for a decision."""
        self._runs = runs
        self._contents = contents
        self._store = store

    def read(self, change: Change, selected: SelectedStacks, folder: Path) -> SelectedStacks:
        """With the saved plans that a person decided on, or that an apply continues."""
        bundles: dict[str, SavedPlan | None] = {}
        shown: set[str] = set()
        if change.operation not in {Operation.APPLY, Operation.DESTROY}:
            return selected
        for run in selected.runs.values():
            of = self._runs.shown_plan(run)
            if of is not None:
                shown.add(run.stack)
            if run.phase is RunPhase.WAITING:
                of = (of or run.id) if self._store.approvals.of(str(run.digest)) else None
            if of is not None and run.phase is not RunPhase.DONE:
                plan = self._runs.of(of)
                digest = plan.digest if plan is not None else None
                bundles[run.stack] = self._contents.read_plan(of, digest, folder / of, self._store.key)
        config, code = selected.repository.config, selected.repository.code
        bases = [bundle.base for bundle in bundles.values() if bundle is not None]
        base = selected.base or rules_of_bundles(bases, config, code)
        later = self._runs.later_applies(change)
        return replace(selected, bundles=bundles, base=base, shown=frozenset(shown), later=later)

    async def restore(
        self, change: Change, selected: SelectedStacks, context: ChangeContext, run: RunExecutor
    ) -> StackResult | None:
        """None: nothing was saved or shown for this stack, so it is planned now."""
        name = run.stack.name
        bundle, shown, hint = selected.bundles.get(name), name in selected.shown, next_plan(change, name)
        if name in selected.later:
            run.refuse(outdated(change, name, selected.later[name]))
        elif bundle is not None:
            result = await restore_bundle(context, run, bundle, {}, hint if shown else None)
            if not shown and result.error is not None and result.error.code in _STALE:
                self.stale.add(name)
                await asyncio.to_thread(self._contents.remove_plan, selected.runs[name].id)
            elif waits_for_decision(result, run):
                self._waiting.add(name)
            return result
        elif shown:
            message = f"{name}: the plan that was shown no longer exists, so nothing was applied"
            run.refuse(Refused("HF-RUN-33", message, hint=hint))
        else:
            return None
        return run.result

    async def save(
        self, context: ChangeContext, run: RunExecutor, out: Path, has_change: Callable[[], Awaitable[bool]]
    ) -> None:
        """The plan waits for a decision, which may arrive at another worker."""
        name, runs = run.stack.name, {run.stack.name: run}
        states = await record_reads(context, runs)
        files.private_folder(out)
        await write_bundles(context, out, runs, {name: run.result}, states)
        if (out / name).is_dir() and await has_change():
            await asyncio.to_thread(self._contents.save_plan, run.run.id, out / name)
            self._waiting.add(name)

    def is_held(self, result: StackResult) -> bool:
        """Its run is not over: it waits for a decision, or is planned once more."""
        name = result.stack.name
        return name in self.stale or (name in self._waiting and result.status in _UNDECIDED)


def waits_for_decision(result: StackResult, run: RunExecutor) -> bool:
    return result.status in _UNDECIDED and run.plan_file is not None
