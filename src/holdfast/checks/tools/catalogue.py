"""Every tool there is: one line each, the name of its file, which holds a `TOOL`."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Final

from holdfast.checks.model.interface import CheckResult, Finding, Rule, Tool
from holdfast.checks.model.subjects import CheckedPlan, Checkout
from holdfast.checks.rules.hf908_tool_without_answer import RULE
from holdfast.config.problems import did_you_mean

TOOLS: Final[tuple[str, ...]] = (
    "checkov",
    "rego",
)
_MODULES: Final = {"rego": "rego.tool"}


def tools() -> tuple[Tool, ...]:
    """Each of them; the last says which names in `checks.tools` mean none."""
    return (*map(tool, TOOLS), Tool(name="tools", run=_unknown))


def tool(name: str) -> Tool:
    found: Tool = importlib.import_module(f"holdfast.checks.tools.{_MODULES.get(name, name)}").TOOL
    return found


def _unknown(checkout: Checkout, _: Mapping[str, CheckedPlan]) -> Iterator[tuple[Rule, CheckResult]]:
    for name in checkout.config.checks.tools:
        if name not in TOOLS:
            hint = did_you_mean(name, TOOLS) or f"There are {' and '.join(TOOLS)}."
            yield (
                RULE,
                Finding(message=f"`checks.tools` names `{name}`, and there is no such tool", hint=hint),
            )
