"""The contract of a stack, compared with its outputs in code, plan or state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from holdfast.checks.model.interface import CheckResult, Finding, Skipped, finding
from holdfast.checks.model.subjects import CheckedPlan, CheckedStack, CheckedState, Checkout, value
from holdfast.config.settings import ContractUse
from holdfast.contract.comparison import NOT_KNOWN, Difference, DifferenceKind, OutputValue, compare
from holdfast.contract.reading import BUILT_IN, InvalidContract, built_in, read_contract
from holdfast.contract.schema import Contract
from holdfast.hcl.nodes import Block
from holdfast.hcl.reader import UNKNOWN, Unknown
from holdfast.kernel.errors import Place, Problem
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.plan.model import OutputChange, Plan


def for_contracts(kind: DifferenceKind) -> dict[str, Any]:
    """The functions of a `Rule` about outputs that differ from the contract in this way.

    Whether an output is missing is not seen in a state: it may have been added since.
    """
    in_code_and_plan = {"stack": partial(_in_source, kind), "plan": partial(_in_plan, kind)}
    if kind is DifferenceKind.MISSING:
        return in_code_and_plan
    return {**in_code_and_plan, "state": partial(_in_state, kind)}


def contract_of(checkout: Checkout, use: ContractUse) -> Contract | InvalidContract:
    return checkout.code.once(("contract", use.schema), lambda: _contract(checkout, use))


def _contract(checkout: Checkout, use: ContractUse) -> Contract | InvalidContract:
    if use.schema in BUILT_IN:
        return built_in(use.schema)
    text = checkout.text(use.schema)
    if text is None:
        problem = Problem(
            code="HF-CONTRACT-1",
            message=f"there is no contract `{use.schema}`: it is neither a readable file nor built in",
            hint=f"Use a file of the repository, or {' or '.join(f'`{name}`' for name in BUILT_IN)}.",
            place=use.place,
        )
        return InvalidContract(problems=(problem,))
    return read_contract(text, file=use.schema)


Outputs = Mapping[str, OutputValue]


def _in_source(kind: DifferenceKind, stack: CheckedStack) -> Iterator[CheckResult]:
    outputs = partial(_outputs_of_code, stack)
    return _differences(kind, stack, outputs, "until it is planned")


def _outputs_of_code(stack: CheckedStack, _: Contract) -> Outputs | Skipped:
    broken = next((file.path for file in stack.module.files if file.problems), None)
    if broken is not None:
        return Skipped(reason=f"{broken} could not be read in full", file=broken)
    return {name: _written(block, stack) for name, block in _outputs(stack).items()}


def _in_plan(kind: DifferenceKind, plan: CheckedPlan) -> Iterator[CheckResult]:
    def outputs(contract: Contract) -> Outputs | Skipped:
        managed = (change for change in plan.plan.changes if change.mode == "managed")
        kinds = {change.kind for change in managed} - {ChangeKind.NO_OP}
        planned = {output.name: _planned(output) for output in plan.plan.outputs if not output.removed}
        if not planned and kinds == {ChangeKind.DELETE}:
            return Skipped(reason="the plan deletes everything")
        if any(planned.keys().isdisjoint((name, *part.aliases)) for name, part in contract.outputs.items()):
            omitted = _declared(plan.plan) - {output.name for output in plan.plan.outputs}
            planned |= dict.fromkeys(omitted, NOT_KNOWN)
        return planned

    return _differences(kind, plan.stack, outputs, "until it is applied")


def in_outputs(
    stack: CheckedStack, outputs: Mapping[str, tuple[object, bool]], kind: DifferenceKind
) -> Iterator[CheckResult]:
    """Outputs after an apply: the value, and whether it is sensitive. Sensitive values are not used."""
    applied = {
        name: OutputValue(value=UNKNOWN if sensitive else value_, sensitive=sensitive)
        for name, (value_, sensitive) in outputs.items()
    }
    return _differences(kind, stack, lambda _: applied, "because it is sensitive")


def _in_state(kind: DifferenceKind, state: CheckedState) -> Iterator[CheckResult]:
    """The outputs of the current code, with the last applied value of those that the code does not show."""

    def outputs(contract: Contract) -> Outputs | Skipped:
        if state.contents.unseen is not None:
            return Skipped(reason=state.contents.unseen)
        if not state.outputs and not state.contents.current:
            return Skipped(reason="nothing has been applied yet")
        written = _outputs_of_code(state.stack, contract)
        if isinstance(written, Skipped):
            return written
        applied = {output.name: output.read() for output in state.outputs}
        return {
            name: output
            if not isinstance(output.value, Unknown)
            else OutputValue(value=applied.get(name, UNKNOWN), sensitive=output.sensitive)
            for name, output in written.items()
        }

    return _differences(kind, state.stack, outputs, "until it is applied")


def _differences(
    kind: DifferenceKind, stack: CheckedStack, outputs: Callable[[Contract], Outputs | Skipped], until: str
) -> Iterator[CheckResult]:
    """Compares the outputs with the stack's contract, if it has one; `until` says why some are unknown."""
    use = stack.stack.contract
    if use is None:
        return
    contract = contract_of(stack.checkout, use)
    if isinstance(contract, InvalidContract):
        yield Skipped(reason=f"the contract {use.schema} cannot be used")
        return
    actual = outputs(contract)
    if isinstance(actual, Skipped):
        yield actual
        return
    differences = list(compare(contract, actual))
    matching = [difference for difference in differences if difference.kind is kind]
    blocks = _outputs(stack) if matching else {}
    for difference in matching:
        yield _at(stack, blocks, difference, contract)
    unknown = [
        f"`{difference.path}`" for difference in differences if difference.kind is DifferenceKind.UNKNOWN
    ]
    if unknown:
        yield Skipped(reason=f"not known {until}: {', '.join(unknown)}")


