from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.boundary.hermetic import (
    data_sources,
    findings_in_shared,
    findings_outside_repository,
    planned_data,
)
from holdfast.checks.model.interface import CheckResult, Finding, Rule, Severity
from holdfast.checks.model.subjects import CheckedPlan, Module
from holdfast.hcl.nodes import Block

_DATA = ("external", "local_command", "shell_script")
_RESOURCES = ("shell_script", "shell_sensitive_script")
_ACTIONS = ("local_command",)


def _message(address: str) -> str:
    return f"`{address}` runs a program on the machine that runs Terraform"


def _programs(module: Module) -> Iterator[tuple[Block, str, str]]:
    for block, address in data_sources(module, _DATA):
        yield block, address, _message(address)
    for resource in module.resources(*_RESOURCES, mode="managed"):
        yield resource.block, resource.address, _message(resource.address)
    for block in module.blocks("action"):
        if block.labels[:1] and block.labels[0] in _ACTIONS:
            address = ".".join(("action", *block.labels))
            yield block, address, _message(address)


def _source(module: Module) -> Iterator[CheckResult]:
    return findings_in_shared(module, _programs(module))


def _plan(plan: CheckedPlan) -> Iterator[Finding]:
    found = ((address, _message(address)) for address in planned_data(plan, _DATA, _RESOURCES))
    return findings_outside_repository(plan, found)


RULE = Rule(
    id="HF302",
    title="External program in a shared stack",
    why="It runs in every plan, even for a pull request that no one has reviewed, with the stack's "
    "credentials. Its result depends on the machine it runs on.",
    fix="Read the value with a provider's data source, or pass it as a variable.",
    severity=Severity.ERROR,
    source=_source,
    plan=_plan,
)
