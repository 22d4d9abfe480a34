from __future__ import annotations

from holdfast.checks.model.interface import Rule, Severity

RULE = Rule(
    id="HF906",
    title="Stacks cannot be discovered",
    why="Nothing can be planned or applied until this is fixed, and rules about stacks were not evaluated.",
    fix="Fix the problem; `holdfast stacks` shows whether it worked.",
    severity=Severity.ERROR,
)
