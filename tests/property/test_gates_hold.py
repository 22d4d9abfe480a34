from __future__ import annotations

import asyncio

from gates_made import Script, Ticks, gate
from hypothesis import given
from hypothesis import strategies as st

from holdfast.gates.check import GateToCheck, check_gate
from holdfast.gates.interface import Met, NotMet, NotObservable, Observation
from holdfast.gates.result import GateResult, Verdict
from holdfast.terraform.engine.interface import Stop

OBSERVATIONS = st.lists(
    st.sampled_from([Met(text="up"), NotMet(text="down"), NotMet(text="odd"), NotObservable(text="blind")]),
    min_size=1,
    max_size=30,
)


@given(
    observations=OBSERVATIONS,
    successes=st.integers(1, 5),
    deadline=st.integers(1, 120),
    interval=st.integers(1, 60),
    takes=st.floats(0, 10),
)
def test_a_gate_passes_only_by_successes_in_a_row(
    observations: list[Observation], successes: int, deadline: int, interval: int, takes: float
) -> None:
    """Passed: the last attempts all passed, as many as are required. Otherwise never. And it always ends."""
    ticks = Ticks()
    script = Script(*observations, ticks=ticks, takes=takes)
    pace = f"successes: {successes}, deadline: {deadline}s, interval: {interval}s"
    to_check = GateToCheck(gate=gate(f"tcp: {{ host: h, port: 1 }}, {pace}"), probe=script)

    async def run() -> GateResult:
        return await check_gate(to_check, timer=ticks, stop=Stop())

    result = asyncio.run(run())
    made = [observations[min(number, len(observations) - 1)] for number in range(result.attempts)]
    last = made[-successes:]
    in_a_row = len(last) == successes and all(isinstance(one, Met) for one in last)
    assert (result.verdict is Verdict.PASSED) == in_a_row
    assert (result.verdict is Verdict.UNCHECKED) == isinstance(made[-1], NotObservable)
    assert ticks.time <= deadline + takes + 1e-6
    assert sum(seen.count for seen in result.seen) + result.unlisted == result.attempts
    assert result.attempts >= 1
