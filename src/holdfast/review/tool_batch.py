"""Other people's tools, asked about plans as they come: what has come meanwhile is asked together.

A program takes longer to start than to look at a small plan, so a question waits for the answer before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from holdfast.checks.model.interface import CheckResult, Rule, Tool
from holdfast.checks.model.subjects import CheckedPlan, Checkout

Answers = tuple[tuple[Rule, CheckResult], ...]


class ToolBatcher:
    def __init__(self, tools: Sequence[Tool], checkout: Callable[[], Checkout]) -> None:
        """The checkout is that of the plans alone: it has no code of its own."""
        self._tools = tuple(tools)
        self._checkout = checkout
        self._waiting: list[tuple[CheckedPlan, asyncio.Future[Answers]]] = []
        self._asking: asyncio.Task[None] | None = None

    async def check(self, plan: CheckedPlan) -> Answers:
        if not self._tools:
            return ()
        answer: asyncio.Future[Answers] = asyncio.get_running_loop().create_future()
        self._waiting.append((plan, answer))
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask_on())
        return await answer

    async def _ask_on(self) -> None:
        while self._waiting:
            together, self._waiting = self._waiting, []
            try:
                found = await asyncio.to_thread(self._asked, [plan for plan, _ in together])
            except Exception as error:  # noqa: BLE001 - whoever waits must hear of it
                for _, answer in together:
                    if not answer.done():
                        answer.set_exception(error)
                continue
            for (_, answer), answers in zip(together, found, strict=True):
                if not answer.done():
                    answer.set_result(answers)

    def _asked(self, plans: list[CheckedPlan]) -> list[Answers]:
        """Where something is said of no stack in particular, each is asked alone: it may hold for one."""
        checkout = self._checkout()
        by_name = {plan.stack.name: plan for plan in plans}
        said = tuple(one for tool in self._tools for one in tool.run(checkout, by_name))
        if len(plans) > 1 and any(answer.stack is None for _, answer in said):
            return [self._asked([plan])[0] for plan in plans]
        return [tuple(one for one in said if one[1].stack in (None, name)) for name in by_name]
