from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.boundary.contracts import contract_of
from holdfast.checks.model.interface import Finding, Rule, Severity, finding
from holdfast.checks.model.subjects import Checkout
from holdfast.config.settings import ContractUse
from holdfast.contract.reading import Broken
from holdfast.stacks.stack import matches


def _check(checkout: Checkout) -> Iterator[Finding]:
    reported: set[str] = set()
    for target in checkout.config.targets:
        use = target.contract
        if use is None:
            continue
        yield from _unmatched_patterns(checkout, target.name, use)
        contract = contract_of(checkout, use)
        if isinstance(contract, Broken) and use.schema not in reported:
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


RULE = Rule(
    id="HF403",
    title="Contract that cannot be used",
    why="Nothing is compared with it: stacks that violate it are not found.",
    fix="Fix the contract, or the name that refers to it.",
    severity=Severity.ERROR,
    repository=_check,
)
