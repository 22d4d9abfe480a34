"""HF706: a variable that does not say what it is for."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.code.declared import without
from holdfast.checks.model.interface import Finding, Rule, Severity, finding
from holdfast.checks.model.subjects import Module


def _look(module: Module) -> Iterator[Finding]:
    for block in without(module, "variable", "description"):
        name = block.labels[0]
        yield finding(block, f"nothing says what the variable `{name}` is for", address=f"var.{name}")


RULE = Rule(
    id="HF706",
    title="A variable without a description",
    why="Who sets it has to read the code to know what it does.",
    fix='Write one sentence: `description = "…"`.',
    severity=Severity.NOTE,
    source=_look,
    bad='variable "size" {\n  type = string\n}\n',
    good='variable "size" {\n  type        = string\n  description = "How large."\n}\n',
)