def _at(
    stack: CheckedStack, blocks: Mapping[str, Block], difference: Difference, contract: Contract
) -> Finding:
    """At the output, so that code, plan and apply report one difference once."""
    block = blocks.get(difference.output)
    attribute = block.body.attribute("value") if block is not None else None
    return finding(
        attribute or block or _where_outputs_are(stack),
        f"{difference.message} ({contract.name})",
        address=f"output.{difference.output}",
    )


def _outputs(stack: CheckedStack) -> dict[str, Block]:
    """The block with the value of each output: in an override file, if that has one."""
    outputs: dict[str, Block] = {}
    for block in stack.module.blocks("output"):
        if block.labels and (block.labels[0] not in outputs or block.body.attribute("value") is not None):
            outputs[block.labels[0]] = block
    return outputs


def _written(block: Block, stack: CheckedStack) -> OutputValue:
    same = (output for output in stack.module.blocks("output") if output.labels[:1] == block.labels[:1])
    sensitive = any(value(output.body, "sensitive", stack.scope) is True for output in same)
    written = value(block.body, "value", stack.scope)
    return OutputValue(value=written if block.body.attribute("value") else UNKNOWN, sensitive=sensitive)


def _where_outputs_are(stack: CheckedStack) -> Place:
    """The file that an output would be added to."""
    paths = [file.path for file in stack.module.files]
    likely = [path for path in paths if path.rpartition("/")[2].startswith("output")]
    main = [path for path in paths if path.rpartition("/")[2] == "main.tf"]
    first = next(iter((*likely, *main, *paths)), None)
    return Place(file=first) if first is not None else stack.place


def _declared(plan: Plan) -> set[str]:
    """The outputs in the planned code; a partial plan (`--target`) omits some of them."""
    root = plan.configuration.root_module
    return set(root.outputs or ()) if root is not None else set()


def _planned(output: OutputChange) -> OutputValue:
    """Terraform sets `after_unknown: true` if any part of an output is not known."""
    change = output.change
    sensitive = b"true" in bytes(change.after_sensitive)
    if b"true" in bytes(change.after_unknown):
        return NOT_KNOWN
    return OutputValue(value=msgspec.json.decode(change.after), sensitive=sensitive)
