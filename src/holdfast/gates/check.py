"""Checks one gate until it is decided: observes, waits, observes again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from holdfast.config.gates import Gate
from holdfast.gates.attempts import Again, Attempts, Conclusion, Pace, Unchecked, decide
from holdfast.gates.interface import NotObservable, Observation, Probe
from holdfast.gates.result import GateResult, gate_result
from holdfast.kernel.errors import HoldfastError, internal_error
from holdfast.system import clock
from holdfast.terraform.engine.interface import Stop


class Timer(Protocol):
    """The clock of one gate: given, so that tests need not wait."""

    def now(self) -> float: ...

    async def pause(self, seconds: float, stop: Stop) -> None:
        """Until then, or until the caller stops."""
        ...


class RealTimer:
    def now(self) -> float:
        return clock.monotonic()

    async def pause(self, seconds: float, stop: Stop) -> None:
        try:
            async with asyncio.timeout(seconds):
                await stop.reached(1)
        except TimeoutError:
            return


class GateToCheck(Struct, frozen=True, kw_only=True):
    """A gate in one environment. Without a probe it cannot be checked, for the reason given."""

    gate: Gate
    environment: str | None = None
    probe: Probe | None = None
    unchecked: Unchecked | None = None

    @property
    def title(self) -> str:
        return f"{self.gate.name} ({self.environment})" if self.environment else self.gate.name


class Attempted(Struct, frozen=True, kw_only=True):
    """For who follows: what the last attempt observed, and how much time is left."""

    title: str
    observation: Observation
    number: int
    left: float


Follow = Callable[[Attempted], None]


async def check_gate(
    to_check: GateToCheck, *, timer: Timer, stop: Stop, follow: Follow | None = None
) -> GateResult:
    """Never raises: a gate that fails to be checked does not stop the others."""
    gate, attempts, start = to_check.gate, Attempts(), timer.now()
    pace = Pace(deadline=gate.deadline, interval=gate.interval, successes=gate.successes)
    conclusion: Again | Conclusion = to_check.unchecked or Again(seconds=0.0)
    while isinstance(conclusion, Again):
        if conclusion.seconds:
            await timer.pause(conclusion.seconds, stop)
        if stop.level:
            conclusion = Unchecked(reason="cancelled before it was decided")
            break
        observation = await _observe(to_check, gate.time_limit)
        elapsed = timer.now() - start
        attempts = attempts.after(observation, elapsed)
        if follow is not None:
            left = max(0.0, gate.deadline - elapsed)
            follow(
                Attempted(title=to_check.title, observation=observation, number=attempts.number, left=left)
            )
        conclusion = decide(attempts, pace, elapsed)
    return gate_result(
        conclusion,
        attempts,
        name=gate.name,
        kind=gate.kind,
        environment=to_check.environment,
        seconds=timer.now() - start,
    )


async def _observe(to_check: GateToCheck, seconds: float) -> Observation:
    if to_check.probe is None:
        return NotObservable(text="there is nothing to observe")
    try:
        return await to_check.probe.observe(seconds)
    except HoldfastError as error:
        return NotObservable(text=error.problem.message, next_step=error.problem.hint)
    except Exception as error:  # noqa: BLE001 - one gate never stops another
        failed = internal_error(error, f"checking the gate {to_check.title}")
        return NotObservable(text=failed.problem.message, next_step=failed.problem.hint)
