"""What a dead run can leave behind beside objects: processes that nobody waits for, and a lock."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from holdfast.doors import clock, living, processes
from holdfast.doors.living import Life, ProcessId
from holdfast.kernel.errors import Busy
from holdfast.runs.phases import Terraform
from holdfast.store.claims import Claim
from holdfast.store.journal import Journal

_FINISH_SECONDS = 10.0
_LOOK_AGAIN = 0.1
_SKEW = timedelta(seconds=5)
_LOCK = re.compile(
    r"\bID:\s+(?P<id>\S+).*?\bOperation:\s+(?P<operation>\S*).*?\bWho:\s+(?P<who>\S+).*?"
    r"\bCreated:\s+(?P<created>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)",
    re.DOTALL,
)
"""Terraform gives the holder of a lock in words only. They decide nothing but which id is named to it, and
it compares that with the lock itself."""

T = TypeVar("T")


async def end_leftovers(journal: Journal) -> tuple[str, ...]:
    """Providers outlive a killed Terraform and finish what they were asked: waited for, then ended."""
    started = journal.started["process"] if journal.started is not None else None
    if not isinstance(started, Mapping):
        return ()
    supervisor = ProcessId.of(started)
    if living.life(supervisor) is not Life.DEAD or supervisor.host != living.this_process().host:
        return ()
    end = clock.monotonic() + _FINISH_SECONDS
    # The end of a process that is not our child sets no event to wait for.
    while (left := living.session_members(supervisor.pid)) and clock.monotonic() < end:  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_AGAIN)
    if not left:
        return ()
    processes.kill_all(left)
    return (f"ended {len(left)} processes that the dead run had left",)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockSeen:
    id: str
    who: str
    created: str


def lock_in(text: str) -> LockSeen | None:
    match = _LOCK.search(text)
    if match is None:
        return None
    return LockSeen(id=match["id"], who=match["who"], created=match["created"])


def is_of(lock: LockSeen, claim: Claim) -> bool:
    """Taken on the dead run's machine, after the run began: nobody else may have worked on this stack."""
    process = claim.intent.get("process")
    host = process.get("host") if isinstance(process, Mapping) else None
    try:
        began = datetime.fromisoformat(str(claim.intent.get("started")))
        created = datetime.fromisoformat(f"{lock.created}+00:00")
    except ValueError:
        return False
    return lock.who.rpartition("@")[2] == host and created >= began - _SKEW


async def past_the_lock(terraform: Terraform, claim: Claim, work: Callable[[], Awaitable[T]]) -> T:
    """Do something that needs the lock. A lock that the dead run left is released, and no other."""
    try:
        return await work()
    except Busy as error:
        lock = lock_in(error.problem.message) if error.problem.code == "HF-LOCK-1" else None
        if lock is None or not is_of(lock, claim):
            raise
        await terraform.force_unlock(lock.id)
    return await work()
