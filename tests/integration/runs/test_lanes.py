"""Lanes in a real store: heartbeats, a lane that is lost, and a holder whose machine is gone."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from context_made import ALIVE, DEAD, ELSEWHERE, change_context, claim, journal, take
from msgspec.structs import replace
from results_made import result, stack

from holdfast.audit.reader import newest
from holdfast.config.settings import Target
from holdfast.kernel.errors import Busy, Failed
from holdfast.plans.context import ChangeContext
from holdfast.plans.events import Event, Note
from holdfast.plans.status import Status
from holdfast.runs import lanes
from holdfast.stacks.stack import Stack
from holdfast.store.journal import STARTED
from holdfast.store.leases import HeldByOther, Holder, Lease, Leases
from holdfast.store.run_records import journal_name
from holdfast.system import clock, process_table
from holdfast.system.process_table import Liveness, ProcessId

LANE = "lanes/east"


def in_lane(name: str, lane: str = "east") -> Stack:
    return replace(stack(name), target=Target(name="t", lane=lane))


def taken(
    at: ChangeContext, process: ProcessId, *, change: str = "01DEAD", beat: str | None = None
) -> HeldByOther:
    """Another change has the lane, as it would have written it."""
    holder = Holder(
        change=change,
        who="ci:acme/infra#411",
        what="apply of 4 stacks",
        process=process,
        since=beat or clock.now().isoformat(),
    )
    assert isinstance(at.store.leases.take(LANE, holder), Lease)
    now = at.store.leases.look(LANE)
    assert now is not None
    return now


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - nothing tells when a store has changed
            await asyncio.sleep(0.01)


def test_a_lane_is_kept_alive_and_given_back(tmp_path: Path) -> None:
    """While it is held its heartbeat goes on, others are refused, and at the end it is free."""
    ours, other = change_context(tmp_path, change="01A"), change_context(tmp_path, change="01B")

    def beat() -> str | None:
        now = ours.store.leases.look(LANE)
        return now.beat if now is not None else None

    async def story() -> None:
        async with lanes.hold_lanes(
            ours.store, ours.control, ours.identity, (in_lane("a"), in_lane("b")), beat=0.01
        ):
            first = beat()
            assert first is not None
            await until(lambda: beat() != first)
            with pytest.raises(Busy) as caught:
                async with lanes.hold_lanes(other.store, other.control, other.identity, (in_lane("c"),)):
                    raise AssertionError("two have one lane")
            assert caught.value.problem.code == "HF-LOCK-4"
            who = re.escape(ours.identity.who)
            said = rf"change 01A \({who}, apply of 2 stacks, for \d+ s, last heartbeat \d+ s ago\)"
            assert re.search(said, caught.value.problem.message)
        assert beat() is None

    asyncio.run(story())


def test_a_lane_that_is_lost_stops_the_change(tmp_path: Path) -> None:
    """Once, gracefully; what was stopped says who has the lane now, and what was done stays as it is."""
    ours, other = change_context(tmp_path, change="01A"), change_context(tmp_path, change="01B")

    async def story() -> lanes.HeldLanes:
        async with lanes.hold_lanes(
            ours.store, ours.control, ours.identity, (in_lane("a"),), beat=0.01
        ) as holding:
            now = other.store.leases.look(LANE)
            assert now is not None
            # As one on another machine, where nobody can be seen.
            blind = Leases(other.store.encrypted, life=lambda _: Liveness.UNKNOWN)
            holder = replace(now.holder, change="01B", who="somebody@there")
            got = blind.take_over(LANE, holder, number=now.number, declared="it is gone")
            assert isinstance(got, Lease)
            await until(lambda: ours.control.stop.level)
        return holding

    holding = asyncio.run(story())
    assert ours.control.stop.level == 1
    stopped, done = holding.explain_cancelled(
        (result(stack("a"), Status.CANCELLED, "HF-RUN-2"), result(stack("b"), Status.APPLIED))
    )
    assert stopped.error is not None
    assert stopped.error.code == "HF-STORE-9"
    assert "somebody@there" in stopped.error.message
    assert done.error is None
    now = other.store.leases.look(LANE)
    assert now is not None
    assert now.holder.change == "01B"


def test_who_is_out_of_sight_keeps_the_lane_until_a_person_says_otherwise(tmp_path: Path) -> None:
    """Silence proves nothing; a declaration frees every lane of that change, and of no other."""
    ours = change_context(tmp_path, change="01A")
    taken(ours, ELSEWHERE)
    take(ours.store, claim(ELSEWHERE, stack="x", change="01DEAD"))

    async def apply() -> None:
        async with lanes.hold_lanes(ours.store, ours.control, ours.identity, (in_lane("a"),)):
            pass

    with pytest.raises(Busy) as caught:
        asyncio.run(apply())
    assert re.search(r"last heartbeat \d+ s ago on runner-7", caught.value.problem.message)
    assert lanes.declare_dead(ours.store, ours.identity, "01OTHER", "no") == ()
    assert lanes.holders(ours.store) == {"east": "01DEAD"}
    assert lanes.declare_dead(ours.store, ours.identity, "01DEAD", "the runner was shut down") == ("east",)
    (line, *_) = newest(ours.store, limit=1)
    assert (line["what"], line["run"], line["reason"]) == (
        "holder-dead",
        "01DEAD",
        "the runner was shut down",
    )
    assert lanes.holders(ours.store) == {}
    asyncio.run(apply())


def test_nobody_can_declare_dead_what_lives(tmp_path: Path) -> None:
    """A holder that is seen to live keeps its lane whatever is said."""
    ours = change_context(tmp_path, change="01A")
    taken(ours, process_table.this_process(), change="01LIVES")
    with pytest.raises(Busy) as caught:
        lanes.declare_dead(ours.store, ours.identity, "01LIVES", "I thought so")
    assert caught.value.problem.code == "HF-LOCK-4"
    assert lanes.holders(ours.store) == {"east": "01LIVES"}


def test_the_hint_for_a_silent_holder_names_what_to_say(tmp_path: Path) -> None:
    """The run that is open, or the change where none is."""
    ours = change_context(tmp_path, change="01A")
    take(ours.store, claim(ELSEWHERE, stack="y", run="01AAA", change="01OTHER"))
    now = replace(taken(ours, ELSEWHERE), beat="2026-01-02T14:02:00+00:00")
    assert "runs reconcile 01DEAD --holder-dead" in str(lanes.lane_busy(ours.store, "east", now).problem.hint)
    take(ours.store, claim(ELSEWHERE, stack="x", change="01DEAD"))
    assert "runs reconcile 01RUN --holder-dead" in str(lanes.lane_busy(ours.store, "east", now).problem.hint)
    seen = replace(now, life=Liveness.ALIVE)
    assert "--wait" in str(lanes.lane_busy(ours.store, "east", seen).problem.hint)


async def hold(at: ChangeContext, *stacks: Stack) -> None:
    """The lanes of these stacks, for a moment."""
    async with lanes.hold_lanes(at.store, at.control, at.identity, stacks):
        pass


@pytest.fixture
def never_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """To wait for a lane is an error in the test that asks for this; a heartbeat may wait."""
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        assert seconds == lanes.BEAT_SECONDS, "it waits"
        await real(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)


def test_lanes_are_taken_in_one_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two changes of the same two lanes cannot each hold one and wait for the other."""
    ours = change_context(tmp_path)
    order: list[str] = []
    take = ours.store.leases.take

    def noted(name: str, holder: Holder, **options: Any) -> Lease | HeldByOther:
        order.append(name)
        return take(name, holder, **options)

    monkeypatch.setattr(ours.store.leases, "take", noted)
    asyncio.run(hold(ours, in_lane("a", "west"), in_lane("b", "north"), in_lane("c", "east")))
    assert order == ["lanes/east", "lanes/north", "lanes/west"]


