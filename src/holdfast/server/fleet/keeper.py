"""Ends events whose change is done, and begins those whose turn it is.

Whoever finishes a change notifies; a notification can be lost, so the keeper also looks from time to time.
Every step is one transaction, so several servers on one database may do it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from holdfast.database.database import Database
from holdfast.kernel.errors import HoldfastError
from holdfast.server.drift.keeper import DriftKeeper
from holdfast.server.edge import Log
from holdfast.server.fleet.drift import FleetDrift
from holdfast.store.alert_signals import signal
from holdfast.store.approvals import ApprovalKind
from holdfast.store.fleet import queue
from holdfast.store.fleet.queue import EndedChange, EventEnd
from holdfast.store.fleet.rows import Event, find_device
from holdfast.store.fleet.rules import Attempt, DeviceStatus, EventStatus, device_after, outcome
from holdfast.store.outgoing_webhooks import enqueue
from holdfast.store.run_store import RunStore
from holdfast.store.server_runs.wakeups import listen

_POLL = 2.0
_STOP_SECONDS = 5.0
_BATCH = 200


class FleetKeeper(Struct, frozen=True, kw_only=True):
    database: Database
    store: Callable[[str], RunStore]
    """The run store of a tenant."""
    log: Log
    drift: FleetDrift | None = None
    stacks: DriftKeeper | None = None
    """Drift of stacks of registered repositories."""

    def run(self) -> int:
        """How many events ended or began."""
        done = 0
        while True:
            rejected = self._rejected()
            with self.database.transaction() as connection:
                queue.take_queue(connection)
                changes = queue.ended_changes(connection, _BATCH)
                ends = [self._end(connection, change, rejected) for change in changes]
                queue.end_events(connection, ends)
                for end in ends:
                    if end.status is not EventStatus.QUEUED:
                        enqueue(connection, end.event.tenant, f"event.{end.status}", end.event.id)
                        signal(connection, end.event.tenant, "event", end.event.id)
                done += len(ends) + len(queue.begin_events(connection))
            if len(changes) < _BATCH:
                return done

    def _end(self, connection: Any, change: EndedChange, rejected: frozenset[str]) -> EventEnd:
        event = change.event
        if change.reconciled:
            return EventEnd(event=event, status=EventStatus.QUEUED, device=None)
        attempt = Attempt(
            status=event.run_status,
            cancelled=change.cancelled,
            rejected=event.run in rejected,
            attempts=event.attempts,
            retries=event.retries,
        )
        result = outcome(attempt)
        device = find_device(connection, event.tenant, event.blueprint, event.resource_id)
        before = device.status if device is not None else DeviceStatus.ABSENT
        # What a failed attempt left is there, also if the next one is cancelled.
        ended = EventStatus.FAILED if result.retried else result.status
        return EventEnd(
            event=event,
            status=result.status,
            device=device_after(before, event.action, ended, began=change.began),
            error=None if ended is EventStatus.SUCCEEDED or result.retried else change.error,
            wait=event.retry_wait if result.retried else 0.0,
        )

    def _rejected(self) -> frozenset[str]:
        """Runs whose plan a person rejected. Read before: who has the queue needs no second connection."""
        with self.database.transaction() as connection:
            changes = queue.ended_changes(connection, _BATCH)
        return frozenset(change.event.run for change in changes if self._is_rejected(change.event))

    def _is_rejected(self, event: Event) -> bool:
        if event.run_status != "refused" or event.plan_digest is None:
            return False
        given = self.store(event.tenant).approvals.of(event.plan_digest)
        return any(item.kind is ApprovalKind.REJECTION and item.stack == event.stack for item in given)


@contextlib.contextmanager
def hold_keeper(keeper: FleetKeeper, *, poll: float = _POLL) -> Iterator[None]:
    """In a thread, whenever work is submitted or done, and at every interval."""
    ended = threading.Event()

    async def work() -> None:
        async with contextlib.aclosing(listen(keeper.database, poll=poll)) as wakeups:
            async for _ in wakeups:
                if ended.is_set():
                    return
                try:
                    keeper.run()
                    if keeper.drift is not None:
                        keeper.drift.run()
                    if keeper.stacks is not None:
                        keeper.stacks.run()
                except Exception as error:  # noqa: BLE001 - the next wake-up tries again
                    known = isinstance(error, HoldfastError)
                    message = error.problem.message if known else type(error).__name__  # type: ignore[attr-defined]
                    keeper.log.error("events wait", message=message)  # noqa: TRY400 - its text may quote a payload

    thread = threading.Thread(target=lambda: asyncio.run(work()), name="holdfast-fleet", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_STOP_SECONDS)
