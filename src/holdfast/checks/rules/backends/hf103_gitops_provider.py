from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.checks.boundary.ownership import (
    NEEDS,
    is_configured,
    may_name_providers,
    may_write,
    owner_of_type,
    settings_of,
    severity_in,
)
from holdfast.checks.model.interface import Finding, Rule, Severity, finding
from holdfast.checks.model.subjects import CheckedPlan, CheckedStack, Module
from holdfast.config.checks import Side
from holdfast.hcl.nodes import Attribute, Block
from holdfast.terraform.addresses import without_keys


def _check(module: Module) -> Iterator[Finding]:
    configured = {_provider(module, block.labels[0]) for block in module.blocks("provider") if block.labels}
    for name, where in _providers(module):
        provider = _provider(module, name)
        if isinstance(where, Attribute) and provider in configured:
            continue
        if _is_not_allowed(module, provider):
            what = "configured" if isinstance(where, Block) else "required"
            yield finding(
                where,
                f"the provider `{provider}`, {what} here, manages resources that belong to GitOps",
                severity=severity_in(module.checkout.config),
            )


def _plan(plan: CheckedPlan) -> Iterator[Finding]:
    """Providers that external modules configure; those in this repository are reported from the code."""
    if not may_name_providers(plan.document, settings_of(plan.stack.checkout.config)):
        return
    here = {without_keys(visited.address) for visited in plan.stack.scopes}
    written = {change.type for change in plan.plan.changes}
    configuration = plan.plan.configuration
    for provider in (configuration.provider_config or {}).values():
        name, module = provider.type, provider.module_address
        owned = any(type_.startswith(f"{name}_") and may_write(plan.stack, type_) for type_ in written)
        if provider.configured and module not in here and not owned and not _may_use(plan.stack, name):
            message = f"{module} configures the provider `{name}`, which writes to GitOps resources"
            severity = severity_in(plan.stack.checkout.config)
            yield Finding(message=message, address=f"{module}.provider.{name}", severity=severity)


def _providers(module: Module) -> Iterator[tuple[str, Block | Attribute]]:
    for block in module.blocks("provider"):
        if block.labels:
            yield block.labels[0], block
    for block in module.blocks("terraform"):
        for required in block.body.blocks_of("required_providers"):
            for attribute in required.body.attributes:
                yield attribute.name, attribute


def _provider(module: Module, name: str) -> str:
    """The provider type behind a local name: the last part of its source."""
    match module.code.required_providers.get(name):
        case {"source": str() as source}:
            return source.rpartition("/")[2] or name
        case _:
            return name


def _is_not_allowed(module: Module, provider: str) -> bool:
    if module.stacks:
        return not all(_may_use(stack, provider) for stack in module.stacks)
    settings = settings_of(module.checkout.config)
    owned = any(owner_of_type(type_, settings) is Side.TERRAFORM for type_ in _types((module,), provider))
    return owner_of_type(f"{provider}_", settings) is Side.GITOPS and not owned


def _may_use(stack: CheckedStack, provider: str) -> bool:
    """Whether Terraform owns the provider's types, or the stack has a type of it that it may write."""
    modules = tuple(stack.checkout.module(folder) for folder in stack.folders)
    return may_write(stack, f"{provider}_") or any(
        may_write(stack, type_) for type_ in _types(modules, provider)
    )


def _types(modules: Iterable[Module], provider: str) -> Iterator[str]:
    for module in modules:
        for resource in module.resources():
            if resource.type.startswith(f"{provider}_"):
                yield resource.type


RULE = Rule(
    id="HF103",
    title="Provider for resources that belong to GitOps",
    fix="Remove the provider once nothing uses it. Resources that are still in the state need it until "
    "the `removed` block is applied.",
    severity=Severity.WARNING,
    needs=NEEDS,
    configured=is_configured,
    source=_check,
    plan=_plan,
)
