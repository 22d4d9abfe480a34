from __future__ import annotations

from holdfast.checks.boundary.contracts import for_contracts
from holdfast.checks.model.interface import Rule, Severity
from holdfast.contract.comparison import DifferenceKind

HF401 = Rule(
    id="HF401",
    title="Contract output is missing",
    why="Facts, gates and GitOps values are built from these outputs: without one, the apply succeeds "
    "and the platform still does not work.",
    fix="Add it to the outputs of the root module.",
    severity=Severity.ERROR,
    **for_contracts(DifferenceKind.MISSING),
)


HF402 = Rule(
    id="HF402",
    title="Output does not match the contract",
    why="Consumers rely on the contract: an invalid address ends up in DNS and GitOps values and fails "
    "far from here.",
    fix="Give the output a value of the type that the contract requires.",
    severity=Severity.ERROR,
    **for_contracts(DifferenceKind.WRONG),
)
