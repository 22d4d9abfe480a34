"""HF902: a waiver that waives nothing. `waivers.py` finds them."""

from __future__ import annotations

from holdfast.checks.model.interface import Rule, Severity

RULE = Rule(
    id="HF902",
    title="A waiver that waives nothing",
    why="What it allowed has been put right. Left standing, it would hide the next mistake of the same kind.",
    fix="Take the waiver away.",
    severity=Severity.WARNING,
    more="It is only reported where its rule did look, at everything that the waiver is about.",
)
