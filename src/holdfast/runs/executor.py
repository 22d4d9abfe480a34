"""Executes the run of one stack: plan it, apply the plan, and report the outcome as a result.

No error leaves this module: each becomes the result of its stack, so that a failure affects no other stack.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable

from msgspec import structs

from holdfast.audit.entry import What
from holdfast.guard.decision import Allow, Decision, Deny
from holdfast.kernel.errors import Exit, HoldfastError, Problem, internal_error
from holdfast.plans.context import ChangeContext, InputValues
from holdfast.plans.errors import Cancelled, status_of
from holdfast.plans.events import PhaseStarted, StackFinished
from holdfast.plans.inputs import read_inputs
from holdfast.plans.plan_file import PlanFile, create_plan
from holdfast.plans.result import StackResult, with_plan_of
from holdfast.plans.saved_plan import SavedPlan
from holdfast.plans.status import Status
from holdfast.plans.workdir import HookRun, StackWorkdir, open_workdir
from holdfast.review.decide import ON_SERVER, approvals_for, decide, refusal_error
from holdfast.review.plan_checks import PlanChecks
from holdfast.runs import audit_trail
from holdfast.runs.apply import ApplyFailed, apply_plan, refused_creates
from holdfast.runs.apply_watch import known_outcomes
from holdfast.runs.auto_replan import may_replan
from holdfast.runs.hooks_after_apply import HooksAfterApply
from holdfast.runs.outcome import UnknownRun, require_previous_finished
from holdfast.runs.replan import allowed_replan, nothing_left
from holdfast.runs.restored_plan import RestoredPlan, result_of_used_plan
from holdfast.runs.run import Run, new_run, redact_run, write_run
from holdfast.runs.stored_plan import write_plan
from holdfast.stacks.stack import Stack
from holdfast.store.approvals import Approval, ApprovalKind
from holdfast.store.steps import Step
from holdfast.system import clock
from holdfast.system.files import file_error
from holdfast.terraform.argv import PlanOptions
from holdfast.terraform.engine.interface import EngineId

Explain = Callable[[UnknownRun], Awaitable[HoldfastError]]
"""Says what is known of a previous run that was interrupted."""


class RunExecutor:
    """One stack in one change. The work directory is held from the plan to `close`."""

    def __init__(
        self,
        context: ChangeContext,
        checks: PlanChecks,
        stack: Stack,
        *,
        operation: What,
        explain: Explain,
        saved: str | None = None,
    ) -> None:
        self.context = context
        self._checks = checks
        self.stack = stack
        self.operation: What = operation
        self._explain = explain
        self._saved = saved
        """Where its bundle is or will be, for messages."""
        self.run = new_run(stack.name, operation, context.identity, run=context.identity.runs.get(stack.name))
        self._held = contextlib.AsyncExitStack()
        self.plan_file: PlanFile | None = None
        self._hook_runs: list[HookRun] = []
        self._notes: tuple[str, ...] = ()
        self._previous: tuple[str, ...] = ()
        """Notes on the previous run of the stack, if its outcome was proved from its journal just now."""
        self._hooks_after = HooksAfterApply(context.store, stack.name)
        self._outcomes: dict[str, str] = {}
        """Of the changes that Terraform started, by address."""
        self._recorded = False
        self._retrying = context.retrying(stack.name)
        self._options: PlanOptions | None = None
        self._restored: RestoredPlan | None = None
        self.result = StackResult(stack=stack, status=Status.CANCELLED, run=self.run.id)

    async def close(self) -> None:
        """Release the work directory. Record the outcome, except of an interrupted apply."""
        await self._held.aclose()
        self._record()

    def _record(self) -> None:
        if self._recorded or Status.UNKNOWN is self.result.status or self.run.status is Status.APPLYING:
            return
        self._recorded = True
        with contextlib.suppress(HoldfastError, OSError):
            record = redact_run(self.run.with_result(self.result), self.context.redactor.clean)
            write_run(self.context.store, record, durable=False)
            write_plan(self.context.store, self.run.id, self.result.plan, self.context.redactor)

    async def plan(
        self, options: PlanOptions, review: Callable[[StackResult], StackResult] | None = None
    ) -> StackResult:
        """`review` may refuse a plan for reasons of its own."""
        self._options = options
        await self._obtain(
            lambda workdir: create_plan(self.context, self.stack, workdir, options, self._retrying)
        )
        if review is not None:
            self._set(review(self.result))
        self.context.control.tell(StackFinished(result=self.result))
        return self.result

    async def restore(self, bundle: SavedPlan, changed: tuple[str, ...] = ()) -> StackResult:
        """Take the plan of a bundle. With `changed` outputs that it read, it is planned again."""
        restored = self._restored = RestoredPlan(self.stack, bundle)
        self._options = bundle.options
        await self._obtain(lambda workdir: restored.open(self.context, workdir, self._retrying, changed))
        self._set(structs.replace(self.result, digest=self.result.digest or bundle.digest))
        return self.result

    async def take_used(self, bundle: SavedPlan, mark: dict[str, object]) -> StackResult:
        """The result of a plan that is marked as used."""

        async def work() -> StackResult:
            await self._require_previous()
            result = result_of_used_plan(self.context.store, self.stack, bundle, mark)
            return structs.replace(result, engine=self._engine(), notes=(*self._previous, *result.notes))

        self.run = self.run.to(Status.PLANNING)
        await self._finish_with(work())
        self.context.control.tell(StackFinished(result=self.result))
        return self.result

    async def _require_previous(self) -> None:
        await self.context.store.ask_ahead(Step.PLAN, self.stack.name)
        try:
            self._previous = await require_previous_finished(
                self.context.store, self.context.control, self.stack
            )
        except UnknownRun as error:
            raise await self._explain(error) from None

    async def _obtain(self, get_plan: Callable[[StackWorkdir], Awaitable[PlanFile]]) -> None:
        inputs = await self._read_inputs()

        async def work() -> StackResult:
            self._refuse_when_stopping()
            await self._require_previous()
            if not isinstance(inputs, InputValues):
                raise inputs
            workdir = await self._held.enter_async_context(
                open_workdir(self.context, self.stack, read=inputs)
            )
            self._notes, self._hook_runs = workdir.notes, workdir.hook_runs
            self.plan_file = await get_plan(workdir)
            return await self._evaluate(self.plan_file)

        self.run = self.run.to(Status.PLANNING)
        await self._finish_with(work())

    async def _read_inputs(self) -> InputValues | HoldfastError | OSError:
        """Before the slot, which reading a state may need. A previous run of unknown outcome comes first."""
        if not self.stack.inputs or self.context.control.stop.level:
            return InputValues()
        tell, name = self.context.control.tell, self.stack.name
        tell(PhaseStarted(stack=name, phase="reading inputs"))
        try:
            return await read_inputs(self.context, self.stack, mocks=self.operation == "plan")
        except (HoldfastError, OSError) as error:
            return error
        finally:
            tell(PhaseStarted(stack=name, phase="waiting"))

    async def apply(self) -> StackResult:
        """Apply the plan, or run the hooks that are due; the result of a plan that is not allowed stays."""
        planned, plan_file = self.result, self.plan_file
        if plan_file is not None and planned.status is Status.UNCHANGED and self._hooks_after.due_since:
            await self._finish_with(self._apply(planned, plan_file))
            self.context.control.tell(StackFinished(result=self.result))
            return self.result
        allowed = planned.status is Status.PLANNED and isinstance(planned.decision, Allow)
        if not allowed or plan_file is None:
            return planned
        self.run = self.run.to(Status.APPLYING)
        await self._finish_with(self._apply(planned, plan_file))
        self.context.states.forget(self.stack.name)
        if self.result.plan is None:
            self._set(with_plan_of(planned, self.result))
        unknown = self.result.status is Status.UNKNOWN
        self._set(structs.replace(self.result, outcomes=known_outcomes(self._outcomes, unknown=unknown)))
        self._record()
        self.context.control.tell(StackFinished(result=self.result))
        return self.result

    def _set(self, result: StackResult) -> None:
        self.run = self._with_hooks(self.run.with_result(result))
        self.result = result

    def _with_hooks(self, run: Run) -> Run:
        return structs.replace(run, hooks=tuple(self._hook_runs)) if self._hook_runs else run

    async def _finish_with(self, work: Awaitable[StackResult]) -> None:
        """Wait for a free slot, do the work, and take its value or its error as the result."""
        spent = self.result.duration
        async with self.context.engines.slots:
            began = clock.monotonic()
            try:
                result = await work
            except (HoldfastError, OSError) as error:
                result = self._failed(error)
            except Exception as error:  # a mistake in Holdfast must not hide the results of other stacks
                if self.run.status is not Status.PLANNING:
                    raise  # what the apply did is unknown: its claim and journal are the evidence
                result = self._failed(internal_error(error, f"planning {self.stack.name}"))
            self._set(structs.replace(result, duration=spent + clock.monotonic() - began))

    async def _apply(self, planned: StackResult, plan_file: PlanFile) -> StackResult:
        """Hooks around apply do not run for a destroy: what they manage is gone."""
        self._refuse_when_stopping()
        if planned.status is Status.UNCHANGED:
            return await self._hooks_after.run_again(planned, plan_file)
        if planned.replaces is not None:
            # Before anything is changed: approvals of the one count for the other.
            audit_trail.record_replan(self.context.identity.audit, planned, what=self.operation)
        if not plan_file.destroy:
            await plan_file.terraform.hooks.run("before_apply")
            self.run = self._with_hooks(self.run)
        done = await self._apply_with_replans(planned, plan_file)
        self._checks.check_outputs(self.stack, done.outputs)
        if plan_file.hooks_follow:
            self._recorded = False
            await self._hooks_after.run(plan_file)
        return done

    async def _apply_with_replans(self, planned: StackResult, plan_file: PlanFile) -> StackResult:
        """After a clean, transient failure a new plan follows, if it does no more than the one before.

        The result has the first plan: that is what was shown, and in the end all of it is done.
        """
        now, run, first = planned, self.run, plan_file.prior
        # Not after an approval or an override of this one plan.
        approved = self._restored is not None and self._restored.was_approved(self.context.store)
        waits = self._retrying.schedule() if self._options is not None and not approved else ()
        for number, seconds in enumerate((*waits, None), start=1):
            try:
                done = await apply_plan(self.context, run, now, plan_file, self._outcomes)
                # After an automatic replan the record covers all applies, not only the last one.
                self._recorded = number == 1
                return structs.replace(
                    done,
                    plan=planned.plan,
                    digest=planned.digest,
                    run=self.run.id,
                    replaces=planned.replaces,
                    state_before=first,
                )
            except ApplyFailed as failure:
                rows = may_replan(
                    failure.outcome, plan_file.plan, refused_creates(self.context.project.config)
                )
                if rows is None or seconds is None:
                    raise
                self._retrying.note(
                    f"the apply failed ({'; '.join(rows)}); planning again in {seconds:.1f} s "
                    f"(retry {number} of {len(waits)})"
                )
                plan_file = await self._replan_after(plan_file, failure, seconds)
            # Each apply has its own run and journal.
            run = new_run(self.stack.name, self.operation, self.context.identity).to(Status.APPLYING)
            now = structs.replace(await self._evaluate(plan_file), run=run.id, replaces=None)
            if now.status is Status.UNCHANGED:
                return await nothing_left(self.context, planned, plan_file, self._retrying)
        raise AssertionError("the last round returns or raises")

    async def _replan_after(self, before: PlanFile, failure: ApplyFailed, seconds: float) -> PlanFile:
        """A new plan that may be applied. If there is none, the failure of the apply is raised again."""
        options, done = self._options or PlanOptions(), failure.outcome.done
        left = tuple(address for address in options.replace if address not in done)
        self._options = options._replace(replace=left)
        after = await allowed_replan(
            *(self.context, self._checks, self.stack, before, self._options),
            done=done,
            retrying=self._retrying,
            seconds=seconds,
        )
        if after is None:
            raise failure
        return after

    async def _evaluate(self, plan_file: PlanFile) -> StackResult:
        """The result of a new or saved plan, with the guard's decision."""
        restored = self._restored
        replaced = restored.replaced if restored is not None else None
        await self.context.store.ask_ahead(Step.DECIDE, self.stack.name)
        self._hooks_after.read(plan_file)
        result = StackResult(
            stack=self.stack,
            status=Status.PLANNED if plan_file.changes else Status.UNCHANGED,
            engine=plan_file.terraform.identity,
            run=self.run.id,
            digest=plan_file.digest,
            plan=plan_file.plan,
            saved=self._saved is not None and replaced is None,
            mocks=plan_file.mocks,
            notes=(*self._previous, *plan_file.notes, *self._retrying.notes, *plan_file.limits),
            remark=restored.remark if restored is not None else next(iter(plan_file.limits), None),
            replaces=replaced,
        )
        if self.operation == "plan":
            result = self._hooks_after.in_plan(result)
        decision = await decide(
            *(self.context.project, self.context.store, self._checks, self.stack, plan_file),
            approvals=self.approvals(plan_file.digest),
            more=restored.reasons if restored is not None else (),
        )
        return self._with_decision(result, decision)

    def approvals(self, digest: str) -> tuple[Approval, ...]:
        """Those that count for this plan: they came with the request, or it is saved."""
        given = self.context.given(self.stack.name, self.run.id, digest)
        saved = self._restored.approvals(self.context.store, digest) if self._restored is not None else ()
        return (*given, *saved)

    def _with_decision(self, result: StackResult, decision: Decision) -> StackResult:
        if isinstance(decision, Allow):
            return structs.replace(result, decision=decision)
        digest, restored = str(result.digest), self._restored
        error = refusal_error(
            *(self.stack.name, decision, self.approvals(digest)),
            run=restored.bundle.run if restored is not None and self._saved != ON_SERVER else self.run.id,
            digest=digest,
            saved=self._saved if result.replaces is None else None,
            asked=f"{self.stack.name} {(self._options or PlanOptions()).shown}".strip(),
            out="bundle/" if self._restored is None else "new-bundle/",
            mocks=bool(result.mocks) and self.stack.production,
        )
        return structs.replace(
            result,
            decision=decision,
            status=Status.REFUSED if isinstance(decision, Deny) else Status.WAITING,
            error=error,
            problems=(error,),
        )

    def override_reason(self) -> str | None:
        """Why a person overrode the denial of this plan; None if there is no valid override."""
        if not self._saved or not self.result.digest:
            return None
        digest, name = self.result.digest, self.stack.name
        # Approvals count for a saved plan.
        saved = approvals_for(self.context.store, digest, name) if self._restored is not None else ()
        approvals = (*self.context.given(name, self.run.id, digest), *saved)
        return next((given.reason for given in approvals if given.kind is ApprovalKind.OVERRIDE), None)

    def record_reads(self, reads: dict[str, dict[str, str]]) -> None:
        """What a plan that will be saved read of the stacks it depends on; it gets another digest."""
        if self.plan_file is not None and reads:
            parts = structs.replace(self.plan_file.parts, reads=reads)
            self.plan_file = structs.replace(self.plan_file, parts=parts)
            result = structs.replace(self.result, digest=self.plan_file.digest)
            self._set(self._with_decision(result, result.decision))

    def set_decision(self, decision: Decision) -> None:
        """For a decision that depends on all stacks of the change."""
        if decision != self.result.decision:
            self._set(self._with_decision(self.result, decision))
            self._recorded = False

    # Results without Terraform

    def refuse(self, error: HoldfastError) -> None:
        self.end_with(self._failed(error))

    def end_with(self, result: StackResult) -> None:
        self._set(result)
        self.context.control.tell(StackFinished(result=result))

    def decline(self) -> None:
        """The user declined the plan."""
        message = f"{self.stack.name}: you did not confirm, so nothing was changed"
        error = Problem(code="HF-RUN-4", message=message)
        self._set(structs.replace(self.result, status=Status.CANCELLED, error=error))

    def _refuse_when_stopping(self) -> None:
        if self.context.control.stop.level:
            raise Cancelled("HF-RUN-2", f"{self.stack.name}: not started, because you stopped the change")

    def _engine(self) -> EngineId | None:
        """None where the engines themselves are the error."""
        with contextlib.suppress(HoldfastError):
            return self.context.engines.choose(self.stack).engine
        return None

    def _failed(self, fault: HoldfastError | OSError) -> StackResult:
        error = file_error(fault) if isinstance(fault, OSError) else fault
        notes = self.plan_file.notes if self.plan_file is not None else self._notes
        return StackResult(
            stack=self.stack,
            status=status_of(error),
            engine=self._engine() if error.exit is not Exit.USAGE else None,
            run=self.run.id,
            error=error.problem,
            problems=error.problems,
            notes=(*self._previous, *notes, *self._retrying.notes),
        )
