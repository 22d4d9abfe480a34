"""HF907: the configuration names a rule that does not exist. `running.py` finds them."""

from __future__ import annotations

from holdfast.checks.model.interface import Rule, Severity

RULE = Rule(
    id="HF907",
    title="The configuration names a rule that does not exist",
    why="A severity or a waiver for it does nothing.",
    fix="`holdfast check --list` shows the rules there are.",
    severity=Severity.WARNING,
)