@pytest.mark.parametrize("trouble", [OSError("gone"), Failed("HF-STORE-5", "the store does not answer")])
def test_a_store_that_does_not_answer_takes_no_lane_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    """Heartbeats that fail stop nothing, and the next one is tried."""
    ours = change_context(tmp_path)
    renew, tried, renewed = ours.store.leases.renew, 0, threading.Event()

    def stumbles(lease: Lease) -> Lease:
        nonlocal tried
        tried += 1
        if tried < 3:
            raise trouble
        renewed.set()
        return renew(lease)

    monkeypatch.setattr(ours.store.leases, "renew", stumbles)

    async def story() -> lanes.HeldLanes:
        async with lanes.hold_lanes(
            ours.store, ours.control, ours.identity, (in_lane("a"),), beat=0.001
        ) as holding:
            assert await asyncio.to_thread(renewed.wait, 30)
        return holding

    assert asyncio.run(story()).lost is None
    assert ours.control.stop.level == 0
    assert lanes.holders(ours.store) == {}


@pytest.mark.parametrize("trouble", [OSError("gone"), Failed("HF-STORE-5", "the store does not answer")])
def test_a_lane_that_cannot_be_released_is_said_and_harms_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    """The change is over all the same, and its other lanes are free."""
    told = list[Event]()
    ours = change_context(tmp_path, tell=told.append)
    release, stumbles = ours.store.leases.release, True

    def once(lease: Lease) -> None:
        nonlocal stumbles
        if stumbles:
            stumbles = False
            raise trouble
        release(lease)

    monkeypatch.setattr(ours.store.leases, "release", once)
    asyncio.run(hold(ours, in_lane("a"), in_lane("b", "west")))
    assert lanes.holders(ours.store) == {"east": "01A"}
    (note,) = told
    assert isinstance(note, Note)
    assert note.text.startswith("lane `east` could not be released")


