"""HF905: a rule that broke while it looked. `running.py` finds them."""

from __future__ import annotations

from holdfast.checks.model.interface import Rule, Severity

RULE = Rule(
    id="HF905",
    title="A rule that broke while it looked",
    why="What it would have said here is not known, so this is not taken for code without findings.",
    fix="Please report it, with the code it broke on; until then that rule can be turned off for this path.",
    severity=Severity.ERROR,
)
