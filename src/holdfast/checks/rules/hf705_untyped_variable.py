"""HF705: a variable that does not say its type."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.code.declared import without
from holdfast.checks.model.interface import Finding, Rule, Severity, finding
from holdfast.checks.model.subjects import Module


def _look(module: Module) -> Iterator[Finding]:
    for block in without(module, "variable", "type"):
        name = block.labels[0]
        yield finding(block, f"the variable `{name}` does not say its type", address=f"var.{name}")


RULE = Rule(
    id="HF705",
    title="A variable without a type",
    why="Anything can be given to it: a list where a text was meant is found out when a provider refuses "
    "it, or not at all.",
    fix="Say its type: `type = string`, or `any` where it may really be anything.",
    severity=Severity.WARNING,
    source=_look,
    bad='variable "size" {\n  description = "How large."\n}\n',
    good='variable "size" {\n  type        = string\n  description = "How large."\n}\n',
)
