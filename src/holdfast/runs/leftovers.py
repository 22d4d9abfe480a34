"""What a dead run can leave behind beside objects: processes that nobody waits for, and a lock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from holdfast.doors import clock, living, processes
from holdfast.doors.living import Life, ProcessId
from holdfast.runs.ends import StateLocked
from holdfast.runs.phases import Terraform
from holdfast.runs.planning import is_our_own, taken_by
from holdfast.store.claims import Claim
from holdfast.store.journal import Journal
from holdfast.terraform.lock_info import LockInfo

_FINISH_SECONDS = 10.0
_LOOK_AGAIN = 0.1

T = TypeVar("T")


async def end_leftovers(journal: Journal) -> tuple[str, ...]:
    """Providers outlive a killed Terraform and finish what they were asked: waited for, then ended."""
    started = journal.started["process"] if journal.started is not None else None
    if not isinstance(started, Mapping):
        return ()
    supervisor = ProcessId.of(started)
    if living.life(supervisor) is not Life.DEAD or living.process(supervisor.pid).started:
        # Not proved dead; or dead so long that its number, and with it its session, is another's by now.
        return ()
    end = clock.monotonic() + _FINISH_SECONDS
    # The end of a process that is not our child sets no event to wait for.
    while (left := living.session_members(supervisor.pid)) and clock.monotonic() < end:  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_AGAIN)
    if not left:
        return ()
    processes.kill_all(left)
    return (f"ended {len(left)} processes that the dead run had left",)


def is_of(lock: LockInfo, claim: Claim) -> bool:
    """Taken on the dead run's machine, after the run began: nobody else may have worked on this stack."""
    process = claim.intent.get("process")
    host = process.get("host") if isinstance(process, Mapping) else None
    return taken_by(lock, host=str(host or ""), began=str(claim.intent.get("started")))


async def past_the_lock(terraform: Terraform, claim: Claim, work: Callable[[], Awaitable[T]]) -> T:
    """Do something that needs the lock. A lock that the dead run left is released, and no other."""
    asked = clock.now()
    try:
        return await work()
    except StateLocked as error:
        if error.lock is None or not is_of(error.lock, claim) or is_our_own(error.lock, asked):
            raise
        await terraform.force_unlock(error.lock.id)
    return await work()
