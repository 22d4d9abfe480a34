"""Lanes in a real store: heartbeats, a lane that is lost, and a holder whose machine is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from results_made import result, stack

from holdfast.config.valid import Config, Target
from holdfast.doors import clock, living
from holdfast.doors.environment import Environment
from holdfast.doors.living import Life, ProcessId
from holdfast.kernel.errors import Busy
from holdfast.runs import lanes
from holdfast.runs.session import Session
from holdfast.runs.status import Status
from holdfast.secrets.keys import Key
from holdfast.secrets.redact import Redactor
from holdfast.stacks.code import Code
from holdfast.stacks.stack import Stack
from holdfast.store.claims import Claim
from holdfast.store.folder import FolderShelf
from holdfast.store.leases import Held, Holder, Lease, Leases
from holdfast.store.run_store import RunStore
from holdfast.terraform.choose import Choice
from holdfast.terraform.engine import Stop

ELSEWHERE = ProcessId(host="runner-7", boot="b", pid=4711, started="1", machine="m", space="s")
LANE = "lanes/east"


def in_lane(name: str, lane: str = "east") -> Stack:
    return replace(stack(name), target=Target(name="t", lane=lane))


def session(folder: Path, *, change: str, wait: float = 0.0) -> Session:
    key = Key.of(b"k" * 32)

    def choose(_: Stack) -> Choice:
        raise AssertionError("nothing is run here")

    return Session(
        config=Config(file=folder / "holdfast.yaml", root=folder),
        environment=Environment(variables={"HOLDFAST_HOME": str(folder / "home")}),
        code=Code(folder),
        store=RunStore(FolderShelf(folder / "store"), lambda: key),
        key=lambda: key,
        choose=choose,
        redactor=Redactor(),
        who="tester@here",
        stop=Stop(),
        scratch=folder,
        change=change,
        wait=wait,
    )


def taken(at: Session, process: ProcessId, *, change: str = "01DEAD", beat: str | None = None) -> Held:
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


def claim(at: Session, stack_: str, process: ProcessId, *, change: str) -> None:
    intent: dict[str, object] = {
        "operation": "apply",
        "who": "ci",
        "started": clock.now().isoformat(),
        "process": process.document(),
        "intent": {"version": 1, "intent": {"change": change}},
    }
    at.store.claims.take(Claim(stack=stack_, run="01RUN", intent=intent))


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - nothing tells when a store has changed
            await asyncio.sleep(0.01)


def test_a_lane_is_kept_alive_and_given_back(tmp_path: Path) -> None:
    """While it is held its heartbeat goes on, others are refused, and at the end it is free."""
    ours, other = session(tmp_path, change="01A"), session(tmp_path, change="01B")

    def beat() -> str | None:
        now = ours.store.leases.look(LANE)
        return now.beat if now is not None else None

    async def story() -> None:
        async with lanes.held(ours, (in_lane("a"), in_lane("b")), beat=0.01):
            first = beat()
            assert first is not None
            await until(lambda: beat() != first)
            with pytest.raises(Busy) as caught:
                async with lanes.held(other, (in_lane("c"),)):
                    raise AssertionError("two have one lane")
            assert caught.value.problem.code == "HF-LOCK-4"
            assert "change 01A (tester@here, apply of 2 stacks, for 0 s" in caught.value.problem.message
        assert beat() is None

    asyncio.run(story())


def test_a_lane_that_is_lost_stops_the_change(tmp_path: Path) -> None:
    """Once, gracefully; what was stopped says who has the lane now, and what was done stays as it is."""
    ours, other = session(tmp_path, change="01A"), session(tmp_path, change="01B")

    async def story() -> lanes.Holding:
        async with lanes.held(ours, (in_lane("a"),), beat=0.01) as holding:
            now = other.store.leases.look(LANE)
            assert now is not None
            # As one on another machine, where nobody can be seen.
            blind = Leases(other.store.sealed, life=lambda _: Life.UNKNOWN)
            holder = replace(now.holder, change="01B", who="somebody@there")
            got = blind.take_over(LANE, holder, number=now.number, declared="it is gone")
            assert isinstance(got, Lease)
            await until(lambda: ours.stop.level)
        return holding

    holding = asyncio.run(story())
    assert ours.stop.level == 1
    stopped, done = holding.explained(
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
    ours = session(tmp_path, change="01A")
    taken(ours, ELSEWHERE)
    claim(ours, "x", ELSEWHERE, change="01DEAD")

    async def apply() -> None:
        async with lanes.held(ours, (in_lane("a"),)):
            pass

    with pytest.raises(Busy) as caught:
        asyncio.run(apply())
    assert "last heard of 0 s ago on runner-7" in caught.value.problem.message
    assert lanes.declare_dead(ours, "01OTHER", "no") == ()
    assert lanes.holders(ours) == {"east": "01DEAD"}
    assert lanes.declare_dead(ours, "01DEAD", "the runner was shut down") == ("east",)
    assert lanes.holders(ours) == {}
    asyncio.run(apply())


def test_nobody_can_declare_dead_what_lives(tmp_path: Path) -> None:
    """A holder that is seen to live keeps its lane whatever is said."""
    ours = session(tmp_path, change="01A")
    taken(ours, living.this_process(), change="01LIVES")
    with pytest.raises(Busy) as caught:
        lanes.declare_dead(ours, "01LIVES", "I thought so")
    assert caught.value.problem.code == "HF-LOCK-4"
    assert lanes.holders(ours) == {"east": "01LIVES"}


def test_the_hint_for_a_silent_holder_names_what_to_say(tmp_path: Path) -> None:
    """The run that is open, or the change where none is."""
    ours = session(tmp_path, change="01A")
    now = replace(taken(ours, ELSEWHERE), beat="2026-01-02T14:02:00+00:00")
    assert "runs reconcile 01DEAD --holder-dead" in str(lanes.busy(ours, "east", now).problem.hint)
    claim(ours, "x", ELSEWHERE, change="01DEAD")
    assert "runs reconcile 01RUN --holder-dead" in str(lanes.busy(ours, "east", now).problem.hint)
