"""`apply` of a change that was planned or begun before: a bundle, or what is left of a change."""

from __future__ import annotations

from pathlib import Path

from holdfast.changes import continuation, preconditions
from holdfast.changes.bundles import results_without_plan, stacks_of_bundles
from holdfast.changes.change import apply_bundles
from holdfast.cli.changes.change import Change, exit_if_blocked, require_answer
from holdfast.cli.changes.screen import Results
from holdfast.cli.views.progress import Progress
from holdfast.kernel.errors import Exit
from holdfast.kernel.text import plural
from holdfast.plans import saved_plan as bundles
from holdfast.plans.base_rules import rules_of_bundles
from holdfast.plans.context import ChangeContext
from holdfast.plans.restore import plans_destroy
from holdfast.plans.status import Status
from holdfast.terraform.argv import PlanOptions


class SavedChange(Change):
    def apply_bundle(
        self, folder: Path, *, override: tuple[str, ...], break_glass: bool, reason: str, allow_blocked: bool
    ) -> Exit:
        bundles.require_bundle(folder)
        key = self.context.bundle_key(folder)
        saved, planned = bundles.load(folder, key), bundles.read_change(folder, key)
        base = self.context.base = rules_of_bundles(
            [plan.base for plan in saved], self.repository.config, self.repository.code
        )
        pairs = stacks_of_bundles(self.repository, saved, base)
        self.screen.destroys = frozenset(plan.stack for plan in saved if plan.destroy)
        preconditions.require_store(self.repository)
        self._show_weakened()

        async def work(change_context: ChangeContext, _: Progress) -> Results:
            if override:
                from holdfast.runs.approval import override_denials

                for plan in await override_denials(
                    *(change_context, saved, planned, override, reason), break_glass=break_glass
                ):
                    self.console.say(f" Overriding {plan.stack}  run {plan.run}  digest {plan.digest}")
            options = {plan.stack: plan.options for plan in saved if not plans_destroy(plan)}
            self.screen.change = saved[0].change if saved else planned.id
            record = continuation.record_change(
                *(change_context, options),
                digests={plan.stack: plan.digest for plan in saved},
                change=self.screen.change,
                bundle=str(folder),
                without_plan=planned.without_plan,
            )
            results = await apply_bundles(
                *(change_context, pairs),
                saved=str(folder),
                record=record if options else None,
                on_checks=self._take_checks,
            )
            if not options:
                return (*results, *results_without_plan(self.repository, planned.without_plan, None))
            self.screen.left = record.left
            missing = {
                name: status for name, status in planned.without_plan.items() if name in self.screen.left
            }
            return (*results, *results_without_plan(self.repository, missing, self.screen.change))

        return self._finish(self._run(work, show_plans=True), blocked=exit_if_blocked(allow=allow_blocked))

    def continue_change(self, change: str | None, *, yes: bool, allow_blocked: bool) -> Exit:
        """Plan and apply what is left of a change, with the options and the base that it had."""
        require_answer(yes=yes)
        preconditions.require_store(self.repository)
        chosen = continuation.choose_change(self.repository.store, change)
        record = continuation.RecordedChange(chosen)
        self.screen.change = chosen.id
        rules = self.context.base = rules_of_bundles(
            [chosen.base], self.repository.config, self.repository.code
        )
        known = [self.repository.by_name[name] for name in chosen.left if name in self.repository.by_name]
        self._stacks = tuple(stack if rules is None else rules.stricter(stack) for stack in known)
        for name in chosen.left:
            if name not in self.names:
                self.console.warn(f"{name} is no longer a stack of this repository")
        record.add(dict.fromkeys(frozenset(chosen.left) - self.names, Status.REMOVED))
        if not self._stacks:
            self.console.say(f" Nothing is left of change {chosen.id}.")
            return self._finish(())
        begun = f"begun {chosen.at[:16].replace('T', ' ')} by {chosen.who}"
        self.console.say(
            f" Continuing change {chosen.id}, {begun}: {plural(len(self._stacks), 'stack')} left"
        )
        self._show_weakened()

        async def work(change_context: ChangeContext, progress: Progress) -> Results:
            return await self._apply(change_context, progress, PlanOptions(), record, yes=yes)

        return self._finish(self._run(work, show_plans=yes), blocked=exit_if_blocked(allow=allow_blocked))
