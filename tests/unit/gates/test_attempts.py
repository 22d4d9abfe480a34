from __future__ import annotations

import asyncio

import pytest
from gates_made import Script, Ticks, gate

from holdfast.gates.attempts import Unchecked
from holdfast.gates.check import Attempted, GateToCheck, check_gate
from holdfast.gates.interface import Evidence, Met, NotMet, NotObservable, Observation
from holdfast.gates.result import GateResult, Verdict
from holdfast.kernel.errors import Failed
from holdfast.terraform.engine.interface import Stop

TCP = "tcp: { host: h, port: 1 }"
OK, DOWN = Met(text="up"), NotMet(text="down")


def check(
    *observations: Observation, more: str = "", takes: float = 0.0, stop: Stop | None = None
) -> tuple[GateResult, Ticks, Script]:
    ticks = Ticks()
    script = Script(*observations, ticks=ticks, takes=takes)
    to_check = GateToCheck(gate=gate(f"{TCP}{more}"), probe=script)

    async def run() -> GateResult:
        return await check_gate(to_check, timer=ticks, stop=stop or Stop())

    return asyncio.run(run()), ticks, script


def test_one_that_passes_is_observed_once() -> None:
    """Nothing waits for a gate that passes."""
    result, ticks, _ = check(OK)
    assert (result.verdict, result.reason, result.attempts, ticks.pauses) == (Verdict.PASSED, "up", 1, [])


def test_one_that_becomes_ready_passes() -> None:
    """A gate is checked again until it passes."""
    result, ticks, _ = check(DOWN, DOWN, OK)
    assert (result.verdict, result.attempts, ticks.pauses) == (Verdict.PASSED, 3, [5.0, 5.0])
    assert [(seen.text, seen.count) for seen in result.seen] == [("down", 2), ("up", 1)]


def test_at_the_deadline_it_has_failed() -> None:
    """The last attempt is at the deadline; the reason says what was seen, how often and for how long."""
    result, ticks, _ = check(DOWN, more=", deadline: 12s")
    assert (result.verdict, ticks.time, ticks.pauses) == (Verdict.FAILED, 12.0, [5.0, 5.0, 2.0])
    assert result.reason == "down, seen 4 times in 12s"


def test_successes_must_be_in_a_row() -> None:
    """One that comes and goes is unstable, and that is what its reason says."""
    result, _, _ = check(OK, DOWN, OK, OK, DOWN, OK, DOWN, more=", successes: 3, deadline: 30s")
    assert result.verdict is Verdict.FAILED
    assert result.reason == "unstable: 4 of 7 attempts passed, but never 3 in a row; otherwise down"
    result, ticks, _ = check(DOWN, OK, DOWN, OK, OK, OK, more=", successes: 3")
    assert (result.verdict, result.attempts, ticks.time) == (Verdict.PASSED, 6, 25.0)


def test_what_cannot_be_observed_is_never_passed() -> None:
    """And nothing waits for it."""
    result, ticks, _ = check(
        OK, NotObservable(text="no such program", next_step="Install it."), more=", successes: 2"
    )
    assert (result.verdict, result.reason, result.next_step) == (
        Verdict.UNCHECKED,
        "no such program",
        "Install it.",
    )
    assert ticks.pauses == [5.0]


def test_the_evidence_is_that_of_the_last_attempt() -> None:
    """Earlier responses are counted, not kept."""
    first = NotMet(text="503", evidence=(Evidence(title="response", text="starting"),))
    last = NotMet(text="500", evidence=(Evidence(title="response", text="broken"),), next_step="Look.")
    result, _, _ = check(first, last, more=", deadline: 5s")
    assert [part.text for part in result.evidence] == ["broken"]
    assert result.reason == "500, seen 1 time in 5s, and 1 other result"
    assert result.next_step == "Look."


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (Failed("HF-X-1", "the secret is gone", hint="Write it."), "the secret is gone"),
        (KeyError("x"), "KeyError"),
    ],
)
def test_an_error_is_unchecked(error: Exception, says: str) -> None:
    """Whatever goes wrong in a probe is neither a pass nor the end of the other gates."""

    class Broken:
        async def observe(self, seconds: float) -> Observation:
            del seconds
            raise error

    async def run() -> GateResult:
        return await check_gate(GateToCheck(gate=gate(TCP), probe=Broken()), timer=Ticks(), stop=Stop())

    result = asyncio.run(run())
    assert result.verdict is Verdict.UNCHECKED
    assert says in result.reason


def test_a_gate_without_values_is_unchecked() -> None:
    """Its reason is that of the missing value, and nothing is observed."""

    async def run() -> GateResult:
        reason = Unchecked(reason="{outputs.ip} has no value")
        return await check_gate(GateToCheck(gate=gate(TCP), unchecked=reason), timer=Ticks(), stop=Stop())

    result = asyncio.run(run())
    assert (result.verdict, result.attempts) == (Verdict.UNCHECKED, 0)


def test_a_cancelled_gate_is_unchecked() -> None:
    """Ctrl-C never turns a gate into one that passed or failed."""

    async def run() -> GateResult:
        stop = Stop()

        def cancel(_: Attempted) -> None:
            stop.ask()

        return await check_gate(
            GateToCheck(gate=gate(TCP), probe=Script(DOWN)), timer=Ticks(), stop=stop, follow=cancel
        )

    result = asyncio.run(run())
    assert (result.verdict, result.attempts) == (Verdict.UNCHECKED, 1)
    assert "cancelled" in result.reason


def test_slow_attempts_count() -> None:
    """The deadline is of the gate, not of its pauses."""
    result, ticks, script = check(DOWN, more=", deadline: 20s, time_limit: 8s", takes=8.0)
    assert (result.verdict, result.attempts) == (Verdict.FAILED, 2)
    assert ticks.time == 21.0
    assert script.seconds == [8.0, 8.0]


def test_many_different_results_stay_few() -> None:
    """A probe whose text is always different fills neither memory nor screen."""
    many = [NotMet(text=f"try {number}") for number in range(500)]
    result, _, _ = check(*many, more=", deadline: 50m")
    assert len(result.seen) == 12
    assert result.unlisted == result.attempts - 12
    assert result.verdict is Verdict.FAILED
