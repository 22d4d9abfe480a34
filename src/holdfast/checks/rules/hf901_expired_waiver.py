"""HF901: a waiver whose end date is past. `waivers.py` finds them."""

from __future__ import annotations

from holdfast.checks.model.interface import Rule, Severity

RULE = Rule(
    id="HF901",
    title="A waiver that has expired",
    why="What it allowed for a while is now as wrong as it was before, and counts again.",
    fix="Put right what it waives, or agree on a new end date and write down why.",
    severity=Severity.WARNING,
)
