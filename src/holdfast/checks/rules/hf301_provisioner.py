from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.boundary.hermetic import findings_in_shared, findings_outside_repository
from holdfast.checks.model.interface import CheckResult, Finding, Rule, Severity
from holdfast.checks.model.subjects import CheckedPlan, Module
from holdfast.hcl.nodes import Block, Traversal

_DOES = {
    "local-exec": "runs a program on the machine that runs Terraform",
    "remote-exec": "runs programs on another machine",
    "file": "copies files to another machine",
}


def _message(kind: str) -> str:
    return f"`{kind}` {_DOES.get(kind, 'does something that no plan shows')}"


def _provisioners(module: Module) -> Iterator[tuple[Block, str, str]]:
    for resource in module.resources(mode="managed"):
        if b"provisioner" not in (module.checkout.content(resource.block.file) or b""):
            continue
        for block in resource.body.blocks_of("provisioner"):
            yield block, resource.address, _message(block.labels[0] if block.labels else "")
    for removed in module.blocks("removed"):
        for block in removed.body.blocks_of("provisioner"):
            yield block, _from(removed), _message(block.labels[0] if block.labels else "")


def _from(removed: Block) -> str:
    """The address in a `removed` block, whose provisioners run when the resource is destroyed."""
    attribute = removed.body.attribute("from")
    found = attribute.expression if attribute is not None else None
    return ".".join(found.names) if isinstance(found, Traversal) else ""


def _source(module: Module) -> Iterator[CheckResult]:
    return findings_in_shared(module, _provisioners(module))


def _plan(plan: CheckedPlan) -> Iterator[Finding]:
    found = ((address, _message(kind)) for address, kinds in plan.plan.provisioners.items() for kind in kinds)
    return findings_outside_repository(plan, found)


RULE = Rule(
    id="HF301",
    title="Provisioner in a shared stack",
    why="Its actions are in no plan and no state: they cannot be approved, undone or checked for drift, "
    "and they depend on the machine they run on.",
    fix="Use a provider resource, or a pipeline step after the apply.",
    severity=Severity.ERROR,
    source=_source,
    plan=_plan,
)
