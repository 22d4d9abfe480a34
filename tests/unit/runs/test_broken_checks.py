"""Checks that break: one plan fails, and what was done is told all the same."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest
from checkouts import MemoryCode, configuration
from results_made import stack

from holdfast.kernel.errors import Failed
from holdfast.plans.context import Control, Engines, Project
from holdfast.plans.plan_file import PlanFile
from holdfast.review.plan_checks import PlanChecks


def broken() -> PlanChecks:
    """Of a repository of which not even the stacks can be listed."""
    told: list[object] = []
    project = SimpleNamespace(config=configuration(), code=MemoryCode({}), stacks=None, base=None)
    return PlanChecks(
        cast("Project", project), cast("Engines", None), Control(tell=told.append), (stack("a"),)
    )


def test_a_plan_that_nobody_could_look_at_is_a_failed_one() -> None:
    """Of that one stack, with a code; never an end of the whole command."""
    with pytest.raises(Failed, match="a: the checks crashed on the plan") as failed:
        asyncio.run(broken().check_plan(stack("a"), cast("PlanFile", None)))
    assert failed.value.problem.code == "HF-CHECK-6"


def test_a_report_that_breaks_is_a_finding() -> None:
    """Other stacks may be applied by now, and that must be told."""
    (found,) = asyncio.run(broken().report()).findings
    assert (found.rule.id, found.severity.value) == ("HF905", "error")
    assert "AttributeError in plan_checks.py" in found.message
