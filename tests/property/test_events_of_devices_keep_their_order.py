"""Events of devices against a model of what was promised: any order of submissions, attempts, decisions,
cancellations, lost workers and reconciliations.

Whatever happens: a device has one event at a time and in its order, the limit of a blueprint is never
exceeded, what is superseded leads to an event that counts, what is final stays so, and in the end every event
is over and each device has the payload of its last event that succeeded.
"""

from __future__ import annotations

from collections import Counter

import pytest
from fleet_played import DIGEST, PlayedFleet, offered
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from postgres_made import MadePostgres

from holdfast.database.database import Database
from holdfast.identity.principal import DEFAULT_TENANT
from holdfast.kernel.errors import Refused
from holdfast.server.fleet.actions import cancel_queued
from holdfast.store.fleet.rows import Event
from holdfast.store.fleet.rules import Action, DeviceStatus, EventStatus
from holdfast.store.server_runs.phases import ChangePhase, Operation, RunPhase
from holdfast.store.server_runs.rows import Change

_DEVICES = st.sampled_from(["a", "b", "c", "d"])
_PLACES = st.integers(0, 5)
_RESULTS = st.sampled_from(["applied", "applied", "unchanged", "failed", "unknown", "wait"])
_CONCURRENCY = 2
_OPEN = frozenset({"queued", "running", "unknown"})
_APPLIED = frozenset({"applied", "unchanged"})


