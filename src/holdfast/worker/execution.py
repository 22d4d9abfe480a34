"""Runs one claimed change as the command line would, for the person who asked for it.

What happens to its runs is written to their rows only while this worker has the change: a worker that was
declared dead applies nothing more and writes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from holdfast.changes.change import apply_change, plan_change
from holdfast.changes.preconditions import require_disk_space, require_no_dependents
from holdfast.changes.readers import with_readers
from holdfast.changes.repository import Repository
from holdfast.guard.decision import Allow
from holdfast.kernel.errors import Busy, HoldfastError, Refused, internal_error
from holdfast.kernel.server_hints import problem_on_server
from holdfast.plans.context import ChangeContext, Control, Identity, Project
from holdfast.plans.events import Event, StackFinished, Stopping
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.review.decide import ON_SERVER, PLANNED_ON_SERVER
from holdfast.runs.document import error_document
from holdfast.runs.executor import RunExecutor
from holdfast.secrets.reader import SecretReader
from holdfast.secrets.redact import Redactor, clean_document
from holdfast.store.fleet.contents import EventContent, read_event
from holdfast.store.server_runs.claiming import Claiming
from holdfast.store.server_runs.contents import DriftTask, RunEnd, drift_list_name
from holdfast.store.server_runs.phases import ChangePhase, Operation, RunPhase
from holdfast.store.server_runs.rows import Change, Run
from holdfast.store.stack_names import require_no_device
from holdfast.terraform.argv import PlanOptions
from holdfast.terraform.engine.interface import Stop
from holdfast.worker.change_report import ChangeReporter
from holdfast.worker.device import DeviceChange, Timings
from holdfast.worker.drift import HealingRun, drift_list, look
from holdfast.worker.reconciling import reconcile_stack
from holdfast.worker.run_contents import RunContents, batches, run_end
from holdfast.worker.run_output import RunOutput, write_error
from holdfast.worker.saved_plans import SavedPlans, waits_for_decision
from holdfast.worker.selected_stacks import SelectedStacks, lost, new_run, ready_stacks
from holdfast.worker.services import WorkerServices
from holdfast.worker.takeover import leave_claim
from holdfast.worker.tracing import Trace

_WAIT_SECONDS: Final = 600.0
"""For a lane or a stack that another run holds, such as one of the command line."""


class ChangeExecution:
    def __init__(self, services: WorkerServices, claiming: Claiming, change: Change) -> None:
        self.change = change
        self.stop = Stop()
        self.applying: set[str] = set()
        """Stacks whose plan is being applied: a worker that ends does not stop these."""
        self.requeued = False
        """The worker ends: another one takes what is not finished."""
        self.lost = False
        self._services = services
        self._claiming = claiming
        self._redactor = Redactor()
        self._store = services.store_of(change)
        self._contents = RunContents(services.stores.of(change.tenant).encrypted)
        self._reporter = ChangeReporter(self._contents)
        self._output: RunOutput | None = None
        self._trace = services.tracing.of(change) if services.tracing is not None else Trace()
        self._device: DeviceChange | None = None
        self._timings = Timings(change) if change.event is not None else None
        self._drift: DriftTask | None = None
        self._healing: HealingRun | None = None
        self._plans = SavedPlans(services.runs, self._contents, self._store)

    async def run(self) -> None:
        """Until nothing more can be done now. Every error becomes that of the change."""
        error: HoldfastError | None = None
        try:
            await self._execute()
        except HoldfastError as raised:
            # Stopped while it waited for a lane: it is cancelled, or queued for another worker.
            error = raised if not (isinstance(raised, Busy) and self.stop.level) else None
        except Exception as raised:  # noqa: BLE001 - other changes of this worker go on
            error = internal_error(raised, f"running change {self.change.id}")
            self._services.log.error(  # noqa: TRY400 - the text of an exception may quote a state
                "change failed", change=self.change.id, message=error.problem.message
            )
        self._trace.close()
        self._store.end()
        if self.lost:
            return
        mine = (self.change.id, self.change.fence)
        if error is None and (self._plans.stale or self.requeued):
            await asyncio.to_thread(self._claiming.requeue, *mine)
        else:
            document: Mapping[str, object] | None = None
            if error is not None:
                document = clean_document(self._redactor, error_document(problem_on_server(error.problem)))
                await write_error(self._open_output(), error.problem)
            finish = partial(self._claiming.finish, refused=isinstance(error, Refused))
            if await asyncio.to_thread(finish, *mine, document) is ChangePhase.DONE:
                self._trace.finish()

    def _open_output(self, runs: Mapping[str, str] | None = None) -> RunOutput:
        """Of these runs, by stack, or of all that are not done."""
        open_runs = {run.stack: run.id for run in self.change.runs if run.phase is not RunPhase.DONE}
        blobs, ids = self._contents.blobs, open_runs if runs is None else runs
        return RunOutput(self._services.database, blobs, self.change.id, ids, self._redactor)

    def cancel(self, level: int = 1) -> None:
        """`level` 2, as the second Ctrl-C: at once. What was in progress may be lost from the state."""
        while self.stop.level < level:
            self._tell(Stopping(level=self.stop.ask()))

    def lose(self) -> None:
        """Another worker has the change: nothing more is started or written."""
        self.lost = True
        if not self.stop.level:
            self.stop.ask()

    def drain(self) -> None:
        """A plan is made again elsewhere; an apply is never stopped."""
        self.requeued = True
        if not self.applying and not self.stop.level:
            self.stop.ask()

    async def _execute(self) -> None:
        services = self._services
        await asyncio.to_thread(services.require_requester, self.change.requester)
        self._drift = (await asyncio.to_thread(self._contents.decisions, self.change)).drift
        self._healing = HealingRun() if self._drift is DriftTask.HEAL else None
        source, repository = await services.open_repository(self.change, self._store)
        if self.change.event is not None:
            content = await asyncio.to_thread(read_event, self._contents.blobs, self.change.event)
            self._device = DeviceChange(self.change, content or EventContent())
            self._store.more_rules = self._device.approval_rules
            repository = self._device.repository(repository)
        repository.tune(self._redactor)
        if self._drift is DriftTask.LIST:
            blobs, name = self._contents.blobs, drift_list_name(self.change.id)
            await asyncio.to_thread(blobs.write, name, drift_list(repository))
            return
        selected = await self._select(repository, source.base)
        if selected is None or self.stop.level:
            return
        if self._device is None:
            require_no_device(selected.runs)
        require_disk_space(repository)
        self._output = self._open_output(selected.ids)
        with tempfile.TemporaryDirectory(dir=services.warm.scratch) as name:
            folder = Path(name)
            selected = await asyncio.to_thread(self._plans.read, self.change, selected, folder)
            async with self._output.writing(), self._open_context(selected) as context:
                if self._drift is DriftTask.LOOK:
                    await self._look(selected, context)
                elif self.change.operation is Operation.PLAN:
                    await self._plan(selected, context, folder / "bundle")
                elif self.change.operation is Operation.RECONCILE:
                    await self._reconcile(selected, context)
                else:
                    await self._apply(selected, context, folder)

    async def _select(self, repository: Repository, base: str | None) -> SelectedStacks | None:
        """With the runs of its stacks. None: another worker continues, or the change was lost."""
        patterns = self.change.patterns
        selection = None
        if patterns is not None or base is not None:
            selection = await asyncio.to_thread(repository.select, list(patterns or ()), [], base)
        if patterns is not None and selection is not None:
            new = [new_run(selected.stack) for selected in selection.selected]
            change = await asyncio.to_thread(self._claiming.add_runs, self.change.id, self.change.fence, new)
            if change is None:
                self.lost = True
                return None
            self.change = change
            self._trace.select(change)
        return SelectedStacks(
            repository=repository,
            runs={run.stack: run for run in self.change.runs if run.stack in repository.by_name},
            selection=selection,
            base=selection.base if selection is not None else None,
        )

    @contextlib.asynccontextmanager
    async def _open_context(self, selected: SelectedStacks) -> AsyncIterator[ChangeContext]:
        repository, store = selected.repository, self._store
        project = Project(
            config=repository.config,
            environment=repository.environment,
            code=repository.code,
            stacks=repository.by_name,
            base=selected.base,
            verified_ci=lambda: store.is_ci,
            run_store=store.blobs.shown,
        )
        identity = Identity(
            *(store, project.environment, self._redactor),
            root=project.root,
            change=self.change.id,
            runs=selected.ids,
        )
        with self._services.warm.engines(self.change.tenant, project, repository) as engines:
            yield ChangeContext(
                project=project,
                store=store,
                engines=engines,
                secrets=SecretReader(project.environment, project.root),
                redactor=self._redactor,
                identity=identity,
                control=Control(tell=self._tell, stop=self.stop, wait=_WAIT_SECONDS),
                given=partial(self._device.override, identity.audit.who)
                if self._device is not None
                else lambda *_: (),
            )

    async def _plan(self, selected: SelectedStacks, context: ChangeContext, out: Path) -> None:
        pending = [run for run in selected.runs.values() if run.phase is not RunPhase.DONE]
        for run in pending:
            if not await self._set_phase(run, RunPhase.PLANNING):
                return
        stacks = selected.stacks(run.stack for run in pending)
        results = await plan_change(
            *(context, stacks, self._contents.options(self.change)),
            out=out,
            saved=PLANNED_ON_SERVER,
            on_checks=self._reporter.take_checks,
        )
        results = with_readers(results, selected.repository.code, selected.repository.stacks)
        await self._report(selected, context, results)
        await self._record([(selected.runs[result.stack.name], result) for result in results], plans=out)

    async def _look(self, selected: SelectedStacks, context: ChangeContext) -> None:
        """For drift. Its runs plan nothing that could be applied."""
        for name, run in selected.runs.items():
            if run.phase is RunPhase.DONE or not await self._set_phase(run, RunPhase.PLANNING):
                continue
            result = await look(context, selected.stacks((name,))[0])
            self._tell(StackFinished(result=result))
            await self._record([(run, result)])

    async def _reconcile(self, selected: SelectedStacks, context: ChangeContext) -> None:
        for name, run in selected.runs.items():
            for phase in (RunPhase.PLANNING, RunPhase.APPLYING):
                if run.phase is RunPhase.DONE or not await self._set_phase(run, phase):
                    return
            self.applying.add(name)
            given = self._contents.decisions(self.change), self._contents.options(self.change).variables
            result = await reconcile_stack(context, selected.stacks((name,))[0], run.retried_from, *given)
            self._tell(StackFinished(result=result))
            await self._record([(run, result)])

    async def _apply(self, selected: SelectedStacks, context: ChangeContext, folder: Path) -> None:
        """Saved plans that were decided on are applied as they are; the others are planned now."""
        destroy, options = self.change.operation is Operation.DESTROY, self._contents.options(self.change)
        ready, blocked = ready_stacks(selected, destroy=destroy)
        await self._record([(selected.runs[name], result) for name, result in blocked.items()])
        stacks = selected.stacks(name for name in selected.runs if name in ready)
        if not stacks:
            return
        if destroy:
            require_no_dependents(context.project, context.store, stacks)
        results = await apply_change(
            *(context, stacks, options),
            confirm=None,
            what="destroy" if destroy else "apply",
            plan=partial(self._plan_or_restore, selected, context, options, folder),
            reason=self.change.reason or None,
            saved=ON_SERVER,
            on_checks=self._reporter.take_checks,
        )
        if self._healing is not None:
            for result in results:
                await asyncio.to_thread(self._healing.record, context.store, result)
        results = with_readers(results, selected.repository.code, selected.repository.stacks)
        await self._report(selected, context, (*results, *blocked.values()))
        held = {result.stack.name for result in results if self._plans.is_held(result)}
        ended: list[tuple[Run, StackResult]] = []
        for result in results:  # In dependency order: a stack that waits holds those that need it.
            if result.status is Status.BLOCKED and result.blocked_by in held:
                held.add(result.stack.name)
            else:
                ended.append((selected.runs[result.stack.name], result))
        await self._record(ended)

    async def _plan_or_restore(
        self,
        selected: SelectedStacks,
        context: ChangeContext,
        options: PlanOptions,
        folder: Path,
        run: RunExecutor,
    ) -> StackResult:
        name, row = run.stack.name, selected.runs[run.stack.name]
        if not await self._set_phase(row, RunPhase.PLANNING):
            return self._refuse_lost(run)
        result = await self._plans.restore(self.change, selected, context, run)
        if result is None:
            result = await self._plan_new(context, run, options)
            if waits_for_decision(result, run):
                await self._plans.save(context, run, folder / "new" / row.id, self._has_change)
                result = run.result
        if result.status is Status.PLANNED and isinstance(result.decision, Allow):
            # The fence: a worker that lost the change applies nothing.
            if not await self._set_phase(row, RunPhase.APPLYING):
                return self._refuse_lost(run)
            self.applying.add(name)
        return result

    async def _plan_new(self, context: ChangeContext, run: RunExecutor, options: PlanOptions) -> StackResult:
        if self._healing is None:
            return await run.plan(options, self._device.review if self._device is not None else None)
        try:
            await asyncio.to_thread(self._healing.require, context, run.stack)
        except Refused as error:
            run.refuse(error)
            return run.result
        return await run.plan(options, self._healing.review)

    def _refuse_lost(self, run: RunExecutor) -> StackResult:
        run.refuse(lost(run.stack.name))
        return run.result

    async def _record(self, results: Sequence[tuple[Run, StackResult]], plans: Path | None = None) -> None:
        """In the rows of the runs and beside them, with their saved plans."""
        for run, result in results:
            await asyncio.to_thread(leave_claim, self._store, run, result.status)
        if self._output is not None:  # Who follows the log stops at the end of the run.
            await self._output.flush()
        mine = self.change.id, self.change.fence
        for ends in batches(self._ends(results, plans)):
            if self.lost or not await asyncio.to_thread(
                self._claiming.end_runs, *mine, ends, self._contents.blobs
            ):
                self.lose()
                return

    def _ends(self, results: Sequence[tuple[Run, StackResult]], plans: Path | None) -> Iterator[RunEnd]:
        for run, result in results:
            self.applying.discard(run.stack)
            stopped = result.status is Status.CANCELLED and self.change.cancel is None
            if not (self.requeued and stopped) and run.stack not in self._plans.stale:
                waits = self._plans.is_held(result) and self.change.operation is not Operation.PLAN
                plan = plans / run.stack if plans is not None else None
                timings = self._timings.document() if self._timings is not None else None
                yield run_end(run.id, result, self._redactor, waits=waits, plan=plan, timings=timings)

    async def _report(
        self, selected: SelectedStacks, context: ChangeContext, results: tuple[StackResult, ...]
    ) -> None:
        """Before the results: who waits for those reads it then. It never fails the change."""
        if self._plans.stale or not await self._has_change():
            return
        try:
            await self._reporter.save(self.change, selected, context, results)
        except Exception as error:  # noqa: BLE001 - see above
            self._services.log.error(  # noqa: TRY400 - the text of an exception may quote a plan
                "report failed", change=self.change.id, reason=type(error).__name__
            )

    async def _has_change(self) -> bool:
        """What lies beside the rows is written only then."""
        mine = self.change.id, self.change.fence
        if self.lost or not await asyncio.to_thread(self._claiming.has, *mine):
            self.lose()
        return not self.lost

    async def _set_phase(self, run: Run, phase: RunPhase) -> bool:
        """False: another worker has the change."""
        mine = self.change.id, self.change.fence
        if self.lost or not await asyncio.to_thread(self._claiming.set_phase, *mine, run.id, phase):
            self.lose()
            return False
        return True

    def _tell(self, event: Event) -> None:
        self._trace.handle(event)
        if self._timings is not None:
            self._timings.handle(event)
        if self._output is not None and not self.lost:
            self._output.handle(event)
