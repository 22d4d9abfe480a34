from __future__ import annotations

from holdfast.checks.model.interface import Rule, Severity

RULE = Rule(
    id="HF902",
    title="Waiver without effect",
    why="What it waived is fixed. If it stays, it hides the next mistake of the same kind.",
    fix="Remove the waiver.",
    severity=Severity.WARNING,
)
