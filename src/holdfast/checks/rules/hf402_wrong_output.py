from __future__ import annotations

from holdfast.checks.boundary.contracts import for_contracts
from holdfast.checks.model.interface import Rule, Severity
from holdfast.contract.comparison import DifferenceKind

RULE = Rule(
    id="HF402",
    title="Output does not match the contract",
    why="Consumers rely on the contract: an invalid address ends up in DNS and GitOps values and fails "
    "far from here.",
    fix="Give the output a value of the type that the contract requires.",
    severity=Severity.ERROR,
    **for_contracts(DifferenceKind.WRONG),
)
