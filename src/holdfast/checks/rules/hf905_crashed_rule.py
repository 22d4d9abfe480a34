from __future__ import annotations

from holdfast.checks.model.interface import Rule, Severity

RULE = Rule(
    id="HF905",
    title="Rule that crashed",
    why="What it would have found here is not known, so the code does not count as passed.",
    fix="Please report it with the code that caused it; until then you can turn that rule off for this path.",
    severity=Severity.ERROR,
)
