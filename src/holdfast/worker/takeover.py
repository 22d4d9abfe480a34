"""A change whose worker is silent or gone. What is queued or planned is done again.

An apply is never repeated. Its supervisor may still run it; then this waits. Otherwise its record or its
journal say how it ended, or its outcome is unknown: its claim stays, and `runs reconcile` finds out.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from holdfast.kernel.errors import Busy, HoldfastError
from holdfast.plans.events import ignore_events
from holdfast.plans.status import Status
from holdfast.runs.claims import claim_on, collect_journal, is_working
from holdfast.runs.outcome import finish_from_journal
from holdfast.runs.run import read_run
from holdfast.store.run_store import RunStore
from holdfast.store.server_runs.claiming import Claiming
from holdfast.store.server_runs.phases import RunPhase
from holdfast.store.server_runs.rows import Change, Run

_LOOK_SECONDS: Final = 2.0


class Takeover:
    """It ends when every apply of the change has an outcome."""

    def __init__(self, store: RunStore, claiming: Claiming, change: Change) -> None:
        self.change = change
        self.lost = False
        self._store = store
        self._claiming = claiming

    async def run(self, *, once: bool = False) -> None:
        """`once`: an apply that may still run is left alone. Without heartbeats the change is taken again."""
        store = self._store
        left = [run for run in self.change.runs if run.phase is RunPhase.APPLYING]
        while left and not self.lost:
            for run in tuple(left):
                with contextlib.suppress(HoldfastError):  # The store may be away: it is asked again.
                    status = await asyncio.to_thread(outcome_of, store, run)
                    if status is not None:
                        await self._end(run, status)
                        left.remove(run)
            if left and once:
                return
            if left:
                await asyncio.sleep(_LOOK_SECONDS)
        if self.lost:
            return
        mine = self.change.id, self.change.fence
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

    async def _end(self, run: Run, status: Status) -> None:
        mine = self.change.id, self.change.fence
        set_phase = self._claiming.set_phase
        if not await asyncio.to_thread(lambda: set_phase(*mine, run.id, RunPhase.DONE, status=status.value)):
            self.lost = True


def outcome_of(store: RunStore, run: Run) -> Status | None:
    """How an apply ended whose worker is gone; None while it may still run."""
    claim = claim_on(store, run.stack)
    if claim is not None and claim.run == run.id:
        try:
            notes = finish_from_journal(store, ignore_events, claim, collect_journal(store, claim))
        except Busy:
            return None
        if notes is None:
            return None if is_working(store, claim) else Status.UNKNOWN
    record = read_run(store, run.id)
    if record is None or not record.status.is_final or record.status is Status.UNKNOWN:
        # No claim of this run, and no outcome: it had not started Terraform.
        return Status.FAILED if record is None or record.status is not Status.UNKNOWN else Status.UNKNOWN
    return record.status
