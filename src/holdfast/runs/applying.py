"""Apply one plan, once: marked as used before Terraform starts, and its end told for what it is."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path

from holdfast.doors import clock
from holdfast.doors.files import unusable
from holdfast.kernel.errors import Busy, Failed, HoldfastError, Refused, UnknownOutcome
from holdfast.runs import state_watch
from holdfast.runs.ends import (
    Cancelled,
    TerraformFailed,
    left_after_grace,
    left_at_once,
    unknown_outcome,
)
from holdfast.runs.follow_up import ApplyEnd, in_doubt
from holdfast.runs.phases import Heard, Terraform
from holdfast.runs.prepare import keep_unsaved
from holdfast.runs.progress import ApplyWatch
from holdfast.runs.ready_plan import ReadyPlan
from holdfast.runs.result import Output, StackResult
from holdfast.runs.session import Session
from holdfast.runs.status import Status
from holdfast.stacks.stack import Stack
from holdfast.terraform.engine import Answer
from holdfast.terraform.refused_creates import RefusedCreate, shipped_refused
from holdfast.terraform.state_json import read_state
from holdfast.terraform.work import UNSAVED_FILE

_LOOK_AGAIN = 0.5


async def apply_ready(session: Session, planned: StackResult, ready: ReadyPlan) -> StackResult:
    """Apply exactly this plan. Raises what went wrong; the caller makes it the stack's result."""
    stack, run = planned.stack, str(planned.run)
    if planned.digest is None:
        raise Failed("HF-RUN-1", f"{stack.name}: there is no plan to apply")
    async with _at_work(session, stack, run):
        ready.require_intact(stack.name, planned.digest)
        if not session.store.mark_used(planned.digest, run=run, stack=stack.name, who=session.who):
            raise used(stack.name, session.store.used(planned.digest) or {})
        try:
            return await _apply_marked(session, planned, ready)
        except OSError as error:
            raise _cannot_be_told(stack.name, error) from error


@contextlib.asynccontextmanager
async def _at_work(session: Session, stack: Stack, run: str) -> AsyncIterator[None]:
    """One apply per stack at a time; the second is told who is first, or waits as long as it was told to."""
    end = clock.monotonic() + session.wait
    while True:
        with session.store.at_work(stack.name, f"{session.who}, run {run}") as holder:
            if holder is None:
                yield
                return
            if clock.monotonic() >= end or session.stop.level:
                raise Busy(
                    "HF-LOCK-2",
                    f"{stack.name} is being applied already by {holder}",
                    hint="Wait until that is done (--wait 30m), then plan again.",
                )
        await asyncio.sleep(_LOOK_AGAIN)


async def _apply_marked(session: Session, planned: StackResult, ready: ReadyPlan) -> StackResult:
    stack, terraform = planned.stack, ready.terraform
    watch = ApplyWatch(session, stack.name, ready.plan)
    heard = Heard(on_event=watch.event)
    answer = await terraform.apply(terraform.prepared.variables_files if ready.ephemeral else (), heard)
    left = terraform.prepared.work.module / UNSAVED_FILE
    if left.exists():
        raise _unsaved(session, stack, left, heard)
    if answer.killed:
        raise unknown_outcome(stack.name, answer)
    notes = await _record_after(session, stack, terraform)
    if answer.code != 0:
        raise _failure(session, ready, answer, heard, watch)
    return dataclasses.replace(
        planned,
        status=Status.APPLIED,
        outputs={
            one.name: Output(value=None if one.sensitive else one.value, sensitive=one.sensitive)
            for one in heard.outputs
        },
        notes=(*planned.notes, *notes),
    )


class ApplyFailed(TerraformFailed):
    """An apply that ended by itself, its state saved: all that is known of it decides what may follow."""

    def __init__(self, said: TerraformFailed, end: ApplyEnd, doubtful: tuple[str, ...]) -> None:
        first, *others = said.problems
        if doubtful:
            first = dataclasses.replace(first, hint=_may_exist(doubtful))
        super().__init__(first.code, first.message, problems=(first, *others))
        self.end = end


def _may_exist(addresses: tuple[str, ...]) -> str:
    return (
        f"These may have been made all the same: {', '.join(addresses)}. Look at the provider's side, "
        "import what is there and not in the state, then plan again."
    )


def refused_creates(session: Session) -> tuple[RefusedCreate, ...]:
    """Holdfast's own table and the rows of the configuration."""
    own = session.config.engine.retries.refused_creates
    return (*shipped_refused(), *(RefusedCreate(provider=one.provider, text=one.text) for one in own))


def _failure(
    session: Session, ready: ReadyPlan, answer: Answer, heard: Heard, watch: ApplyWatch
) -> HoldfastError:
    terraform = ready.terraform
    name = terraform.prepared.stack.name
    done = f"{watch.finished} of {watch.total} changes were made and saved"
    if answer.timed_out and answer.insisted and watch.unfinished:
        return left_after_grace(name, watch.unfinished, done)
    if answer.insisted and watch.unfinished:
        return left_at_once(name, watch.unfinished, done)
    if answer.timed_out:
        return Failed(
            "HF-TIME-1",
            f"{name}: the apply took longer than its time limit and was stopped; {done}",
            hint="Plan again to see what is left.",
        )
    if answer.interrupted:
        return Cancelled(
            "HF-RUN-2", f"{name}: stopped as asked; {done}", hint="Plan again to see what is left."
        )
    said = terraform.said("apply", answer, heard)
    if not isinstance(said, TerraformFailed):
        return said
    end = watch.end(one for one in heard.diagnostics if one.is_error)
    return ApplyFailed(said, end, in_doubt(end, ready.plan, refused_creates(session)))


def _unsaved(session: Session, stack: Stack, left: Path, heard: Heard) -> UnknownOutcome:
    """Terraform could not write the state: this copy is all there is."""
    file = keep_unsaved(session, stack, left)
    why = next((f" ({' '.join(one.detail.split())})" for one in heard.diagnostics if one.detail), "")
    return UnknownOutcome(
        "HF-STATE-5",
        f"{stack.name}: Terraform could not save the state{why}; it is kept in {file}",
        hint=f"Save it when the backend answers again: holdfast state push {stack.name} {file}",
    )


async def _record_after(session: Session, stack: Stack, terraform: Terraform) -> tuple[str, ...]:
    """What the state is now. That it cannot be read must not hide how the apply ended."""
    try:
        home = terraform.prepared.home
        content = home.file.read_bytes() if home.file is not None else await terraform.state_pull(heeds=2)
    except (OSError, HoldfastError) as error:
        return (f"the state could not be read after the apply: {error}",)
    state_watch.record(session.store, stack.name, home, read_state(content))
    return ()


def _cannot_be_told(stack: str, error: OSError) -> UnknownOutcome:
    """The machine failed us while Terraform was at work, or before its end was written down."""
    return UnknownOutcome(
        "HF-RUN-6",
        f"{stack}: how the apply ended cannot be told: {unusable(error).problem.message}",
        hint=f"Look at the provider's side and at the state (holdfast state pull {stack}), then plan again.",
    )


def used(stack: str, mark: dict[str, object]) -> Refused:
    by = f"run {mark.get('run')} ({mark.get('who')}) at {mark.get('at')}"
    return Refused(
        "HF-BUND-4",
        f"{stack}: this plan was used already, by {by}",
        hint="A plan is applied at most once. Make a new plan.",
    )
