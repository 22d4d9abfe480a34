from __future__ import annotations

from holdfast.checks.model.interface import Rule, Severity

RULE = Rule(
    id="HF901",
    title="Waiver that has expired",
    why="What it waived counts again.",
    fix="Fix what it waives, or agree on a new end date and write down why.",
    severity=Severity.WARNING,
)
