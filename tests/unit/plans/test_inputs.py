"""States that several stacks read, and plans with mocks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.kernel.errors import Failed, Refused
from holdfast.plans.context import SharedStates
from holdfast.plans.plan_file import PlanFile
from holdfast.plans.saved_plan import DigestParts, StateIdentity
from holdfast.terraform.statefile.model import EmptyState, StateFile


class Backend:
    def __init__(self, error: Exception | None = None) -> None:
        self.reads = 0
        self._error = error

    async def read(self) -> StateFile:
        self.reads += 1
        await asyncio.sleep(0)
        if self._error is not None:
            raise self._error
        return EmptyState()


def test_readers_share_a_read_until_the_stack_is_applied() -> None:
    async def work() -> list[int]:
        states, backend, counts = SharedStates(), Backend(), []
        for _ in range(2):
            await asyncio.gather(*(states.read("net", backend.read) for _ in range(5)))
            counts.append(backend.reads)
            states.forget("net")
        return counts

    assert asyncio.run(work()) == [1, 2]


def test_a_reader_that_stops_leaves_the_read_to_the_others() -> None:
    async def work() -> StateFile:
        states, backend = SharedStates(), Backend()
        stopped = asyncio.create_task(states.read("net", backend.read))
        other = asyncio.create_task(states.read("net", backend.read))
        await asyncio.sleep(0)
        stopped.cancel()
        return await other

    assert isinstance(asyncio.run(work()), EmptyState)


def test_each_reader_learns_of_a_failure() -> None:
    async def work() -> list[Any]:
        states, backend = SharedStates(), Backend(Failed("HF-X-1", "down"))
        reads = (states.read("net", backend.read) for _ in range(3))
        return await asyncio.gather(*reads, return_exceptions=True)

    assert [type(one) for one in asyncio.run(work())] == [Failed] * 3


def test_a_plan_with_mocks_is_refused_by_the_apply_itself() -> None:
    """Whatever decided before that it may be applied."""
    nothing: Any = None
    plan = PlanFile(
        terraform=nothing,
        plan=nothing,
        json=b"",
        parts=DigestParts(plan="", lineage="", serial=0, lock=None, inputs="", made="", policy=""),
        prior=StateIdentity(lineage="", serial=0),
        ephemeral=False,
        changes=True,
        mocks={"vpc_id": "vpc-0"},
    )
    with pytest.raises(Refused, match="HF-INPUT-5 app: the plan was made with mocks \\(vpc_id\\)"):
        plan.require_intact("app", plan.digest)
