"""Runs external tools on plans: those that are ready at the same time are checked together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from holdfast.checks.model.interface import CheckResult, Rule, Tool
from holdfast.checks.model.subjects import CheckedPlan, Checkout
from holdfast.checks.tools.interface import TOOLS, load_tool
from holdfast.config.checks import Use
from holdfast.plans.context import Project
from holdfast.plans.policies import policy_files
from holdfast.review.findings_by_stack import REGO

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
                results = await asyncio.to_thread(self._run_tools, [plan for plan, _ in together])
            except Exception as error:  # noqa: BLE001 - the waiting callers get it
                for _, answer in together:
                    if not answer.done():
                        answer.set_exception(error)
                continue
            for (_, answer), answers in zip(together, results, strict=True):
                if not answer.done():
                    answer.set_result(answers)

    def _run_tools(self, plans: list[CheckedPlan]) -> list[Answers]:
        """If a result names no stack, each plan is checked alone: it may concern only one."""
        checkout = self._checkout()
        by_name = {plan.stack.name: plan for plan in plans}
        results = tuple(result for tool in self._tools for result in tool.run(checkout, by_name))
        if len(plans) > 1 and any(answer.stack is None for _, answer in results):
            return [self._run_tools([plan])[0] for plan in plans]
        return [tuple(result for result in results if result[1].stack in (None, name)) for name in by_name]


def wanted_tools(project: Project) -> Iterator[Tool]:
    """Rego wherever there are policies; other tools, which are slow, only where they are on."""
    uses = project.config.checks.tools
    for name in TOOLS:
        use = uses.get(name, Use.AUTO)
        if use is Use.ON or (name == REGO and use is not Use.OFF and policy_files(project.code).any):
            yield load_tool(name)
