"""What a dead run can leave behind beside objects: processes that nobody waits for, a lock, a state."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import TypeVar

from holdfast.kernel.errors import Busy
from holdfast.plans.errors import StateLocked
from holdfast.plans.stale_locks import taken_by
from holdfast.plans.terraform import Terraform
from holdfast.runs.claims import Claim
from holdfast.store.journal import Journal
from holdfast.system import clock, process_table, processes
from holdfast.system.process_table import Liveness, ProcessId
from holdfast.terraform.diagnostics import LockInfo
from holdfast.terraform.statefile.model import State, StateFile

_FINISH_SECONDS = 10.0
_LOOK_AGAIN = 0.1

T = TypeVar("T")


async def end_leftovers(journal: Journal) -> tuple[str, ...]:
    """Providers outlive a killed Terraform and finish what they were asked: waited for, then ended."""
    started = journal.started["process"] if journal.started is not None else None
    if not isinstance(started, Mapping):
        return ()
    supervisor = ProcessId.of(started)
    if (
        process_table.liveness(supervisor) is not Liveness.DEAD
        or process_table.process(supervisor.pid).started
    ):
        # Not proved dead; or dead so long that its number, and with it its session, is another's by now.
        return ()
    end = clock.monotonic() + _FINISH_SECONDS
    # The end of a process that is not our child sets no event to wait for.
    while (left := process_table.session_members(supervisor.pid)) and clock.monotonic() < end:  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_AGAIN)
    if not left:
        return ()
    processes.kill_all(left)
    return (f"ended {len(left)} processes that the dead run had left",)


def is_of(lock: LockInfo, claim: Claim) -> bool:
    """Taken on the dead run's machine, after the run began: nobody else may have worked on this stack."""
    return taken_by(lock, host=claim.intent.process.host, began=claim.intent.started)


class Fate(StrEnum):
    """What becomes of a state that Terraform could not save, in words that follow "the state"."""

    SAVED = "is saved now"
    OLD = "is not newer than the one that is kept: it is set aside"
    DAMAGED = "cannot be read: it is set aside"
    KEPT = "is of another lineage than the one that is there: it stays kept, and only a person can choose"


def fate_of_unsaved(unsaved: StateFile, now: StateFile) -> Fate:
    if not isinstance(unsaved, State):
        return Fate.DAMAGED
    if not isinstance(now, State):
        return Fate.SAVED
    if unsaved.lineage != now.lineage:
        return Fate.KEPT
    return Fate.SAVED if unsaved.serial > now.serial else Fate.OLD


async def past_the_lock(
    terraform: Terraform, claim: Claim, work: Callable[[], Awaitable[T]], *, declared: bool = False
) -> T:
    """Do something that needs the lock. A lock that the dead run left is released, and no other.

    Where Terraform does not say whose it is, only a person can: they have `declared` the holder dead.
    """
    try:
        return await work()
    except StateLocked as error:
        if error.lock is None and not declared:
            raise Busy(
                "HF-LOCK-7",
                error.problem.message,
                hint=f"If it is that of the dead run: holdfast runs reconcile {claim.run} "
                "--holder-dead --reason TEXT",
            ) from None
        if error.lock is not None and not is_of(error.lock, claim):
            raise
        await terraform.force_unlock(error.lock.id if error.lock is not None else claim.run)
    return await work()