class _Machine(RuleBasedStateMachine):
    real: Database
    seen: Counter[EventStatus]
    """How often each status was met: a machine that never gets there shows nothing."""

    def __init__(self) -> None:
        super().__init__()
        with self.real.transaction() as connection:
            connection.execute(
                "truncate changes, runs, workers, events, devices, idempotency_keys, sources cascade"
            )
        self.fleet = PlayedFleet(self.real, offered(concurrency=_CONCURRENCY, retries=1))
        self.accepted: list[str] = []
        """In their order."""
        self.payloads: dict[str, int | None] = {}
        """What each event gives its device; None: it deletes it."""
        self.world: dict[str, int | None] = {}
        """The devices themselves, as workers changed them; None: deleted."""
        self.held: dict[str, Change] = {}
        self.before: dict[str, Event] = {}
        self.numbers = 0

    def _events(self) -> dict[str, Event]:
        """In their order."""
        found = self.fleet.rows.events(DEFAULT_TENANT, limit=10_000)
        return {event.id: event for event in reversed(found)}

    def _chosen(self, place: int, *statuses: str) -> Event | None:
        events = [event for event in self._events().values() if event.stored in statuses]
        return events[place % len(events)] if events else None

    # Clients

    @initialize(devices=st.lists(_DEVICES, unique=True, max_size=3))
    def begin_with(self, devices: list[str]) -> None:
        for device in devices:
            self.submit(device, Action.CREATE, keep=False, approval=False)
            self.work("applied")

    @rule(device=_DEVICES, count=st.integers(1, 3), approval=st.booleans())
    def update(self, device: str, count: int, approval: bool) -> None:  # noqa: FBT001 - drawn
        """A busy client."""
        for _ in range(count):
            self.submit(device, Action.UPDATE, keep=False, approval=approval)

    @rule(device=_DEVICES, action=st.sampled_from(Action), keep=st.booleans(), approval=st.booleans())
    def submit(self, device: str, action: Action, keep: bool, approval: bool) -> None:  # noqa: FBT001 - drawn
        earlier = [event for event in self._events().values() if event.resource_id == device]
        counted = [
            event
            for event in earlier
            if event.stored in {*_OPEN, "succeeded"}
            or (event.action is Action.CREATE and event.stored in {"failed", "cancelled"})
        ]
        self.numbers += 1
        given = None if keep and action is not Action.CREATE else self.numbers
        try:
            event = self.fleet.submit(action, device, given, requires_approval=approval)
        except Refused:
            return
        wanted = given if given is not None or not counted else self._number(counted[-1].id)
        assert self._number(event.id) == wanted
        self.accepted.append(event.id)
        self.payloads[event.id] = None if action is Action.DELETE else wanted

    def _number(self, event: str) -> int | None:
        return self.fleet.payload(event).get("number")

    @rule(place=_PLACES)
    def cancel(self, place: int) -> None:
        event = self._chosen(place, "queued", "running")
        if event is None:
            return
        if event.stored == "queued":
            cancel_queued(self.fleet.requests, self.fleet.caller(), event, "")
        else:
            self.fleet.changes.request_cancel(event.change, "bob")

    @rule(place=_PLACES, rejected=st.booleans())
    def decide(self, place: int, rejected: bool) -> None:  # noqa: FBT001 - drawn
        waiting = [event for event in self._events().values() if event.status is EventStatus.WAITING]
        if waiting:
            event = waiting[place % len(waiting)]
            assert self.fleet.changes.decide(event.run, DIGEST, rejected=rejected)

    # Workers and servers

    @rule()
    def claim(self) -> None:
        change = self.fleet.worker.claim()
        if change is None:
            return
        self.held[change.id] = change
        event = self.fleet.event(str(change.event))
        for other in self._events().values():
            if other.resource_id == event.resource_id and other.number < event.number:
                assert other.status.is_final, f"{other.id} is {other.status}, but {event.id} runs"

    @rule(place=_PLACES, status=_RESULTS)
    def attempt(self, place: int, status: str) -> None:
        if not self.held:
            return
        change = sorted(self.held.items())[place % len(self.held)][1]
        del self.held[change.id]
        event, (run,) = self.fleet.event(str(change.event)), change.runs
        if change.operation is Operation.RECONCILE:
            self.fleet.begin(change)
            self.fleet.end(change, "unknown" if status == "unknown" else "unchanged")
        elif event.requires_approval and run.phase is not RunPhase.WAITING and status in {*_APPLIED, "wait"}:
            self.fleet.begin(change, RunPhase.PLANNING)
            self.fleet.end(change, "waiting")
        else:
            status = "failed" if status == "wait" else status
            self.fleet.begin(change)
            if status in _APPLIED:
                self.world[event.resource_id] = self.payloads[event.id]
            self.fleet.end(change, status)

    @rule(status=_RESULTS)
    def work(self, status: str) -> None:
        """At once from the beginning to the end."""
        self.fleet.keeper.run()
        self.claim()
        self.attempt(0, status)
        self.fleet.keeper.run()

    @rule(place=_PLACES)
    def lose_the_worker(self, place: int) -> None:
        """Before it applied anything: another one makes the plan again."""
        if self.held:
            change = sorted(self.held.items())[place % len(self.held)][1]
            del self.held[change.id]
            assert self.fleet.worker.requeue(change.id, change.fence)

    @rule()
    def keep(self) -> None:
        self.fleet.keeper.run()
        assert self.fleet.keeper.run() == 0

    @rule(place=_PLACES)
    def reconcile(self, place: int) -> None:
        event = self._chosen(place, "unknown")
        if event is not None:
            self.fleet.reconcile(event)

    # What holds

    @invariant()
    def one_event_of_a_device_at_a_time(self) -> None:
        changes = [
            change
            for change in self.fleet.changes.list(DEFAULT_TENANT, limit=10_000)
            if change.phase is ChangePhase.RUNNING
        ]
        assert len(changes) <= _CONCURRENCY
        stacks = [run.stack for change in changes for run in change.runs]
        assert len(stacks) == len(set(stacks))
        began = [event.stack for event in self._events().values() if event.stored in {"running", "unknown"}]
        assert len(began) == len(set(began))

    @invariant()
    def what_is_over_stays_so(self) -> None:
        events = self._events()
        assert list(events) == self.accepted
        for event in events.values():
            before = self.before.get(event.id)
            if before is not None and before.status.is_final:
                assert event == before
            self.before[event.id] = event
            self.seen[event.status] += 1
            if event.stored == EventStatus.SUPERSEDED:
                self._require_successor(events, event)
            else:
                assert event.superseded_by is None

    def _require_successor(self, events: dict[str, Event], event: Event) -> None:
        assert event.action is Action.UPDATE
        while event.stored == EventStatus.SUPERSEDED:
            after = events[str(event.superseded_by)]
            assert after.resource_id == event.resource_id
            assert after.action is Action.UPDATE
            assert after.number > event.number
            between = [
                other
                for other in events.values()
                if other.resource_id == event.resource_id
                and event.number < other.number < after.number
                and other.action is not Action.UPDATE
            ]
            assert {other.status for other in between} <= {EventStatus.CANCELLED}
            event = after

    def teardown(self) -> None:
        """People decide and reconcile, workers succeed: then everything is over."""
        for change in self.held.values():
            assert self.fleet.worker.requeue(change.id, change.fence)
        self.held.clear()
        for _ in range(20 * (len(self.accepted) + 1)):
            self.fleet.keeper.run()
            self.claim()
            self.attempt(0, "applied")
            for event in self._events().values():
                if event.status is EventStatus.WAITING:
                    self.fleet.changes.decide(event.run, DIGEST)
                elif event.stored == "unknown" and not self._is_reconciled(event):
                    self.fleet.reconcile(event)
            if not self._chosen(0, *_OPEN):
                break
        events = self._events()
        assert all(event.status.is_final for event in events.values())
        self.what_is_over_stays_so()
        last = {event.resource_id: event for event in events.values()}
        assert EventStatus.SUPERSEDED not in {event.status for event in last.values()}
        done = {
            event.resource_id: event for event in events.values() if event.status is EventStatus.SUCCEEDED
        }
        for name, event in done.items():
            assert self.world[name] == self.payloads[event.id]
            device = self.fleet.rows.device(DEFAULT_TENANT, "site", name)
            assert device is not None
            assert device.event == event.id
            if last[name].id == event.id:
                gone = event.action is Action.DELETE
                assert device.status is (DeviceStatus.ABSENT if gone else DeviceStatus.PRESENT)

    def _is_reconciled(self, event: Event) -> bool:
        changes = self.fleet.changes.list(DEFAULT_TENANT, limit=10_000)
        return any(
            change.operation is Operation.RECONCILE
            and change.runs[0].retried_from == event.run
            and change.phase is not ChangePhase.DONE
            for change in changes
        )


