from __future__ import annotations

from holdfast.checks.boundary.ownership import READING, WRITING, for_modes
from holdfast.checks.model.interface import Rule, Severity

HF101 = Rule(
    id="HF101",
    title="Terraform manages a resource that belongs to GitOps",
    fix="Add the manifest to the GitOps repository. Then remove the resource from the state with a "
    "`removed` block and `destroy = false`, which leaves the resource itself alone.",
    severity=Severity.ERROR,
    **for_modes(WRITING, "Terraform manages `{}`, which belongs to GitOps"),
)


HF102 = Rule(
    id="HF102",
    title="Terraform reads a resource that belongs to GitOps",
    fix="Read the value from an output of the stack that creates it, or let GitOps pass it on.",
    severity=Severity.WARNING,
    **for_modes(READING, "Terraform reads or renders `{}`, which belongs to GitOps"),
)
