from __future__ import annotations

from holdfast.checks.boundary.ownership import READING, for_modes
from holdfast.checks.model.interface import Rule, Severity

RULE = Rule(
    id="HF102",
    title="Terraform reads a resource that belongs to GitOps",
    why="The plan needs a running cluster that GitOps has already synced. It fails before the first "
    "sync, and the values it reads are stored in the state.",
    fix="Read the value from an output of the stack that creates it, or let GitOps pass it on.",
    severity=Severity.WARNING,
    **for_modes(READING, "Terraform reads or renders `{}`, which belongs to GitOps"),
)
