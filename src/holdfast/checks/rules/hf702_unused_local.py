"""HF702: a local value that nothing reads."""

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
    for block in module.blocks("locals"):
        for attribute in block.body.attributes:
            name = attribute.name
            if name not in reads.locals:
                yield finding(attribute, f"nothing reads the local value `{name}`", address=f"local.{name}")


RULE = Rule(
    id="HF702",
    title="A local value that nothing reads",
    why="It is most often left over, or the name is misspelt where it should be read.",
    fix="Take it away, or read it where it was meant.",
    severity=Severity.NOTE,
    source=_look,
    bad='locals {\n  name = "a"\n}\n',
    good='locals {\n  name = "a"\n}\n\noutput "name" {\n  value = local.name\n}\n',
)
