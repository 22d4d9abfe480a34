"""Tools are asked about plans as they come, together where they can be."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping

import pytest
from checkouts import checkout, plan_of

from holdfast.checks.model.interface import CheckResult, Finding, Rule, Tool
from holdfast.checks.model.subjects import CheckedPlan, Checkout
from holdfast.checks.tools.interface import tool_rule
from holdfast.review.tool_batcher import ToolBatcher

STACKS = "version: 1\nstacks:\n" + "".join(f"  - {{ name: {name}, module: . }}\n" for name in "abc")
EMPTY = b'{"format_version":"1.2","terraform_version":"1.15.5"}'
RULE = tool_rule("tool.x", "x")


class Recorded:
    """A tool that remembers what it was asked about, and answers when it may."""

    def __init__(self, *, whole: bool = False, breaks: bool = False) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.begun = threading.Event()
        self.may_answer = threading.Event()
        self._whole = whole
        self._breaks = breaks
        self.tool = Tool(name="recorded", run=self._run)

    def _run(self, _: Checkout, plans: Mapping[str, CheckedPlan]) -> Iterator[tuple[Rule, CheckResult]]:
        self.asked.append(tuple(plans))
        self.begun.set()
        assert self.may_answer.wait(30)
        if self._breaks:
            raise ValueError("broken")
        if self._whole:
            yield RULE, Finding(message=f"about {len(plans)}")
        else:
            yield from ((RULE, Finding(message=f"about {name}", stack=name)) for name in plans)


async def answers(recorded: Recorded) -> list[list[str]]:
    """Of three questions: the first is being asked when the others come."""
    made = checkout({"main.tf": ""}, config=STACKS)
    questions = ToolBatcher([recorded.tool], lambda: made)
    plans = [plan_of(made, EMPTY, name) for name in "abc"]
    first = asyncio.create_task(questions.check(plans[0]))
    assert await asyncio.to_thread(recorded.begun.wait, 30)
    others = [asyncio.create_task(questions.check(plan)) for plan in plans[1:]]
    await asyncio.sleep(0)
    recorded.may_answer.set()
    said = await asyncio.gather(first, *others)
    return [[answer.message for _, answer in one if isinstance(answer, Finding)] for one in said]


def test_what_comes_while_a_tool_is_asked_is_asked_together() -> None:
    """A program is not started once for every plan, and each stack hears only of its own."""
    recorded = Recorded()
    assert asyncio.run(answers(recorded)) == [["about a"], ["about b"], ["about c"]]
    assert recorded.asked == [("a",), ("b", "c")]


def test_what_is_said_of_no_plan_in_particular_is_asked_again_for_each() -> None:
    """One plan that a tool cannot read must not refuse another."""
    recorded = Recorded(whole=True)
    assert asyncio.run(answers(recorded)) == [["about 1"], ["about 1"], ["about 1"]]
    assert recorded.asked == [("a",), ("b", "c"), ("b",), ("c",)]


def test_a_tool_that_breaks_is_heard_by_everyone_who_waits() -> None:
    """Nobody waits for ever, and silence is not an answer."""
    with pytest.raises(ValueError, match="broken"):
        asyncio.run(answers(Recorded(breaks=True)))


def test_who_no_longer_waits_does_not_keep_the_others_from_hearing() -> None:
    """A run that was given up between question and answer: the tool breaks, and all others hear of it."""

    async def asked() -> list[BaseException | object]:
        made = checkout({"main.tf": ""}, config=STACKS)
        recorded = Recorded(breaks=True)
        questions = ToolBatcher([recorded.tool], lambda: made)
        first = asyncio.create_task(questions.check(plan_of(made, EMPTY, "a")))
        assert await asyncio.to_thread(recorded.begun.wait, 30)
        second = asyncio.create_task(questions.check(plan_of(made, EMPTY, "b")))
        await asyncio.sleep(0)
        first.cancel()
        recorded.may_answer.set()
        return list(await asyncio.wait_for(asyncio.gather(first, second, return_exceptions=True), 30))

    first, second = asyncio.run(asked())
    assert isinstance(first, asyncio.CancelledError)
    assert isinstance(second, ValueError)


def test_without_tools_nobody_waits() -> None:
    made = checkout({"main.tf": ""})
    assert asyncio.run(ToolBatcher([], lambda: made).check(plan_of(made, EMPTY))) == ()
