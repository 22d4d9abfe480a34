"""Executes the run of one stack: plan it, apply the plan, and report the outcome as a result.

No error leaves this module: each becomes the result of its stack, so that a failure affects no other stack.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable

from msgspec import structs

from holdfast.audit.entry import What
from holdfast.guard.decision import Allow, Decision, Deny
from holdfast.guard.evaluate import StackDeletions
from holdfast.kernel.errors import Exit, HoldfastError
from holdfast.plans.context import ChangeContext
from holdfast.plans.errors import Cancelled
from holdfast.plans.events import Ended
from holdfast.plans.plan_file import PlanFile, create_plan, from_saved_plan, replan, to_saved_plan
from holdfast.plans.result import ResultError, StackResult, read_outputs
from holdfast.plans.saved_plan import SavedPlan, StateIdentity
from holdfast.plans.status import STATUS_OF_EXIT, Status
from holdfast.plans.workdir import open_workdir
from holdfast.review.decide import approvals_for, decide, deletions_in, refusal_error
from holdfast.review.plan_checks import PlanChecks
from holdfast.runs.apply import ApplyFailed, apply_plan, refused_creates
from holdfast.runs.auto_replan import extra_changes, may_replan
from holdfast.runs.outcome import UnknownRun, require_previous_finished
from holdfast.runs.run import Run, new_run, write_run
from holdfast.stacks.stack import Stack
from holdfast.store.approvals import ApprovalKind
from holdfast.system import clock
from holdfast.system.files import file_error
from holdfast.terraform.argv import PlanOptions
from holdfast.terraform.statefile.sensitive import sensitive_in_outputs

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
        self.run = self._new_run()
        self._held = contextlib.AsyncExitStack()
        self._plan_file: PlanFile | None = None
        self._notes: tuple[str, ...] = ()
        self._previous: tuple[str, ...] = ()
        """Notes on the previous run of the stack, which was finished from its journal."""
        self._recorded = False
        self._retrying = context.retrying(stack.name)
        self._options: PlanOptions | None = None
        """None for a plan from a bundle: it is never planned again."""
        self.result = StackResult(stack=stack, status=Status.CANCELLED, run=self.run.id)

    def _new_run(self) -> Run:
        return new_run(self.stack.name, self.operation, self.context.identity)

    async def close(self) -> None:
        """Release the work directory, and record the outcome if that was not done yet.

        An apply that was torn down in the middle records none: its claim and journal say what is known.
        """
        await self._held.aclose()
        if self._recorded or Status.UNKNOWN is self.result.status or self.run.status is Status.APPLYING:
            return
        self._recorded = True
        with contextlib.suppress(HoldfastError, OSError):
            write_run(self.context.store, self.run.with_result(self.result), durable=False)

    async def plan(self, options: PlanOptions) -> StackResult:
        self.run = self.run.to(Status.PLANNING)
        await self._finish_with(self._plan(options))
        self.context.control.tell(Ended(result=self.result))
        return self.result

    async def restore(self, bundle: SavedPlan) -> StackResult:
        """Take the plan of a bundle instead of planning."""
        self.run = self.run.to(Status.PLANNING)
        await self._finish_with(self._restore(bundle))
        self._set(structs.replace(self.result, digest=bundle.digest))
        return self.result

    async def apply(self) -> StackResult:
        """Apply the plan. A result without a plan that may be applied stays as it is."""
        planned, plan_file = self.result, self._plan_file
        if (
            planned.status is not Status.PLANNED
            or not isinstance(planned.decision, Allow)
            or plan_file is None
        ):
            return planned
        self.run = self.run.to(Status.APPLYING)
        await self._finish_with(self._apply(planned, plan_file))
        if self.result.plan is None:
            self._set(_with_plan(self.result, planned))
        self.context.control.tell(Ended(result=self.result))
        return self.result

    def _set(self, result: StackResult) -> None:
        self.run = self.run.with_result(result)
        self.result = result

    async def _finish_with(self, work: Awaitable[StackResult]) -> None:
        """Wait for a free slot, do the work, and take its value or its error as the result."""
        spent = self.result.duration
        async with self.context.engines.slots:
            began = clock.monotonic()
            try:
                result = await work
            except (HoldfastError, OSError) as error:
                result = self._failed(error)
            self._set(structs.replace(result, duration=spent + clock.monotonic() - began))

    async def _require_previous_finished(self) -> None:
        try:
            self._previous = await require_previous_finished(
                self.context.store, self.context.control, self.stack
            )
        except UnknownRun as error:
            raise await self._explain(error) from None

    async def _plan(self, options: PlanOptions) -> StackResult:
        self._refuse_when_stopping()
        await self._require_previous_finished()
        place = await self._held.enter_async_context(open_workdir(self.context, self.stack))
        self._notes = place.notes
        self._options = options
        self._plan_file = await create_plan(self.context, self.stack, place, options, self._retrying)
        return await self._judged(self._plan_file)

    async def _restore(self, bundle: SavedPlan) -> StackResult:
        self._refuse_when_stopping()
        await self._require_previous_finished()
        place = await self._held.enter_async_context(open_workdir(self.context, self.stack))
        self._plan_file = await from_saved_plan(self.context, self.stack, place, bundle, self._retrying)
        return await self._judged(self._plan_file)

    async def _apply(self, planned: StackResult, plan_file: PlanFile) -> StackResult:
        self._refuse_when_stopping()
        done = await self._apply_and_follow(planned, plan_file)
        self._checks.applied(self.stack, done.outputs)
        return done

    async def _apply_and_follow(self, planned: StackResult, plan_file: PlanFile) -> StackResult:
        """After a clean, transient failure a new plan follows, if it does no more than the one before.

        The result is told with the first plan: that is what was shown, and all of it is done in the end.
        """
        now, run = planned, self.run
        waits = self._retrying.schedule() if self._options is not None else ()
        for number, seconds in enumerate((*waits, None), start=1):
            try:
                done = await apply_plan(self.context, run, now, plan_file)
                # After an automatic replan the record covers all applies, not only the last one.
                self._recorded = number == 1
                return structs.replace(done, plan=planned.plan, digest=planned.digest, run=self.run.id)
            except ApplyFailed as failure:
                rows = may_replan(failure.end, plan_file.plan, refused_creates(self.context.project.config))
                if rows is None or seconds is None:
                    raise
                self._retrying.note(
                    f"the apply failed ({'; '.join(rows)}); planning again in {seconds:.1f} s, "
                    f"{number} of {len(waits)}"
                )
                plan_file = await self._followed(plan_file, failure, seconds)
            # Each apply has its own run and journal.
            run = self._new_run().to(Status.APPLYING)
            now = structs.replace(await self._judged(plan_file), run=run.id)
            if now.status is Status.UNCHANGED:
                return await self._nothing_left(planned, plan_file)
        raise AssertionError("the last round returns or raises")

    async def _followed(self, before: PlanFile, failure: ApplyFailed, seconds: float) -> PlanFile:
        """The plan that follows. Whatever speaks against it, the failure that was stays the answer."""
        options = self._options or PlanOptions()
        left = tuple(one for one in options.replace if one not in failure.end.done)
        self._options = options._replace(replace=left)
        try:
            await self._retrying.wait(seconds, before="plan again")
            after = await replan(self.context, self.stack, before, self._options)
        except HoldfastError as error:
            self._retrying.note(f"no new plan was made: {error.problem.message}")
            raise failure from error
        more = extra_changes(before.plan, after.plan, done=failure.end.done)
        if more:
            self._retrying.note(f"the new plan was not applied because it does more: {', '.join(more)}")
            raise failure
        try:
            decision = await decide(
                self.context.project, self.context.store, self._checks, self.stack, after, digest=after.digest
            )
        except HoldfastError as error:
            self._retrying.note(f"the new plan was not applied: {error.problem.message}")
            raise failure from error
        if not isinstance(decision, Allow):
            self._retrying.note(f"the new plan was not applied: {decision.reasons[0].message}")
            raise failure
        return after

    async def _nothing_left(self, planned: StackResult, plan_file: PlanFile) -> StackResult:
        """The change that failed was made all the same, as the new plan has seen."""
        self._retrying.note("the new plan has nothing left to do")
        found = await plan_file.terraform.outputs()
        self.context.redactor.register_all(sensitive_in_outputs(found))
        return structs.replace(
            planned,
            status=Status.APPLIED,
            outputs=read_outputs(found),
            notes=(*plan_file.notes, *self._retrying.notes),
        )

    async def _judged(self, plan_file: PlanFile) -> StackResult:
        """What the guard makes of a plan, be it new or from a bundle."""
        result = StackResult(
            stack=self.stack,
            status=Status.PLANNED if plan_file.changes else Status.UNCHANGED,
            engine=plan_file.terraform.identity,
            run=self.run.id,
            digest=plan_file.digest,
            plan=plan_file.plan,
            saved=self._saved is not None,
            notes=(*self._previous, *plan_file.notes, *self._retrying.notes),
        )
        saved = self._options is None
        decision = await decide(
            self.context.project,
            self.context.store,
            self._checks,
            self.stack,
            plan_file,
            digest=plan_file.digest,
            saved=saved,
        )
        return self._decided(result, decision)

    def _decided(self, result: StackResult, decision: Decision) -> StackResult:
        if isinstance(decision, Allow):
            return structs.replace(result, decision=decision)
        approvals = approvals_for(self.context.store, str(result.digest))
        error = refusal_error(
            *(self.stack.name, decision, approvals),
            run=self.run.id,
            digest=str(result.digest),
            saved=self._saved,
            asked=self._asked(),
        )
        return structs.replace(
            result,
            decision=decision,
            status=Status.REFUSED if isinstance(decision, Deny) else Status.WAITING,
            error=error,
            problems=(error,) if error else (),
        )

    def _asked(self) -> str:
        options = self._options or PlanOptions()
        words = ["--destroy"] if options.destroy else []
        words += [f"--target {address}" for address in options.targets]
        words += [f"--replace {address}" for address in options.replace]
        return " ".join((self.stack.name, *words))

    def losses(self) -> StackDeletions | None:
        """What its plan would lose; None without a plan."""
        return (
            deletions_in(self.context.project, self.stack, self._plan_file)
            if self._plan_file is not None
            else None
        )

    def override_reason(self) -> str | None:
        """Why a person overrode the denial of this plan; None if there is no valid override."""
        if not self._saved or not self.result.digest:
            return None
        approvals = approvals_for(self.context.store, self.result.digest)
        return next((one.reason for one in approvals if one.kind is ApprovalKind.OVERRIDE), None)

    def overruled(self, decision: Decision) -> None:
        """What all stacks of the change together make of this one's plan."""
        if decision != self.result.decision:
            self._set(self._decided(self.result, decision))
            self._recorded = False

    def bundle(
        self, *, dependencies: dict[str, StateIdentity], selection: tuple[str, ...]
    ) -> SavedPlan | None:
        """What `plan --out` writes; None when there is no plan."""
        if self._plan_file is None:
            return None
        return to_saved_plan(
            self.context.store, self._plan_file, self.result, dependencies=dependencies, selection=selection
        )

    @property
    def state_seen(self) -> StateIdentity | None:
        return self._plan_file.prior if self._plan_file else None

    @property
    def lock_file(self) -> bytes | None:
        """The dependency lock file as init left it; None before that."""
        return self._plan_file.terraform.lock if self._plan_file else None

    # Ends without Terraform

    def refuse(self, error: HoldfastError) -> None:
        self.end_with(self._failed(error))

    def end_with(self, result: StackResult) -> None:
        self._set(result)
        self.context.control.tell(Ended(result=result))

    def decline(self) -> None:
        """The person looked at the plan and said no."""
        error = ResultError(code="HF-RUN-4", message=f"{self.stack.name}: not applied: you declined")
        self._set(structs.replace(self.result, status=Status.CANCELLED, error=error))

    def _refuse_when_stopping(self) -> None:
        if self.context.control.stop.level:
            raise Cancelled("HF-RUN-2", f"{self.stack.name}: not started: the change was stopped")

    def _failed(self, fault: HoldfastError | OSError) -> StackResult:
        error = file_error(fault) if isinstance(fault, OSError) else fault
        problems = tuple(
            ResultError(code=one.code, message=one.message, hint=one.hint, place=one.place)
            for one in error.problems
        )
        status = Status.CANCELLED if isinstance(error, Cancelled) else STATUS_OF_EXIT[error.exit]
        return StackResult(
            stack=self.stack,
            status=status,
            engine=self.context.engines.choose(self.stack).engine if error.exit is not Exit.USAGE else None,
            run=self.run.id,
            error=problems[0],
            problems=problems,
            notes=(
                *self._previous,
                *(self._plan_file.notes if self._plan_file is not None else self._notes),
                *self._retrying.notes,
            ),
        )


def _with_plan(failed: StackResult, planned: StackResult) -> StackResult:
    """An apply that failed still had a plan, and people want to see it."""
    return structs.replace(
        planned,
        status=failed.status,
        error=failed.error,
        problems=failed.problems,
        notes=tuple(dict.fromkeys((*planned.notes, *failed.notes))),
        duration=failed.duration,
    )
