"""HF903: a waiver that cannot be understood. `waivers.py` finds them."""

from __future__ import annotations

from holdfast.checks.model.interface import Rule, Severity

RULE = Rule(
    id="HF903",
    title="A waiver that cannot be understood",
    why="It waives nothing: without a rule, a reason and an end date nobody can tell what was agreed.",
    fix="Write `# holdfast:ignore HF101 until=2027-01-01 reason=why this is right here`.",
    severity=Severity.WARNING,
)
