"""What plan, apply, destroy and import have in common: select stacks, run, show the results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.changes import continuation, preconditions
from holdfast.changes.change import apply_change, plan_change
from holdfast.changes.readers import unselected_readers, with_readers
from holdfast.changes.removed_stacks import inspect_removed
from holdfast.checks.model.report import redact_report
from holdfast.cli.changes.screen import ChangeScreen, Results
from holdfast.cli.command import Invocation
from holdfast.cli.confirmation import ask_for_name, confirm, read_answer, require_terminal
from holdfast.cli.context import CommandContext
from holdfast.cli.views.progress import Progress
from holdfast.kernel.errors import Exit, UsageError
from holdfast.kernel.text import plural
from holdfast.plans import saved_plan as bundles
from holdfast.plans.context import ChangeContext
from holdfast.plans.events import Event, StackFinished
from holdfast.plans.policies import with_unchecked_policies
from holdfast.plans.result import exit_code, planned_later
from holdfast.plans.status import Status
from holdfast.review.plan_checks import PlanChecks
from holdfast.stacks.stack import Stack
from holdfast.terraform.argv import PlanOptions

if TYPE_CHECKING:  # Loaded where there is a pull request.
    from holdfast.cli.views.pull_request import Destination, Fold

Work = Callable[[ChangeContext, Progress], Awaitable[Results]]


def plan_options(
    *,
    destroy: bool,
    targets: list[str] | None,
    excludes: list[str] | None,
    replace: list[str] | None,
    refresh_only: bool,
) -> PlanOptions:
    if targets and excludes:
        raise UsageError(
            "HF-USE-4", "--target cannot be combined with --exclude", hint="Leave one of them out."
        )
    if refresh_only and (destroy or replace):
        raise UsageError(
            "HF-USE-4",
            "--refresh-only cannot be combined with --destroy or --replace",
            hint="Plan one after the other.",
        )
    if destroy and replace:
        raise UsageError(
            "HF-USE-4", "--destroy cannot be combined with --replace", hint="Leave one of them out."
        )
    return PlanOptions(
        destroy=destroy,
        targets=tuple(targets or ()),
        excludes=tuple(excludes or ()),
        replace=tuple(replace or ()),
        refresh_only=refresh_only,
    )


class Change:
    def __init__(
        self,
        invocation: Invocation,
        stacks: list[str] | None = None,
        changed: list[str] | None = None,
        since: str | None = None,
        *,
        base: str | None = None,
        dependents: bool = False,
        dependencies: bool = False,
        wait: float = 0.0,
    ) -> None:
        self.invocation = invocation
        self.console = invocation.console
        self.context = CommandContext(invocation, wait=wait)
        self.repository = self.context.repository
        self.repository.require_stacks()
        preconditions.require_store_key(self.repository)
        self.selection = self.repository.select(
            *(stacks or [], changed or [], since), base=base, dependents=dependents, dependencies=dependencies
        )
        rules = self.context.base = self.selection.base
        self._stacks = tuple(
            selected.stack if rules is None else rules.stricter(selected.stack)
            for selected in self.selection.selected
        )
        preconditions.require_disk_space(self.repository)
        self.screen = ChangeScreen(invocation)
        self._operation = "apply"
        self._checks: PlanChecks | None = None

    @property
    def _weakened(self) -> tuple[str, ...]:
        return self.context.base.weakened if self.context.base is not None else ()

    @property
    def names(self) -> frozenset[str]:
        return frozenset(stack.name for stack in self._stacks)

    def plan(
        self,
        options: PlanOptions,
        *,
        out: Path | None,
        detailed: bool,
        update_lock_files: bool,
        report_to: Destination | None = None,
        as_markdown: bool = False,
        full: bool = False,
    ) -> Exit:
        self.screen.full, self.screen.from_plan = full, options == PlanOptions()
        if out is not None:
            preconditions.require_bundle_key(self.repository)
            self.context.key()
            bundles.prepare_folder(out)
        self._start()

        async def work(change_context: ChangeContext, _: Progress) -> Results:
            self.screen.change = change_context.identity.change
            results = await plan_change(
                change_context,
                self._stacks,
                options,
                out=out,
                update_lock_files=update_lock_files,
                on_checks=self._take_checks,
            )
            return (*results, *await self._removed(change_context))

        results = self._run(work)
        self.screen.planned_later = planned_later(results)
        exit_ = exit_code(results, detailed=detailed)
        if report_to is not None or as_markdown:
            self._report(results, exit_, report_to, as_markdown=as_markdown, out=out)
        else:
            self._show(results)
        if out is not None:
            self.screen.show_saved(results, out)
            if self.repository.config.notify.routes:
                from holdfast.cli.notifications import notify_results

                notify_results(self.invocation, self.repository, results, "plan")
        return exit_

    def _report(
        self, results: Results, exit_: Exit, to: Destination | None, *, as_markdown: bool, out: Path | None
    ) -> None:
        """The plan as Markdown, in the log of a CI job, or as a comment on the pull request."""
        from holdfast.cli.views import pull_request

        parts = (self.selection.headline(), self.selection.unchecked, unselected_readers(results))
        report = pull_request.PlanReport(
            invocation=self.invocation,
            results=results,
            headline="; ".join(filter(None, parts)),
            store=self.repository.store,
            findings=self.screen.findings,
            weakened=self._weakened,
            saved_in=out,
        )
        if as_markdown:
            report.write_markdown()
        else:
            self._show(results, pull_request.folds(self.invocation))
        if to is not None:
            report.publish(to, exit_, self.repository.config.root)

    def apply(self, options: PlanOptions, *, yes: bool, allow_blocked: bool) -> Exit:
        require_answer(yes=yes)
        self._start()

        async def work(change_context: ChangeContext, progress: Progress) -> Results:
            record = continuation.record_change(change_context, dict.fromkeys(self.names, options))
            results = await self._apply(change_context, progress, options, record, yes=yes)
            return (*results, *await self._removed(change_context))

        return self._finish(self._run(work, show_plans=yes), blocked=exit_if_blocked(allow=allow_blocked))

    def import_resource(self, stack: Stack, address: str, id_: str, *, yes: bool, reason: str | None) -> Exit:
        from holdfast.changes.imports import import_resource

        self._operation = "import"
        self._start()

        async def confirm_import(change_context: ChangeContext, _: tuple[str, ...]) -> bool:
            return await confirm(self.console, change_context, f"Import {address}?")

        async def work(change_context: ChangeContext, progress: Progress) -> Results:
            return await import_resource(
                *(change_context, stack, address, id_),
                confirm=None if yes else self._confirmation(change_context, progress, confirm_import),
                reason=reason,
                on_checks=self._take_checks,
            )

        return self._finish(self._run(work))

    async def _apply(
        self,
        change_context: ChangeContext,
        progress: Progress,
        options: PlanOptions,
        record: continuation.RecordedChange,
        *,
        yes: bool,
    ) -> Results:
        results = await apply_change(
            *(change_context, self._stacks, options),
            confirm=None if yes else self._confirmation(change_context, progress, self._confirm_apply),
            record=record,
            on_checks=self._take_checks,
        )
        self.screen.change, self.screen.left = record.id, record.left
        return results

    def destroy(self, confirmed: frozenset[str]) -> Exit:
        """Destroy the selected stacks. The user types the name of each one that is not confirmed yet."""
        from holdfast.changes.preconditions import require_no_dependents

        self._operation = "destroy"
        self.screen.destroys, all_confirmed = self.names, self.names <= confirmed
        self._start()

        async def confirm_destroy(change_context: ChangeContext, ready: tuple[str, ...]) -> bool:
            for name in ready:
                if name in confirmed:
                    continue
                ask_for_name(self.console, name)
                if await read_answer(change_context) != name:
                    return False
            return True

        async def work(change_context: ChangeContext, progress: Progress) -> Results:
            self.screen.change = change_context.identity.change
            require_no_dependents(change_context.project, change_context.store, self._stacks)
            asks = None if all_confirmed else self._confirmation(change_context, progress, confirm_destroy)
            return await apply_change(
                *(change_context, self._stacks, PlanOptions(destroy=True)),
                confirm=asks,
                what="destroy",
                on_checks=self._take_checks,
            )

        return self._finish(self._run(work, show_plans=all_confirmed))

    def _start(self) -> None:
        preconditions.require_store(self.repository)
        preconditions.require_names(self.repository.store, self._stacks)
        self.console.say(f" {self.selection.headline()}")
        self._show_weakened()

    def _show_weakened(self) -> None:
        if self.context.base is not None and self.context.base.warning is not None:
            self.console.warn(self.context.base.warning)

    def _run(self, work: Work, *, show_plans: bool = False) -> Results:
        """`show_plans`: each plan before its stack is applied, because no question follows."""
        with Progress(self.console) as progress:

            def tell(event: Event) -> None:
                progress.handle(event)
                if show_plans and isinstance(event, StackFinished) and event.result.status is Status.PLANNED:
                    self.screen.show_plan(event.result)

            async def with_findings(change_context: ChangeContext) -> Results:
                results = await work(change_context, progress)
                await self._collect_findings(change_context)
                return results

            return self._with_readers(self.context.run(with_findings, tell=tell))

    def _show(self, results: Results, fold: Fold | None = None) -> None:
        self.screen.show(results, weakened=self._weakened, cleaned=self.context.cleaned, fold=fold)

    def _finish(self, results: Results, *, blocked: Exit = Exit.DONE) -> Exit:
        self._show(results)
        self.context.notify_others(results, self._operation)
        return exit_code(results, blocked=blocked)

    def _with_readers(self, results: Results) -> Results:
        return with_readers(results, self.repository.code, self.repository.stacks)

    def _take_checks(self, checks: PlanChecks) -> None:
        self._checks = checks

    async def _collect_findings(self, change_context: ChangeContext, *, so_far: bool = False) -> None:
        if self._checks is not None and not change_context.control.stop.level:
            report = with_unchecked_policies(
                await self._checks.report(so_far=so_far), self.selection.unchecked
            )
            self.screen.findings = redact_report(report, self.console.redactor.clean)

    async def _removed(self, change_context: ChangeContext) -> Results:
        return tuple(
            removed.result() for removed in await inspect_removed(change_context, self.selection.removed)
        )

    def _confirmation(
        self,
        change_context: ChangeContext,
        progress: Progress,
        ask: Callable[[ChangeContext, tuple[str, ...]], Awaitable[bool]],
    ) -> Callable[[Results], Awaitable[bool]]:
        """Show the plans, then ask about those that are ready."""

        async def show_and_ask(results: Results) -> bool:
            await self._collect_findings(change_context, so_far=True)
            with progress.paused():
                self.screen.show_before_question(self._with_readers(results))
                ready = (result.stack.name for result in results if result.status is Status.PLANNED)
                return await ask(change_context, tuple(ready))

        return show_and_ask

    async def _confirm_apply(self, change_context: ChangeContext, ready: tuple[str, ...]) -> bool:
        return await confirm(self.console, change_context, f"Apply {plural(len(ready), 'stack')}?")


def require_answer(*, yes: bool) -> None:
    if not yes:
        require_terminal("Add --yes, or plan with --out and apply the bundle with --plan.")


def exit_if_blocked(*, allow: bool) -> Exit:
    """The exit code of an apply that left a stack blocked."""
    return Exit.DONE if allow else Exit.FAILED
