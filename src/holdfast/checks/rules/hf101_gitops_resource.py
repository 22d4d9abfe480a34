from __future__ import annotations

from holdfast.checks.boundary.ownership import WRITING, for_modes
from holdfast.checks.model.interface import Rule, Severity

RULE = Rule(
    id="HF101",
    title="Terraform manages a resource that belongs to GitOps",
    why="Terraform and GitOps both write the resource and keep reverting each other's changes.",
    fix="Add the manifest to the GitOps repository. Then remove the resource from the state with a "
    "`removed` block and `destroy = false`, which leaves the resource itself alone.",
    severity=Severity.ERROR,
    **for_modes(WRITING, "Terraform manages `{}`, which belongs to GitOps"),
)
