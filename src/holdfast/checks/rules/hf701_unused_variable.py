"""HF701: a variable that nothing reads."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.code.reads import reads_of
from holdfast.checks.model.interface import Finding, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import Module


def _look(module: Module) -> Iterator[Finding | Skipped]:
    reads = reads_of(module)
    if reads.unread is not None:
        yield Skipped(reason=f"{reads.unread} could not be read in full")
        return
    for block in module.blocks("variable"):
        name = block.labels[0] if block.labels else ""
        if name and name not in reads.variables:
            yield finding(block, f"nothing reads the variable `{name}`", address=f"var.{name}")


RULE = Rule(
    id="HF701",
    title="A variable that nothing reads",
    why="Whoever sets it believes that it does something. Most often it is left over, or misspelt where it "
    "should be read.",
    fix="Take it away, or read it where it was meant.",
    severity=Severity.WARNING,
    source=_look,
    bad='variable "size" {\n  type = string\n}\n',
    good='variable "size" {\n  type = string\n}\n\noutput "size" {\n  value = var.size\n}\n',
)
