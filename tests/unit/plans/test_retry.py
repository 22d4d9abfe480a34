from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from holdfast.config.engine import Retries
from holdfast.kernel.errors import Busy, EngineError, Failed, HoldfastError, Problem
from holdfast.plans.errors import Cancelled, TerraformFailed
from holdfast.plans.events import Event, Note
from holdfast.plans.retry import Retrying, pause, reason, schedule
from holdfast.terraform.engine.interface import Stop
from holdfast.terraform.tables.transient import Phase

LONG = 3600.0
RESET = "read: connection reset by peer"
AT_ONCE = Retries(wait=0.0)


def said(*messages: str) -> TerraformFailed:
    problems = tuple(Problem(code="HF-TF-3", message=message) for message in messages)
    return TerraformFailed("HF-TF-3", messages[0], problems=problems)


class Scripted:
    """Fails as it is told, then answers."""

    def __init__(self, errors: Sequence[HoldfastError]) -> None:
        self.errors = list(errors)
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


def retrying(retries: Retries, stop: Stop, heard: list[Event] | None = None) -> Retrying:
    heard = heard if heard is not None else []
    return Retrying(stack="a", retries=retries, stop=stop, tell=heard.append, jitter=lambda: 0.5)


@pytest.mark.parametrize(
    ("retries", "expected"),
    [
        (Retries(), (2.0, 4.0, 8.0)),
        (Retries(attempts=0), ()),
        (Retries(attempts=2, wait=10.0), (10.0, 20.0)),
    ],
)
def test_each_wait_is_twice_the_one_before(retries: Retries, expected: tuple[float, ...]) -> None:
    """Three further attempts after 2, 4 and 8 seconds, unless the configuration says otherwise."""
    assert schedule(retries, lambda: 0.5) == expected


@pytest.mark.parametrize(("chance", "expected"), [(0.0, 1.5), (1.0, 2.5)])
def test_waits_are_spread(chance: float, expected: float) -> None:
    """Stacks that failed together come back up to a quarter earlier or later."""
    assert schedule(Retries(attempts=1), lambda: chance) == (expected,)


@pytest.mark.parametrize(
    ("texts", "also", "expected"),
    [
        ((RESET,), (), "connection-reset"),
        (("it is Tuesday", RESET), (), "connection-reset"),
        (("it is Tuesday",), (), None),
        (("it is Tuesday",), ("TUESDAY",), "engine.retries.also: TUESDAY"),
        ((RESET, "Unsupported argument"), (), None),
        (("it is Tuesday: Unsupported argument",), ("Tuesday",), None),
        (("Error acquiring the state lock: connection reset by peer Lock Info: ID",), (), None),
    ],
)
def test_only_what_a_rule_names_is_worth_a_try(
    texts: tuple[str, ...], also: tuple[str, ...], expected: str | None
) -> None:
    """A row or a text of the configuration says so, and a permanent error anywhere wins."""
    assert reason(texts, Phase.PLAN, also=also) == expected


@pytest.mark.parametrize("failures", [0, 1, 3])
def test_what_works_in_the_end_is_the_answer(failures: int) -> None:
    """Each further try is told and kept, by the row that says so."""
    heard: list[Event] = []
    steady = retrying(AT_ONCE, Stop(), heard)
    work = Scripted([said(RESET)] * failures)
    assert asyncio.run(steady.run(Phase.PLAN, "plan", work)) == "done"
    assert len(steady.notes) == failures
    assert heard == [Note(stack="a", text=text) for text in steady.notes]
    assert all("connection-reset" in text for text in steady.notes)


def test_what_never_works_is_given_up() -> None:
    """One try and three more, and the last error is the answer."""
    work = Scripted([said(RESET, str(number)) for number in range(5)])
    with pytest.raises(TerraformFailed) as caught:
        asyncio.run(retrying(AT_ONCE, Stop()).run(Phase.INIT, "init", work))
    assert work.calls == 4
    assert caught.value.problems[1].message == "3"


@pytest.mark.parametrize(
    "error",
    [
        said("Unsupported argument"),
        Busy("HF-LOCK-1", RESET),
        Cancelled("HF-RUN-2", RESET),
        EngineError("HF-ENG-6", RESET),
        Failed("HF-TIME-1", RESET),
    ],
)
def test_other_ends_are_never_tried_again(error: HoldfastError) -> None:
    """A lock, an interrupt, a time limit and an engine that died are final, whatever they say."""
    work = Scripted([error])
    with pytest.raises(type(error)):
        asyncio.run(retrying(AT_ONCE, Stop()).run(Phase.PLAN, "plan", work))
    assert work.calls == 1


def test_a_wish_to_stop_ends_the_wait_at_once() -> None:
    """Nobody waits for a retry that nobody wants."""
    work = Scripted([said(RESET)] * 2)

    async def stopped() -> None:
        stop = Stop()
        loop = asyncio.get_running_loop()

        def tell(_: Event) -> None:
            loop.call_soon(stop.ask)

        steady = Retrying(stack="a", retries=Retries(wait=LONG), stop=stop, tell=tell)
        await steady.run(Phase.PLAN, "plan", work)

    with pytest.raises(Cancelled):
        asyncio.run(stopped())
    assert work.calls == 1


def test_who_asked_to_stop_before_does_not_wait() -> None:
    """A wish that came during the command counts, too, even where there is nothing to wait for."""
    stop = Stop()
    stop.ask()
    assert not asyncio.run(pause(0.0, stop))
    assert not asyncio.run(pause(LONG, stop))
    assert asyncio.run(pause(0.0, Stop()))
