"""HF908: a tool of other people's whose answer cannot be believed. `tools/` finds them."""

from __future__ import annotations

from holdfast.checks.model.interface import Rule, Severity

RULE = Rule(
    id="HF908",
    title="A tool that gave no answer to believe",
    why="It crashed, is missing though it was asked for, or said nothing about what it was given. "
    "What it would have found is not known, so this is not taken for code without findings.",
    fix="Mend what the message names, or say `checks: {tools: {NAME: off}}`.",
    severity=Severity.ERROR,
)
