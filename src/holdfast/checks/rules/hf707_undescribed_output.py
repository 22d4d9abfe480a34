"""HF707: an output that does not say what it is."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.code.declared import without
from holdfast.checks.model.interface import Finding, Rule, Severity, finding
from holdfast.checks.model.subjects import Module


def _look(module: Module) -> Iterator[Finding]:
    for block in without(module, "output", "description"):
        name = block.labels[0]
        yield finding(block, f"nothing says what the output `{name}` is", address=f"output.{name}")


RULE = Rule(
    id="HF707",
    title="An output without a description",
    why="Other stacks and people read it, and know nothing of it but its name.",
    fix='Write one sentence: `description = "…"`.',
    severity=Severity.NOTE,
    source=_look,
    bad='output "size" {\n  value = 1\n}\n',
    good='output "size" {\n  value       = 1\n  description = "How large."\n}\n',
)
