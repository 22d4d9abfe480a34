"""Code that depends on more than Terraform's inputs, in stacks of CI and in production."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from holdfast.checks.model.interface import CheckResult, Finding, Rule, Severity, finding
from holdfast.checks.model.subjects import CheckedPlan, CheckedStack, Module
from holdfast.config.settings import Owner
from holdfast.hcl.nodes import Block, Traversal
from holdfast.terraform.addresses import without_keys

_DOES = {
    "local-exec": "runs a program on the machine that runs Terraform",
    "remote-exec": "runs programs on another machine",
    "file": "copies files to another machine",
}
_PROGRAMS = ("external", "local_command", "shell_script")
_PROGRAM_RESOURCES = ("shell_script", "shell_sensitive_script")
_PROGRAM_ACTIONS = ("local_command",)
_REQUESTS = ("http", "terracurl_request")

InCode = Callable[[Module], Iterable[tuple[Block, str, str]]]
"""Block, address and what it does."""
InPlan = Callable[[CheckedPlan], Iterable[tuple[str, str]]]
"""Address without keys and what it does."""


def for_shared(in_code: InCode, in_plan: InPlan, message: str) -> dict[str, Any]:
    """The functions of a `Rule` about shared stacks; `message` has a `{}` for what the code does."""

    def source(module: Module) -> Iterator[CheckResult]:
        for block, address, what in in_code(module):
            sharing = [stack for stack in module.stacks if _is_shared(stack)]
            if module.stacks and not sharing:
                return
            stack = sharing[0].name if len(sharing) == 1 else None
            yield finding(block, message.format(what), address=address, stack=stack)

    def plan(checked: CheckedPlan) -> Iterator[Finding]:
        """Code in the repository is reported from the source, with file and line."""
        planned = list(in_plan(checked)) if _is_shared(checked.stack) else []
        here = _addresses(checked.stack) if planned else ()
        for address, what in planned:
            if address not in here:
                yield Finding(message=message.format(what), address=address)

    return {"source": source, "plan": plan}


def _is_shared(stack: CheckedStack) -> bool:
    """Whether CI owns its target, or it is in production."""
    target = stack.stack.target
    return stack.stack.production or (target is not None and target.owner is Owner.CI)


def _addresses(stack: CheckedStack) -> set[str]:
    """All addresses in the code of a stack, without instance keys."""
    return {
        f"{without_keys(visited.address)}.{resource.address}".removeprefix(".")
        for visited in stack.scopes
        for resource in stack.checkout.module(visited.folder).resources()
    }


# Provisioners.


def _provisioners(module: Module) -> Iterator[tuple[Block, str, str]]:
    for resource in module.resources(mode="managed"):
        if module.checkout.mentions(resource.block.file, b"provisioner"):
            for block in resource.body.blocks_of("provisioner"):
                yield block, resource.address, _provisioner("".join(block.labels[:1]))
    for removed in module.blocks("removed"):
        for block in removed.body.blocks_of("provisioner"):
            yield block, _removed_address(removed), _provisioner("".join(block.labels[:1]))


def _removed_address(removed: Block) -> str:
    """The address in a `removed` block, whose provisioners run when the resource is destroyed."""
    attribute = removed.body.attribute("from")
    address = attribute.expression if attribute is not None else None
    return ".".join(address.names) if isinstance(address, Traversal) else ""


def _planned_provisioners(plan: CheckedPlan) -> Iterator[tuple[str, str]]:
    return (
        (address, _provisioner(kind)) for address, kinds in plan.plan.provisioners.items() for kind in kinds
    )


def _provisioner(kind: str) -> str:
    return f"`{kind}` {_DOES.get(kind, 'does something that no plan shows')}"


HF301 = Rule(
    id="HF301",
    title="Provisioner in a shared stack",
    fix="Use a provider resource, or a pipeline step after the apply.",
    severity=Severity.NOTE,
    **for_shared(_provisioners, _planned_provisioners, "{}"),
)


# Data sources that run a program or request a URL.


def _data_sources(module: Module, types: tuple[str, ...]) -> Iterator[tuple[Block, str, str]]:
    """Data sources and ephemeral resources of these types."""
    for resource in module.resources(*types):
        if resource.mode != "managed":
            yield resource.block, resource.address, resource.address


def _planned(
    plan: CheckedPlan, types: tuple[str, ...], resources: tuple[str, ...] = ()
) -> Iterator[tuple[str, str]]:
    """Data sources of these types, and these resources, in the configuration of a plan with its modules."""
    starts = tuple(f"{mode}.{type_}." for mode in ("data", "ephemeral") for type_ in types)
    starts += tuple(f"{type_}." for type_ in resources)
    for prefix, module in plan.plan.configuration.modules():
        for resource in module.resources or ():
            if resource.address.startswith(starts):
                yield f"{prefix}{resource.address}", f"{prefix}{resource.address}"


def _programs(module: Module) -> Iterator[tuple[Block, str, str]]:
    yield from _data_sources(module, _PROGRAMS)
    for resource in module.resources(*_PROGRAM_RESOURCES, mode="managed"):
        yield resource.block, resource.address, resource.address
    for block in module.blocks("action"):
        if block.labels[:1] and block.labels[0] in _PROGRAM_ACTIONS:
            address = ".".join(("action", *block.labels))
            yield block, address, address


HF302 = Rule(
    id="HF302",
    title="External program in a shared stack",
    fix="Read the value with a provider's data source, or pass it as a variable.",
    severity=Severity.NOTE,
    **for_shared(
        _programs,
        lambda plan: _planned(plan, _PROGRAMS, _PROGRAM_RESOURCES),
        "`{}` runs a program on the machine that runs Terraform",
    ),
)

HF303 = Rule(
    id="HF303",
    title="HTTP data source in a shared stack",
    fix="Store the response in the repository, or read the value with a provider's data source.",
    severity=Severity.NOTE,
    **for_shared(
        lambda module: _data_sources(module, _REQUESTS),
        lambda plan: _planned(plan, _REQUESTS),
        "`{}` requests a URL in every plan",
    ),
)
