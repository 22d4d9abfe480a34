"""HF906: what keeps the stacks from being found. The command that runs the checks finds them."""

from __future__ import annotations

from holdfast.checks.model.interface import Rule, Severity

RULE = Rule(
    id="HF906",
    title="The stacks cannot be found",
    why="Nothing can be planned or applied until this is mended. Rules that look at stacks could not look.",
    fix="Mend what is named; `holdfast stacks` says whether it worked.",
    severity=Severity.ERROR,
)
