"""Interrupt, grace, interrupt, grace, kill; Ctrl-C; and lines split from chunks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from holdfast.terraform.engine.interface import CancelSequence, CancelTimeouts, Command, LineSplitter, Stop

LONG = 3600.0
QUICK = CancelTimeouts(apply=0.0, reading=0.0, otherwise=0.0, before_kill=0.0)
PATIENT = CancelTimeouts(apply=LONG, reading=LONG, otherwise=LONG, before_kill=LONG)


def command(phase: str = "apply", *, seconds: float | None = None, cancel_level: int = 1) -> Command:
    return Command(
        phase=phase,
        argv=(phase,),
        folder=Path("/"),
        environment={},
        seconds=seconds,
        cancel_level=cancel_level,
    )


class Climb:
    """A ladder beside a command that never ends, and what was done to that command."""

    def __init__(self, timeouts: CancelTimeouts, stop: Stop, given: Command) -> None:
        self.done: list[str] = []
        self._more = asyncio.Event()
        self.ladder = CancelSequence(timeouts)
        self.task = asyncio.create_task(
            self.ladder.run(given, stop, lambda: self._note("interrupt"), lambda: self._note("kill"))
        )

    def _note(self, what: str) -> None:
        self.done.append(what)
        self._more.set()

    async def until(self, count: int) -> list[str]:
        while len(self.done) < count:
            self._more.clear()
            await self._more.wait()
        return self.done

    async def settled(self) -> list[str]:
        """After everything that could happen without time passing."""
        for _ in range(20):
            await asyncio.sleep(0)
        return self.done

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(work(), 20)

    asyncio.run(limited())


def test_without_a_cancel_nothing_is_interrupted() -> None:
    """A command that is not cancelled is left alone."""

    async def work() -> None:
        run_sequence = Climb(QUICK, Stop(), command())
        assert await run_sequence.settled() == []
        await run_sequence.end()
        assert not run_sequence.ladder.interrupted

    run(work)


def test_one_wish_is_one_interrupt() -> None:
    """The first Ctrl-C is graceful: one interrupt, and then the command has its time."""

    async def work() -> None:
        stop = Stop()
        run_sequence = Climb(PATIENT, stop, command())
        stop.ask()
        assert await run_sequence.until(1) == ["interrupt"]
        assert await run_sequence.settled() == ["interrupt"]
        assert (
            run_sequence.ladder.interrupted,
            run_sequence.ladder.force_cancelled,
            run_sequence.ladder.killed,
        ) == (
            True,
            False,
            False,
        )
        await run_sequence.end()

    run(work)


def test_two_wishes_are_two_interrupts_without_waiting() -> None:
    """The second Ctrl-C does not wait for the grace of the first."""

    async def work() -> None:
        stop = Stop()
        run_sequence = Climb(PATIENT, stop, command())
        stop.ask()
        await run_sequence.until(1)
        stop.ask()
        assert await run_sequence.until(2) == ["interrupt", "interrupt"]
        assert await run_sequence.settled() == ["interrupt", "interrupt"]
        assert (
            run_sequence.ladder.force_cancelled,
            run_sequence.ladder.killed,
            run_sequence.ladder.timed_out,
        ) == (
            True,
            False,
            False,
        )
        await run_sequence.end()

    run(work)


def test_a_command_that_ignores_interrupts_is_killed() -> None:
    """After both graces are over the group is killed, once."""

    async def work() -> None:
        stop = Stop()
        stop.ask()
        run_sequence = Climb(QUICK, stop, command())
        assert await run_sequence.until(3) == ["interrupt", "interrupt", "kill"]
        await run_sequence.task
        assert run_sequence.ladder.killed
        assert not run_sequence.ladder.timed_out

    run(work)


def test_a_time_limit_climbs_without_a_wish() -> None:
    """A command over its time is stopped like by Ctrl-C, and says that it was the time."""

    async def work() -> None:
        run_sequence = Climb(QUICK, Stop(), command("plan", seconds=0.001))
        assert await run_sequence.until(3) == ["interrupt", "interrupt", "kill"]
        await run_sequence.task
        assert run_sequence.ladder.timed_out
        assert run_sequence.ladder.interrupted

    run(work)


def test_what_must_be_done_after_a_stop_is_not_stopped_by_it() -> None:
    """Reading the state after a cancelled apply is cancelled only by the second Ctrl-C."""

    async def work() -> None:
        stop = Stop()
        stop.ask()
        run_sequence = Climb(PATIENT, stop, command("state", cancel_level=2))
        assert await run_sequence.settled() == []
        stop.ask()
        assert (await run_sequence.until(1))[0] == "interrupt"
        await run_sequence.end()

    run(work)


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        ("apply", 3600.0),
        ("plan", 5.0),
        ("init", 5.0),
        ("validate", 5.0),
        ("show", 5.0),
        ("output", 5.0),
        ("state", 60.0),
        ("something new", 60.0),
    ],
)
def test_only_what_changes_something_is_waited_for(phase: str, expected: float) -> None:
    """An apply has an hour to end well; what changes nothing has seconds."""
    assert CancelTimeouts().before_second(phase) == expected


def test_the_end_of_a_command_ends_the_climb_whatever_else_happens() -> None:
    """A second Ctrl-C in the moment in which the command ends is not a second interrupt."""

    async def work() -> None:
        stop = Stop()
        run_sequence = Climb(PATIENT, stop, command())
        stop.ask()
        await run_sequence.until(1)
        await run_sequence.settled()
        stop.ask()
        run_sequence.task.cancel()
        await asyncio.gather(run_sequence.task, return_exceptions=True)
        assert run_sequence.done == ["interrupt"]

    run(work)


def test_a_stop_reaches_every_run() -> None:
    """One Ctrl-C reaches all runs, also those that start later."""

    async def work() -> None:
        stop = Stop()
        waiting = [asyncio.create_task(stop.reached(level)) for level in (1, 1, 2)]
        await asyncio.sleep(0)
        assert stop.ask() == 1
        await asyncio.gather(*waiting[:2])
        await stop.reached(1)
        assert not waiting[2].done()
        assert stop.ask() == 2
        await waiting[2]
        await stop.reached(2)

    run(work)


def test_two_cancellations_at_once_both_arrive() -> None:
    """Two signals before anything else ran still cancel at once."""

    async def work() -> None:
        stop = Stop()
        waiting = asyncio.create_task(stop.reached(2))
        await asyncio.sleep(0)
        stop.ask()
        stop.ask()
        await waiting

    run(work)


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([], []),
        ([b"a\nb\n"], [b"a", b"b"]),
        ([b"a", b"b", b"c\n", b"d\n"], [b"abc", b"d"]),
        ([b"a\n\n", b"\nb"], [b"a", b"", b"", b"b"]),
        ([b"\xc3", b"\xa9\n"], ["é".encode()]),
        ([b"no end"], [b"no end"]),
        ([b"end\n", b""], [b"end"]),
        ([b"a\r\nb\r\n"], [b"a\r", b"b\r"]),
    ],
)
def test_lines(chunks: list[bytes], lines: list[bytes]) -> None:
    """However the stream is cut into chunks, the lines are the same, and the last one needs no end."""
    heard: list[bytes] = []
    cutter = LineSplitter(heard.append)
    for chunk in chunks:
        cutter.feed(chunk)
    cutter.close()
    cutter.close()
    assert heard == lines


def test_a_line_arrives_as_soon_as_it_is_complete() -> None:
    """Progress is shown while the command runs, not when it has ended."""
    heard: list[bytes] = []
    cutter = LineSplitter(heard.append)
    cutter.feed(b"first\nsec")
    assert heard == [b"first"]


def test_the_rest_of_a_line_that_does_not_end_is_left_out() -> None:
    """An untrusted program could fill the memory with it."""
    heard: list[bytes] = []
    cutter = LineSplitter(heard.append, longest=10)
    for _ in range(1000):
        cutter.feed(b"123456")
    cutter.feed(b"\nnext\n")
    assert heard == [b"123456123456", b"next"]
