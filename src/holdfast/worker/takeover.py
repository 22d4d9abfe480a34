"""A change whose worker is silent or gone. What is queued or planned is done again.

An apply is never repeated. Its supervisor may still run it; then this waits. Otherwise its record or its
journal say how it ended, or its outcome is unknown: its claim stays, and `runs reconcile` finds out.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from holdfast.kernel.errors import Busy, Failed, HoldfastError, UnknownOutcome
from holdfast.plans.events import Event, ignore_events
from holdfast.plans.status import Status
from holdfast.runs import lanes
from holdfast.runs.apply_watch import ApplyWatch
from holdfast.runs.claims import Claim, claim_on, collect_journal, is_working
from holdfast.runs.outcome import finish_from_journal
from holdfast.runs.record import stored_run_secrets
from holdfast.runs.run import read_run
from holdfast.secrets.redact import Redactor
from holdfast.server.edge import Log
from holdfast.store.run_records import FENCED
from holdfast.store.run_store import RunStore
from holdfast.store.server_runs.claiming import Claiming
from holdfast.store.server_runs.phases import RunPhase
from holdfast.store.server_runs.rows import Change, Run
from holdfast.terraform.stream import read_line
from holdfast.worker.run_contents import RunContents
from holdfast.worker.run_output import event_lines

_LOOK_SECONDS: Final = 2.0


class Takeover:
    """It ends when every apply of the change has an outcome."""

    def __init__(
        self, store: RunStore, contents: RunContents, claiming: Claiming, change: Change, log: Log
    ) -> None:
        self.change = change
        self.lost = False
        self._store = store
        self._contents = contents
        self._log = log
        self._claiming = claiming

    async def run(self, *, once: bool = False) -> None:
        """`once`: an apply that may still run is left alone. Without heartbeats the change is taken again."""
        store = self._store
        left = [run for run in self.change.runs if run.phase is RunPhase.APPLYING]
        while left and not self.lost:
            for run in tuple(left):
                try:
                    outcome = await asyncio.to_thread(outcome_of, store, run)
                    if outcome is not None:
                        await self._end(run, *outcome)
                        left.remove(run)
                except HoldfastError as error:  # The store may be away: it is asked again.
                    problem = error.problem
                    self._log.error("takeover", run=run.id, code=problem.code, message=problem.message)
            if left and once:
                return
            if left:
                await asyncio.sleep(_LOOK_SECONDS)
        if self.lost:
            return
        mine = self.change.id, self.change.fence
        with contextlib.suppress(HoldfastError):  # Who runs the change next takes them over.
            await asyncio.to_thread(lanes.release_lanes_of, store, self.change.id)
        if self.change.cancel is not None:
            await asyncio.to_thread(self._claiming.finish, *mine)
        else:
            # A worker claims it once more: what is left is done, or nothing is.
            await asyncio.to_thread(self._claiming.requeue, *mine)

    def cancel(self, level: int = 1) -> None:
        """Noticed at the end: an apply without a worker cannot be stopped."""

    def lose(self) -> None:
        self.lost = True

    drain = lose

    async def _end(self, run: Run, status: Status, error: HoldfastError | None) -> None:
        mine = self.change.id, self.change.fence
        set_phase = self._claiming.set_phase
        if await asyncio.to_thread(self._claiming.has, *mine):
            if error is not None:
                await asyncio.to_thread(self._contents.save_error, run.id, error.problem)
            else:
                lines = await asyncio.to_thread(journal_lines, self._store, run)
                await asyncio.to_thread(self._contents.log_outcome, run, status, lines)
        if not await asyncio.to_thread(lambda: set_phase(*mine, run.id, RunPhase.DONE, status=status.value)):
            self.lost = True


def outcome_of(store: RunStore, run: Run) -> tuple[Status, HoldfastError | None] | None:
    """How an apply ended whose worker is gone, and what a person is told; None while it may still run."""
    claim = claim_on(store, run.stack)
    if claim is not None and claim.run == run.id:
        store.runs.write(run.id, FENCED, b"")
        try:
            if not _is_finished(store, claim):
                if is_working(store, claim):
                    return None
                # It is over now, and may have written its last lines since the journal was read.
                if not _is_finished(store, claim):
                    return Status.UNKNOWN, _unknown(run)
        except Busy:
            return None
    record = read_run(store, run.id)
    if record is not None and record.status is Status.UNKNOWN:
        return Status.UNKNOWN, _unknown(run)
    if record is None or not record.status.is_final:
        # No claim of this run, and no outcome: it had not started Terraform.
        return Status.FAILED, Failed(
            "HF-RUN-38",
            f"{run.stack}: the worker of run {run.id} died before it started Terraform; nothing was applied",
            hint=f"Repeat it: holdfast runs retry {run.id}",
        )
    return record.status, None


def journal_lines(store: RunStore, run: Run) -> tuple[str, ...]:
    """What the worker of an apply would have written to its log, as far as its journal has it."""
    redactor = Redactor()
    redactor.register_all(stored_run_secrets(store, run.id))
    told: list[Event] = []
    watch = ApplyWatch(told.append, run.stack, plan=None)
    for line in store.runs.journal(run.id).lines:
        with contextlib.suppress(HoldfastError):
            watch.event(read_line(line))
    return tuple(
        redactor.clean(text) for event in told for _, text in event_lines(event, run.operation.value)
    )


def leave_claim(store: RunStore, run: Run, status: Status) -> None:
    """The worker lives on; of a run with an unknown outcome the claim stays, and nothing works on it."""
    claim = claim_on(store, run.stack) if status in {Status.UNKNOWN, Status.FAILED} else None
    if claim is not None and claim.run == run.id:
        store.runs.write(run.id, FENCED, b"")


def _is_finished(store: RunStore, claim: Claim) -> bool:
    return finish_from_journal(store, ignore_events, claim, collect_journal(store, claim)) is not None


def _unknown(run: Run) -> UnknownOutcome:
    return UnknownOutcome(
        "HF-RUN-8",
        f"The last {run.operation} of {run.stack} was interrupted; its outcome is unknown.",
        hint="Nothing is planned or applied on this stack until this is resolved: "
        f"holdfast runs reconcile {run.id}",
    )
