"""The life of one run: a stack is planned, and perhaps applied, and its end is always a result.

No error leaves this module: each becomes the stack's own result, so that one failure harms no other stack.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable

from msgspec import structs

from holdfast.audit.entry import What
from holdfast.guard.decision import Allow, Decision, Deny, NeedApproval
from holdfast.guard.evaluate import StackDeletions
from holdfast.kernel.errors import Exit, HoldfastError
from holdfast.plans import plan_file
from holdfast.plans.context import Session
from holdfast.plans.errors import Cancelled
from holdfast.plans.events import Ended
from holdfast.plans.plan_file import ReadyPlan
from holdfast.plans.result import ErrorShown, StackResult, read_outputs
from holdfast.plans.saved_plan import Bundle, StateSeen
from holdfast.plans.status import STATUS_OF_EXIT, Status
from holdfast.plans.workdir import prepared
from holdfast.review.decide import checks_of, judged, lost_in, refusal_of, said_of
from holdfast.runs.apply import ApplyFailed, apply_ready, refused_creates
from holdfast.runs.auto_replan import beyond, may_follow
from holdfast.runs.outcome import require_settled
from holdfast.runs.record import record
from holdfast.stacks.stack import Stack
from holdfast.system import clock
from holdfast.system.files import file_error
from holdfast.terraform.argv import PlanOptions
from holdfast.terraform.statefile.sensitive import sensitive_in_outputs


class StackRun:
    """One stack in one change. The work directory is held from the plan to `close`."""

    def __init__(self, session: Session, stack: Stack, *, operation: What, saved: str | None = None) -> None:
        self.session = session
        self.stack = stack
        self.operation: What = operation
        self._saved = saved
        """Where its bundle is or will be, for what a person is told."""
        self.id = clock.new_id()
        self._held = contextlib.AsyncExitStack()
        self._ready: ReadyPlan | None = None
        self._notes: tuple[str, ...] = ()
        self._found: tuple[str, ...] = ()
        """What was found of the run before, and settled."""
        self._began = clock.now().isoformat()
        self._closed = False
        self._retrying = session.retrying(stack.name)
        self._options: PlanOptions | None = None
        """How the plan was asked for; None for one from a bundle, which nothing may follow."""
        self.result = StackResult(stack=stack, status=Status.CANCELLED, run=self.id)

    async def close(self) -> None:
        """Let go of the work directory, and remember how it ended, where that is not written down already."""
        await self._held.aclose()
        if not self._closed and self.result.status is not Status.UNKNOWN:
            self._closed = True
            with contextlib.suppress(HoldfastError, OSError):
                record(self.session, self.result, operation=self.operation, began=self._began, durable=False)

    async def plan(self, options: PlanOptions) -> StackResult:
        await self._ends_with(self._plan(options))
        self.session.tell(Ended(result=self.result))
        return self.result

    async def restore(self, bundle: Bundle) -> StackResult:
        """Take a bundle's plan instead of making one."""
        await self._ends_with(self._restore(bundle))
        self.result = structs.replace(self.result, digest=bundle.digest)
        return self.result

    async def apply(self) -> StackResult:
        """Apply what was planned. Anything but a plan that is allowed stays what it is."""
        if self.result.status is not Status.PLANNED:
            return self.result
        planned = self.result
        await self._ends_with(self._apply(planned))
        if self.result.plan is None:
            self.result = _with_plan(self.result, planned)
        self.session.tell(Ended(result=self.result))
        return self.result

    async def _ends_with(self, work: Awaitable[StackResult]) -> None:
        """Run it when there is room, and let whatever happens be the result."""
        spent = self.result.duration
        async with self.session.places:
            began = clock.monotonic()
            try:
                self.result = await work
            except (HoldfastError, OSError) as error:
                self.result = self._failed(error)
            self.result = structs.replace(self.result, duration=spent + clock.monotonic() - began)

    async def _plan(self, options: PlanOptions) -> StackResult:
        self._refuse_when_stopping()
        self._found = await require_settled(self.session, self.stack)
        place = await self._held.enter_async_context(prepared(self.session, self.stack))
        self._notes = place.notes
        self._options = options
        self._ready = await plan_file.make(self.session, self.stack, place, options, self._retrying)
        return await self._judged(self._ready)

    async def _restore(self, bundle: Bundle) -> StackResult:
        self._refuse_when_stopping()
        self._found = await require_settled(self.session, self.stack)
        place = await self._held.enter_async_context(prepared(self.session, self.stack))
        self._ready = await plan_file.restore(self.session, self.stack, place, bundle, self._retrying)
        return await self._judged(self._ready)

    async def _apply(self, planned: StackResult) -> StackResult:
        self._refuse_when_stopping()
        match planned.decision:
            case Allow() if self._ready is not None:
                done = await self._apply_and_follow(planned, self._ready)
                checks_of(self.session, self.stack).applied(self.stack, done.outputs)
                return done
            case Allow() | NeedApproval() | Deny():
                return planned

    async def _apply_and_follow(self, planned: StackResult, ready: ReadyPlan) -> StackResult:
        """After a clean, transient failure a new plan follows, if it does no more than the one before.

        The result is told with the first plan: that is what was shown, and all of it is done in the end.
        """
        now = planned
        waits = self._retrying.schedule() if self._options is not None else ()
        for number, seconds in enumerate((*waits, None), start=1):
            try:
                done = await apply_ready(self.session, now, ready, operation=self.operation)
                # Written down already, unless more is to be said of it than of the last apply alone.
                self._closed = number == 1
                return structs.replace(done, plan=planned.plan, digest=planned.digest, run=self.id)
            except ApplyFailed as failure:
                rows = may_follow(failure.end, ready.plan, refused_creates(self.session))
                if rows is None or seconds is None:
                    raise
                self._retrying.note(
                    f"the apply failed ({'; '.join(rows)}); a new plan follows in {seconds:.1f} s, "
                    f"{number} of {len(waits)}"
                )
                ready = await self._followed(ready, failure, seconds)
            # A run of its own: each apply has its own journal.
            now = structs.replace(await self._judged(ready), run=clock.new_id())
            if now.status is Status.UNCHANGED:
                return await self._nothing_left(planned, ready)
        raise AssertionError("the last round returns or raises")

    async def _followed(self, before: ReadyPlan, failure: ApplyFailed, seconds: float) -> ReadyPlan:
        """The plan that follows. Whatever speaks against it, the failure that was stays the answer."""
        options = self._options or PlanOptions()
        left = tuple(one for one in options.replace if one not in failure.end.done)
        self._options = options._replace(replace=left)
        try:
            await self._retrying.wait(seconds, before="plan again")
            after = await plan_file.make_again(self.session, self.stack, before, self._options)
        except HoldfastError as error:
            self._retrying.note(f"no new plan was made: {error.problem.message}")
            raise failure from error
        more = beyond(before.plan, after.plan, done=failure.end.done)
        if more:
            self._retrying.note(f"the new plan was not applied, because it would do more: {', '.join(more)}")
            raise failure
        try:
            decision = await judged(self.session, self.stack, after, digest=after.digest)
        except HoldfastError as error:
            self._retrying.note(f"the new plan was not applied: {error.problem.message}")
            raise failure from error
        if not isinstance(decision, Allow):
            self._retrying.note(f"the new plan was not applied: {decision.reasons[0].message}")
            raise failure
        return after

    async def _nothing_left(self, planned: StackResult, ready: ReadyPlan) -> StackResult:
        """The change that failed was made all the same, as the new plan has seen."""
        self._retrying.note("the new plan has nothing left to do")
        found = await ready.terraform.outputs()
        self.session.redactor.register_all(sensitive_in_outputs(found))
        return structs.replace(
            planned,
            status=Status.APPLIED,
            outputs=read_outputs(found),
            notes=(*ready.notes, *self._retrying.notes),
        )

    async def _judged(self, ready: ReadyPlan) -> StackResult:
        """What the guard makes of a plan, be it new or from a bundle."""
        result = StackResult(
            stack=self.stack,
            status=Status.PLANNED if ready.changes else Status.UNCHANGED,
            engine=ready.terraform.identity,
            run=self.id,
            digest=ready.digest,
            plan=ready.plan,
            saved=self._saved is not None,
            notes=(*self._found, *ready.notes, *self._retrying.notes),
        )
        saved = self._options is None
        decision = await judged(self.session, self.stack, ready, digest=ready.digest, saved=saved)
        return self._decided(result, decision)

    def _decided(self, result: StackResult, decision: Decision) -> StackResult:
        if isinstance(decision, Allow):
            return structs.replace(result, decision=decision)
        words = said_of(self.session, str(result.digest))
        error = refusal_of(
            *(self.stack.name, decision, words),
            run=self.id,
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
        return lost_in(self.session, self.stack, self._ready) if self._ready is not None else None

    def override_reason(self) -> str | None:
        """Why a person overrode the denial of this plan; None if there is no valid override."""
        words = said_of(self.session, str(self.result.digest)) if self._saved and self.result.digest else ()
        return next((one.reason for one in words if one.kind == "override" and one.valid), None)

    def overruled(self, decision: Decision) -> None:
        """What all stacks of the change together make of this one's plan."""
        if decision != self.result.decision:
            self.result = self._decided(self.result, decision)
            self._closed = False

    def bundle(self, *, dependencies: dict[str, StateSeen], selection: tuple[str, ...]) -> Bundle | None:
        """What `plan --out` writes; None when there is no plan."""
        if self._ready is None:
            return None
        return plan_file.bundle_of(
            self.session, self._ready, self.result, dependencies=dependencies, selection=selection
        )

    @property
    def state_seen(self) -> StateSeen | None:
        return self._ready.prior if self._ready else None

    @property
    def lock_file(self) -> bytes | None:
        """The dependency lock file as init left it; None before that."""
        return self._ready.terraform.lock if self._ready else None

    # Ends without Terraform

    def refuse(self, error: HoldfastError) -> None:
        self.result = self._failed(error)
        self.session.tell(Ended(result=self.result))

    def decline(self) -> None:
        """The person looked at the plan and said no."""
        self.result = structs.replace(
            self.result,
            status=Status.CANCELLED,
            error=ErrorShown(code="HF-RUN-4", message=f"{self.stack.name}: not applied, as you answered"),
        )

    def _refuse_when_stopping(self) -> None:
        if self.session.stop.level:
            raise Cancelled("HF-RUN-2", f"{self.stack.name}: not started, because the change was stopped")

    def _failed(self, fault: HoldfastError | OSError) -> StackResult:
        error = file_error(fault) if isinstance(fault, OSError) else fault
        problems = tuple(
            ErrorShown(code=one.code, message=one.message, hint=one.hint, place=one.place)
            for one in error.problems
        )
        status = Status.CANCELLED if isinstance(error, Cancelled) else STATUS_OF_EXIT[error.exit]
        return StackResult(
            stack=self.stack,
            status=status,
            engine=self.session.choose(self.stack).engine if error.exit is not Exit.USAGE else None,
            run=self.id,
            error=problems[0],
            problems=problems,
            notes=(
                *self._found,
                *(self._ready.notes if self._ready is not None else self._notes),
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
