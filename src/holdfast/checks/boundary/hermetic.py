"""Code that depends on more than Terraform's inputs, in stacks of CI and in production."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.checks.model.interface import CheckResult, Finding, Skipped, finding
from holdfast.checks.model.subjects import CheckedPlan, CheckedStack, Module
from holdfast.config.settings import Owner
from holdfast.hcl.nodes import Block
from holdfast.terraform.addresses import without_keys
from holdfast.terraform.plan.configuration import Configuration


def is_shared(stack: CheckedStack) -> bool:
    """Whether CI owns its target, or it is in production."""
    target = stack.stack.target
    return stack.stack.production or (target is not None and target.owner is Owner.CI)


def findings_in_shared(module: Module, found: Iterable[tuple[Block, str, str]]) -> Iterator[CheckResult]:
    """A finding for each block, address and message, in code that a shared stack uses."""
    for block, address, message in found:
        if not module.stacks:
            yield Skipped(
                reason=f"no selected stack uses {module.folder}, so it is not known whether it is shared",
                file=block.place.file,
            )
            return
        sharing = [stack for stack in module.stacks if is_shared(stack)]
        if not sharing:
            return
        yield finding(block, message, address=address, stack=sharing[0].name if len(sharing) == 1 else None)


def data_sources(module: Module, types: tuple[str, ...]) -> Iterator[tuple[Block, str]]:
    """Data sources and ephemeral resources of these types, with their addresses."""
    for resource in module.resources(*types):
        if resource.mode != "managed":
            yield resource.block, resource.address


def findings_outside_repository(plan: CheckedPlan, found: Iterable[tuple[str, str]]) -> Iterator[Finding]:
    """A finding for each address (without keys) and message that is not in the code of this repository.

    Code in the repository is reported from the source, with file and line.
    """
    if not is_shared(plan.stack):
        return
    here: set[str] | None = None
    for address, message in found:
        here = _addresses(plan.stack) if here is None else here
        if address not in here:
            yield Finding(message=message, address=address)


def _addresses(stack: CheckedStack) -> set[str]:
    """All addresses in the code of a stack, without instance keys."""
    return {
        f"{without_keys(visited.address)}.{resource.address}".removeprefix(".")
        for visited in stack.scopes
        for resource in stack.checkout.module(visited.folder).resources()
    }


def planned_data(plan: CheckedPlan, types: tuple[str, ...], resources: tuple[str, ...] = ()) -> Iterator[str]:
    """The addresses of data sources of these types, and of these resources, in the configuration of a plan,
    including modules.
    """
    beginnings = tuple(f"{mode}.{type_}." for mode in ("data", "ephemeral") for type_ in types)
    beginnings += tuple(f"{type_}." for type_ in resources)
    for prefix, module in (plan.plan.document.configuration or Configuration()).modules():
        for resource in module.resources or ():
            if resource.address.startswith(beginnings):
                yield f"{prefix}{resource.address}"
