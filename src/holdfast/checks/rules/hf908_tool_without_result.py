from __future__ import annotations

from holdfast.checks.model.interface import Rule, Severity

RULE = Rule(
    id="HF908",
    title="External tool without a result",
    why="It crashed, is missing although it is required, or printed no valid result. What it would have "
    "found is not known, so the code does not count as passed.",
    fix="Fix the problem in the message, or set `checks: {tools: {NAME: off}}`.",
    severity=Severity.ERROR,
)
