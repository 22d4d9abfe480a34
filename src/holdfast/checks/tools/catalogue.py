"""Every external tool: one line each, the name of its module, which has a `TOOL`."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Final

from holdfast.checks.model.interface import CheckResult, Finding, Rule, Tool
from holdfast.checks.model.subjects import CheckedPlan, Checkout
from holdfast.checks.rules.hf901_own_findings import HF908
from holdfast.config.problems import did_you_mean

TOOLS: Final = {"checkov": "checkov", "rego": "rego.tool"}


def tools() -> tuple[Tool, ...]:
    """All tools; the last reports unknown names in `checks.tools`."""
    return (*map(tool, TOOLS), Tool(name="tools", run=_report_unknown))


def tool(name: str) -> Tool:
    module: Tool = importlib.import_module(f"holdfast.checks.tools.{TOOLS[name]}").TOOL
    return module


def _report_unknown(checkout: Checkout, _: Mapping[str, CheckedPlan]) -> Iterator[tuple[Rule, CheckResult]]:
    for name in checkout.config.checks.tools:
        if name not in TOOLS:
            hint = did_you_mean(name, tuple(TOOLS)) or f"Known tools: {', '.join(TOOLS)}."
            yield HF908, Finding(message=f"unknown tool `{name}` in `checks.tools`", hint=hint)
