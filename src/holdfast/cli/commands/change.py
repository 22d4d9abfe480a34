"""What plan and apply have in common: select, run, show, answer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from holdfast.changes.change import apply_bundles, apply_change, plan_change
from holdfast.changes.removed_stacks import look_into
from holdfast.checks.model.report import Report, Reported, redact_report
from holdfast.cli.command import Invocation
from holdfast.cli.context import Workshop
from holdfast.cli.views.change import show_details, show_footer, show_table
from holdfast.cli.views.checks import show_checks
from holdfast.cli.views.progress import Progress
from holdfast.kernel.errors import Exit, Refused, UsageError
from holdfast.plans import saved_plan as bundles
from holdfast.plans.context import Session
from holdfast.plans.policies import with_unasked
from holdfast.plans.result import StackResult, exit_of
from holdfast.plans.status import Status
from holdfast.runs.document import change_document
from holdfast.secrets.keys import is_key_configured
from holdfast.store.place import folders_of
from holdfast.system import clock
from holdfast.terraform.argv import PlanOptions
from holdfast.terraform.workdirs.disk import fullest_disk, require_disk_space
from holdfast.terraform.workdirs.gc import collect_garbage
from holdfast.terraform.workdirs.gc_policy import size_in_words

Results = tuple[StackResult, ...]


def plan_options(
    *, destroy: bool, targets: list[str] | None, replace: list[str] | None, refresh_only: bool
) -> PlanOptions:
    if refresh_only and (destroy or replace):
        raise UsageError(
            "HF-USE-4",
            "--refresh-only cannot be had together with --destroy or --replace",
            hint="Plan one after the other.",
        )
    if destroy and replace:
        raise UsageError(
            "HF-USE-4",
            "--destroy cannot be had together with --replace",
            hint="What is destroyed is not replaced: leave one of them out.",
        )
    return PlanOptions(
        destroy=destroy,
        targets=tuple(targets or ()),
        replace=tuple(replace or ()),
        refresh_only=refresh_only,
    )


class Change:
    """One invocation of plan or apply."""

    def __init__(
        self,
        invocation: Invocation,
        stacks: list[str] | None = None,
        changed: list[str] | None = None,
        since: str | None = None,
        *,
        wait: float = 0.0,
    ) -> None:
        self.invocation = invocation
        self.console = invocation.console
        self.workshop = Workshop(invocation, wait=wait)
        self.workshop.require_key_that_lasts()
        self.selection = self.workshop.repository.select(stacks or [], changed or [], since)
        self._stacks = tuple(one.stack for one in self.selection.selected)
        self._require_room()
        self._began = clock.monotonic()
        self._checked: Report | None = None
        self._told: set[Reported] = set()
        """Findings that a person was shown before they were asked."""

    def plan(
        self,
        options: PlanOptions,
        *,
        out: Path | None,
        detailed: bool,
        update_lock_files: bool,
        github: bool = False,
        as_markdown: bool = False,
    ) -> Exit:
        if out is not None:
            self._require_key_that_lasts()
            self.workshop.key()
            bundles.prepare_folder(out)
        self.workshop.require_store()
        self.console.say(f" {self.selection.headline()}")

        async def work(session: Session) -> Results:
            results = await plan_change(
                session, self._stacks, options, out=out, update_lock_files=update_lock_files
            )
            return (*results, *await self._removed(session))

        results = self._run(lambda _: work)
        headline = "; ".join(filter(None, (self.selection.headline(), self.selection.unasked)))
        exit_ = exit_of(results, detailed=detailed)
        if as_markdown:
            from holdfast.cli.views.github_report import show_markdown

            show_markdown(
                self.invocation, results, operation="plan", headline=headline, checked=self._checked
            )
        else:
            self._show(results, folded=github)
        if github:
            from holdfast.cli.views.github_report import tell_github

            tell_github(
                self.invocation,
                results,
                operation="plan",
                headline=headline,
                exit_=exit_,
                root=self.workshop.repository.config.root,
                checked=self._checked,
            )
        if out is not None and not self.invocation.as_json:
            ready = any(one.status in {Status.PLANNED, Status.UNCHANGED} for one in results)
            how = f"   apply it with: holdfast apply --plan {out}" if ready else ""
            self.console.say(f" bundle: {out}{how}")
        return exit_

    def apply(self, options: PlanOptions, *, yes: bool) -> Exit:
        if not yes and not sys.stdin.isatty():
            raise UsageError(
                "HF-USE-5",
                "there is no terminal to ask on",
                hint="Say --yes, or plan with --out and apply the bundle with --plan.",
            )
        self.workshop.require_store()
        self.console.say(f" {self.selection.headline()}")

        def with_progress(progress: Progress) -> Callable[[Session], Awaitable[Results]]:
            async def work(session: Session) -> Results:
                confirm = None if yes else self._confirm(progress, session)
                results = await apply_change(session, self._stacks, options, confirm=confirm)
                return (*results, *await self._removed(session))

            return work

        results = self._run(with_progress)
        self._show(results)
        return exit_of(results)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(stack.name for stack in self._stacks)

    def destroy(self, agreed: frozenset[str]) -> Exit:
        """Each stack whose name is not agreed to yet is asked for by name."""
        from holdfast.changes.destroy import require_unneeded

        self.workshop.require_store()
        self.console.say(f" {self.selection.headline()}")

        def with_progress(progress: Progress) -> Callable[[Session], Awaitable[Results]]:
            async def work(session: Session) -> Results:
                require_unneeded(session, self._stacks)
                confirm = None if self.names <= agreed else self._type_names(progress, session, agreed)
                options = PlanOptions(destroy=True)
                return await apply_change(session, self._stacks, options, confirm=confirm, what="destroy")

            return work

        results = self._run(with_progress)
        self._show(results)
        return exit_of(results)

    def _type_names(
        self, progress: Progress, session: Session, agreed: frozenset[str]
    ) -> Callable[[Results], Awaitable[bool]]:
        async def confirm(results: Results) -> bool:
            await self._hear_checks(session, so_far=True)
            progress.paused()
            self._show_plans(results)
            ready = [one.stack.name for one in results if one.status is Status.PLANNED]
            for name in ready:
                if name in agreed:
                    continue
                self.console.question(f"Everything in {name} will be destroyed. Type its name:", answers="")
                if (await _line_or_stop(session)).strip() != name:
                    progress.resumed()
                    return False
            progress.resumed()
            return True

        return confirm

    def apply_bundles(self, folder: Path, *, override: tuple[str, ...] = (), reason: str = "") -> Exit:
        pairs = []
        for bundle in bundles.load(folder, self.workshop.key()):
            stack = self.workshop.repository.by_name.get(bundle.stack)
            if stack is None:
                raise Refused(
                    "HF-BUND-9",
                    f"the bundle is for {bundle.stack}, which is not a stack of this repository",
                    hint="Apply it in the repository it was made in.",
                )
            pairs.append((stack, bundle))
        self.workshop.require_store()

        async def work(session: Session) -> Results:
            if override:
                from holdfast.runs.approval import override_denials

                await override_denials(session, [bundle for _, bundle in pairs], override, reason)
            return await apply_bundles(session, pairs, saved=str(folder))

        results = self._run(lambda _: work)
        self._show(results)
        return exit_of(results)

    def _run(self, work: Callable[[Progress], Callable[[Session], Awaitable[Results]]]) -> Results:
        async def checked(session: Session) -> Results:
            results = await work_(session)
            await self._hear_checks(session)
            return results

        with Progress(self.console) as progress:
            work_ = work(progress)
            return self.workshop.run(checked, tell=progress.hear)

    async def _hear_checks(self, session: Session, *, so_far: bool = False) -> None:
        if session.checks is not None and not session.stop.level:
            found = with_unasked(await session.checks.report(so_far=so_far), self.selection.unasked)
            self._checked = redact_report(found, self.console.redactor.clean)

    def _show_plans(self, results: Results) -> None:
        verbose = self.invocation.verbose
        show_table(self.console, results)
        show_details(self.console, results, verbose=verbose)
        if self._checked is not None:
            show_checks(self.console, self._checked, results, verbose=verbose, told=self._told)

    def _require_room(self) -> None:
        """A run that fills the disk half-way could not save a state: it is refused before it starts."""
        repository = self.workshop.repository
        home = self.invocation.environment.home
        places = (home, *folders_of(repository.store.blobs))
        if fullest_disk(places) is not None:
            collect_garbage(home, repository.config.work)
            require_disk_space(places)

    async def _removed(self, session: Session) -> Results:
        return tuple(gone.result() for gone in await look_into(session, self.selection.gone))

    def _require_key_that_lasts(self) -> None:
        environment = self.invocation.environment
        if environment.ci and not is_key_configured(environment):
            raise UsageError(
                "HF-KEY-9",
                "a bundle written in CI outlives the machine and needs a key that does too",
                hint="Set HOLDFAST_KEY (base64 of 32 bytes) or HOLDFAST_KEY_FILE as a secret of the "
                "pipeline, for plan and apply.",
            )

    def _confirm(self, progress: Progress, session: Session) -> Callable[[Results], Awaitable[bool]]:
        async def confirm(results: Results) -> bool:
            await self._hear_checks(session, so_far=True)
            progress.paused()
            self._show_plans(results)
            count = sum(1 for result in results if result.status is Status.PLANNED)
            self.console.question(f"Apply {count} stack{'s' if count != 1 else ''}?")
            answered = await _line_or_stop(session)
            progress.resumed()
            return answered.strip().lower() in {"y", "yes"}

        return confirm

    def _show(self, results: Results, *, folded: bool = False) -> None:
        if self.invocation.as_json:
            self.invocation.document(change_document(results, self._checked))
            return
        self._show_plans(results)
        if folded and self.invocation.environment.get("GITHUB_ACTIONS") == "true":
            from holdfast.cli.views.github_report import show_folded

            show_folded(self.invocation, results, operation="plan")
        show_footer(self.console, results, clock.monotonic() - self._began)
        self._show_cleaned()

    def _show_cleaned(self) -> None:
        redact_report = self.workshop.cleaned
        if redact_report is not None and redact_report.freed:
            freed, used = size_in_words(redact_report.freed), size_in_words(redact_report.used)
            self.console.say((f" cleaned: {freed} of old work directories; {used} are in use now", "dim"))


async def _line_or_stop(session: Session) -> str:
    """A line from the terminal, or nothing when the person pressed Ctrl-C instead."""
    ready = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), ready.set)
    waiting = asyncio.create_task(ready.wait())
    stopping = asyncio.create_task(session.stop.reached(1))
    try:
        await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return sys.stdin.readline() if ready.is_set() else ""
    finally:
        loop.remove_reader(sys.stdin.fileno())
        waiting.cancel()
        stopping.cancel()
