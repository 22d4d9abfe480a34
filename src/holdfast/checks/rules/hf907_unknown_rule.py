from __future__ import annotations

from holdfast.checks.model.interface import Rule, Severity

RULE = Rule(
    id="HF907",
    title="Unknown or removed rule",
    why="A severity or waiver for it has no effect.",
    fix="`holdfast check --list` shows all rules.",
    severity=Severity.WARNING,
)
