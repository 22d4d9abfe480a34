from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.boundary.contracts import contract_of, for_contracts
from holdfast.checks.model.interface import Finding, Rule, Severity, finding
from holdfast.checks.model.subjects import Checkout
from holdfast.config.settings import ContractUse
from holdfast.contract.comparison import DifferenceKind
from holdfast.contract.reading import InvalidContract
from holdfast.stacks.stack import matches

HF401 = Rule(
    id="HF401",
    title="Contract output is missing",
    fix="Add it to the outputs of the root module.",
    severity=Severity.ERROR,
    **for_contracts(DifferenceKind.MISSING),
)


HF402 = Rule(
    id="HF402",
    title="Output does not match the contract",
    fix="Give the output a value of the type that the contract requires.",
    severity=Severity.ERROR,
    **for_contracts(DifferenceKind.WRONG),
)


def _check_contracts(checkout: Checkout) -> Iterator[Finding]:
    reported: set[str] = set()
    for target in checkout.config.targets:
        use = target.contract
        if use is None:
            continue
        yield from _unmatched_patterns(checkout, target.name, use)
        contract = contract_of(checkout, use)
        if isinstance(contract, InvalidContract) and use.schema not in reported:
            reported.add(use.schema)
            for problem in contract.problems:
                yield finding(
                    problem.place or use.place, f"{problem.code} {problem.message}", hint=problem.hint
                )


def _unmatched_patterns(checkout: Checkout, target: str, use: ContractUse) -> Iterator[Finding]:
    """A pattern that matches no stack would leave the intended one unchecked."""
    stacks = [
        stack for stack in checkout.all_stacks if stack.target is not None and stack.target.name == target
    ]
    for pattern in use.stacks:
        if not any(matches(stack, pattern) for stack in stacks):
            yield finding(
                use.place,
                f"no stack of the target `{target}` matches `{pattern}`: its contract is not checked",
            )


HF403 = Rule(
    id="HF403",
    title="Contract that cannot be used",
    fix="Fix the contract, or the name that refers to it.",
    severity=Severity.ERROR,
    repository=_check_contracts,
)
