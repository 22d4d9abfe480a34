from __future__ import annotations

from holdfast.checks.model.interface import Rule, Severity

RULE = Rule(
    id="HF903",
    title="Invalid waiver",
    why="It waives nothing: a waiver needs a rule, a reason and an end date.",
    fix="Write `# holdfast:ignore HF101 until=2027-01-01 reason=why this is acceptable`.",
    severity=Severity.WARNING,
)
