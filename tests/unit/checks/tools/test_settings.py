"""`checks.tools`: which tools are asked."""

from __future__ import annotations

import pytest
from checkouts import ONE_STACK, checkout

from holdfast.checks.tools.interface import TOOLS, all_tools
from holdfast.config.checks import Use
from holdfast.kernel.errors import ConfigError

CODE = {"main.tf": 'resource "aws_x" "a" {}\n'}


def configured(text: str) -> str:
    return f"{ONE_STACK}checks:\n  tools: {text}\n"


def test_a_tool_that_is_off_reports_nothing() -> None:
    """Not even that it could not look."""
    made = checkout(CODE, config=configured("{ checkov: off, rego: off }"))
    assert [answer for tool in all_tools() for answer in tool.run(made, {})] == []
    assert made.config.checks.tools == {"checkov": Use.OFF, "rego": Use.OFF}


def test_a_tool_that_does_not_exist_is_a_finding() -> None:
    """A misspelt name would otherwise turn nothing on."""
    made = checkout(CODE, config=configured("{ checkov: off, rego: off, chekov: on }"))
    ((rule, answer),) = [answer for tool in all_tools() for answer in tool.run(made, {})]
    assert rule.id == "HF908"
    assert "chekov" in getattr(answer, "message", "")
    assert "checkov" in (getattr(answer, "hint", "") or "")


def test_other_values_are_refused() -> None:
    """`true` is neither on nor auto."""
    with pytest.raises(ConfigError) as refused:
        checkout(CODE, config=configured("{ checkov: true }"))
    assert refused.value.problem.code == "HF-CONF-6"


def test_every_tool_has_its_name() -> None:
    """The name of its file is its name in the configuration."""
    assert [tool.name for tool in all_tools()] == [*TOOLS, "tools"]
