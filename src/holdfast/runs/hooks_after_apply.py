"""The hooks after an apply: due from before the apply until all of them have succeeded.

An apply without changes runs them if they are due.
"""

from __future__ import annotations

from msgspec import structs

from holdfast.plans.plan_file import PlanFile
from holdfast.plans.result import StackResult
from holdfast.store.run_store import RunStore

_DUE = "after_apply hooks are due: the next apply runs them"
_RAN_AGAIN = "ran the after_apply hooks again"


class HooksAfterApply:
    """Of one stack."""

    def __init__(self, store: RunStore, stack: str) -> None:
        self._store = store
        self._stack = stack
        self.due_since: str | None = None
        """The run after which they did not succeed."""

    def read(self, plan_file: PlanFile) -> None:
        """Reads nothing for a stack without such hooks."""
        self.due_since = self._store.due_hooks.run_of(self._stack) if plan_file.hooks_follow else None

    def in_plan(self, result: StackResult) -> StackResult:
        """The result of a plan, with a note if they are due."""
        if self.due_since is None:
            return result
        note = f"the after_apply hooks did not succeed in run {self.due_since}; the next apply runs them"
        return structs.replace(result, notes=(*result.notes, note), remark=result.remark or _DUE)

    async def run(self, plan_file: PlanFile) -> None:
        await plan_file.terraform.hooks.run("after_apply")
        self._store.due_hooks.clear(self._stack)

    async def run_again(self, unchanged: StackResult, plan_file: PlanFile) -> StackResult:
        await self.run(plan_file)
        note = f"ran the after_apply hooks again, which did not succeed in run {self.due_since}"
        return structs.replace(unchanged, notes=(*unchanged.notes, note), remark=_RAN_AGAIN)