def test_a_change_that_is_ending_is_not_hurried_by_a_lost_lane(tmp_path: Path) -> None:
    """A second wish would end Terraform at once: a lost lane never adds one to a person's."""
    stopping = asyncio.Event()
    ours = change_context(tmp_path, tell=lambda _: stopping.set())

    async def story() -> None:
        async with lanes.hold_lanes(
            ours.store, ours.control, ours.identity, (in_lane("a"),), beat=0.001
        ) as holding:
            ours.control.stop.ask()
            now = ours.store.leases.look(LANE)
            assert now is not None
            blind = Leases(ours.store.encrypted, life=lambda _: Liveness.UNKNOWN)
            other = replace(now.holder, change="01B")
            assert isinstance(blind.take_over(LANE, other, number=now.number, declared="gone"), Lease)
            async with asyncio.timeout(30):
                await stopping.wait()
            assert holding.lost is not None

    asyncio.run(story())
    assert ours.control.stop.level == 1


@pytest.mark.usefixtures("never_waits")
def test_a_wish_to_stop_ends_the_waiting_for_a_lane(tmp_path: Path) -> None:
    """Ctrl-C while another change has the lane takes nothing and leaves that one alone."""
    ours = change_context(tmp_path, wait=3600.0)
    taken(ours, ALIVE, change="01B")
    ours.control.stop.ask()
    with pytest.raises(Busy):
        asyncio.run(hold(ours, in_lane("a")))
    assert lanes.holders(ours.store) == {"east": "01B"}


@pytest.mark.usefixtures("never_waits")
def test_a_holder_that_stays_silent_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Out of sight and without a sign for a minute: a person has to say what became of it."""
    ours = change_context(tmp_path, wait=3600.0)
    taken(ours, ELSEWHERE)
    monkeypatch.setattr(lanes._Silence, "too_long", lambda *_: True)
    with pytest.raises(Busy):
        asyncio.run(hold(ours, in_lane("a")))


def test_silence_is_counted_from_the_last_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new heartbeat begins it anew, and who is seen to live may be as silent as it likes."""
    now = 0.0
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    seen = taken(change_context(tmp_path), ELSEWHERE)
    silence = lanes._Silence()
    story = [
        (0.0, seen, False),
        (60.0, seen, False),
        (60.5, seen, True),
        (61.0, replace(seen, beat="later"), False),
        (121.5, replace(seen, beat="later"), True),
        (122.0, replace(seen, beat="later", life=Liveness.ALIVE), False),
        (900.0, replace(seen, beat="later", life=Liveness.ALIVE), False),
    ]
    for now, held, expected in story:  # noqa: B007 - read by the clock
        assert silence.too_long(held) is expected


def test_a_dead_holder_keeps_its_lane_while_terraform_works(tmp_path: Path) -> None:
    """What it began goes on without it; once that is over too, the lane is free for the next."""
    ours = change_context(tmp_path)
    taken(ours, DEAD)
    take(ours.store, claim(DEAD, change="01DEAD"))
    path = tmp_path / "store" / journal_name("01RUN")
    journal(path, (STARTED, {"process": ALIVE.document(), "output_buffer": None}))
    with pytest.raises(Busy) as caught:
        asyncio.run(hold(ours, in_lane("a")))
    assert "its Holdfast process is gone, but Terraform is still running; stack a, run 01RUN" in str(
        caught.value
    )
    path.unlink()
    journal(path, (STARTED, {"process": DEAD.document(), "output_buffer": None}))
    asyncio.run(hold(ours, in_lane("a")))


def test_a_waiting_change_says_once_for_whom_it_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at every look: a log of a long wait stays readable."""
    told = list[Event]()
    ours = change_context(tmp_path, wait=3600.0, tell=told.append)
    taken(ours, ALIVE, change="01B")
    looks = 0

    async def sleep(seconds: float) -> None:
        nonlocal looks
        if seconds == lanes.BEAT_SECONDS:
            await asyncio.Event().wait()
        looks += 1
        if looks == 3:
            ours.control.stop.ask()

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(Busy):
        asyncio.run(hold(ours, in_lane("a")))
    (note,) = told
    assert isinstance(note, Note)
    assert "waiting: lane `east` is held by change 01B" in note.text