@pytest.fixture
def machine(postgres: MadePostgres) -> object:
    with postgres.new_database() as address, Database.open(address, size=4) as database:
        yield type("Machine", (_Machine,), {"real": database, "seen": Counter()})


def test_the_machine_reaches_every_status(machine: type[_Machine]) -> None:
    """Chosen steps, with every promise checked after each: what is drawn at random may miss some."""
    played = machine()

    def check() -> None:
        played.one_event_of_a_device_at_a_time()
        played.what_is_over_stays_so()

    played.begin_with(["a", "b"])
    for results in (("failed", "failed"), ("unknown",), ("wait",)):
        played.update("a", 2, approval=results == ("wait",))
        for result in results:
            played.work(result)
            check()
        played.update("a", 2, approval=False)
        check()
        played.submit("a", Action.DELETE, keep=True, approval=False)
        played.submit("a", Action.CREATE, keep=False, approval=False)
        played.update("a", 2, approval=False)
        played.reconcile(0)
        played.decide(0, rejected=False)
        for _ in range(8):
            played.work("applied")
            check()
    played.update("b", 1, approval=False)
    played.claim()
    check()
    played.lose_the_worker(0)
    played.cancel(0)
    played.keep()
    check()
    played.teardown()
    assert set(machine.seen) == set(EventStatus)


def test_events_of_devices_keep_their_order(machine: type[_Machine]) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=25, stateful_step_count=30))


@pytest.mark.long
def test_events_of_devices_keep_their_order_for_long(machine: type[_Machine]) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=500, stateful_step_count=60))
