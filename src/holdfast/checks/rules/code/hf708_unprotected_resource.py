from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from holdfast.checks.code.protection import (
    Protection,
    is_created,
    managed_resources,
    planned_values,
    protection_of,
    provider_bodies,
)
from holdfast.checks.model.interface import CheckResult, Finding, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import CheckedPlan, CheckedStack, Module, Resource, bodies
from holdfast.hcl.eval.evaluate import Scope
from holdfast.hcl.nodes import Body, references
from holdfast.hcl.reader import constant
from holdfast.kernel.patterns import pattern
from holdfast.terraform.addresses import without_keys
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.plan.model import Plan
from holdfast.terraform.tables.stateful_types import Stateful, stateful_types

_EMPTIED = ("force_destroy", "force_delete", "delete_contents_on_destroy")
_APP = pattern(r"^azurerm_(?:\w+_)?(?:function_app|logic_app_standard)")
_SERVED = pattern(r"^storage_account_(?:name|access_key)$|static_website$|^leases$")
_HOLDER = pattern(r"azurerm_storage_(?:container|share|table|queue|data_lake)")
_DERIVED = ("view", "materialized_view", "external_data_configuration")
_LEAVING = (ChangeKind.DELETE, ChangeKind.FORGET)


@functools.cache
def _types() -> Mapping[str, Stateful]:
    """Types whose deletion loses data that exists nowhere else."""
    return {
        type_: row for type_, row in stateful_types().items() if row.holds == "data" and not row.transient
    }


def _check(module: Module) -> Iterator[Finding | Skipped]:
    if not module.production:
        return
    table = _types()
    for resource, body in managed_resources(module):
        row = table.get(resource.type)
        if row is None:
            continue
        protections = dict(_protections(module, resource, body, row))
        bare = [stack for stack, protection in protections.items() if protection is Protection.NO]
        unclear = [stack for stack, protection in protections.items() if protection is Protection.UNKNOWN]
        for stack in module.stacks:
            if stack.name in bare:
                yield _finding(resource, row, stack)
        for name in unclear if not bare else ():
            yield Skipped(
                reason=f"the protection of {resource.address} is only known in a plan",
                file=resource.place.file,
                stack=name,
            )


def _protections(
    module: Module, resource: Resource, body: Body, row: Stateful
) -> Iterator[tuple[str, Protection]]:
    """For each stack in production that creates it: the weakest protection of its instances."""
    for stack in module.stacks:
        if not stack.stack.production:
            continue
        protections = [
            protection_of(body, row, visited.scope, _providers(stack, resource.type))
            for visited in stack.scopes
            if visited.folder == module.folder and not visited.dormant and is_created(body, visited.scope)
        ]
        if protections:
            yield stack.name, _worst(protections)


def _worst(protections: Iterable[Protection]) -> Protection:
    return min(protections, key=lambda protection: int(protection.value))


def _providers(stack: CheckedStack, type_: str) -> Iterator[tuple[Body, Scope]]:
    return provider_bodies(stack.module, type_.partition("_")[0], stack.scope)


# In a plan: values that the code does not show, and resources of external modules.


class _Written(NamedTuple):
    """A resource in the code of a stack."""

    resource: Resource
    body: Body
    scope: Scope
    protection: Protection
    """The weakest of its instances."""


def _plan(plan: CheckedPlan) -> Iterator[CheckResult]:
    stack, table = plan.stack, _types()
    partial = plan.plan.complete is False
    if not stack.stack.production or not (
        partial or any(resource.type in table for resource in plan.plan.changes)
    ):
        return
    written = _in_code(stack)
    for address, protection in _planned(plan.plan, stack, written).items():
        in_code = written.get(address)
        if protection is Protection.NO and in_code is not None:
            yield _finding(in_code.resource, table[in_code.resource.type], stack)
        elif protection is not Protection.YES:
            yield _unknown(
                address, "the plan does not show it" if in_code else "its module is not in this repository"
            )
    if partial:
        there = {without_keys(change.address) for change in plan.plan.changes}
        for address, resource in written.items():
            if resource.protection is Protection.UNKNOWN and address not in there:
                yield _unknown(address, "the plan omits it")


def _unknown(address: str, why: str) -> Skipped:
    return Skipped(reason=f"the protection of {address} is not known: {why}")


def _in_code(stack: CheckedStack) -> dict[str, _Written]:
    """By address, without keys."""
    table = _types()
    written: dict[str, _Written] = {}
    for visited in stack.scopes:
        home = without_keys(visited.address)
        for resource, body in managed_resources(stack.checkout.module(visited.folder)):
            row = table.get(resource.type)
            if row is None or visited.dormant or not is_created(body, visited.scope):
                continue
            address = f"{home}.{resource.address}".removeprefix(".")
            protection = protection_of(body, row, visited.scope, _providers(stack, resource.type))
            worst = _worst((protection, written[address].protection)) if address in written else protection
            written[address] = _Written(resource, body, visited.scope, worst)
    return written


def _planned(plan: Plan, stack: CheckedStack, written: Mapping[str, _Written]) -> dict[str, Protection]:
    """For each resource whose code does not show enough: the weakest protection of its instances."""
    table = _types()
    weakest: dict[str, Protection] = {}
    for change in plan.changes:
        row = table.get(change.type)
        if row is None or change.mode != "managed" or change.deposed or change.kind in _LEAVING:
            continue
        address = without_keys(change.address)
        resource = written.get(address)
        if resource is None or resource.protection is Protection.UNKNOWN:
            body, scope = (resource.body, resource.scope) if resource is not None else (None, stack.scope)
            protection = protection_of(
                body, row, scope, _providers(stack, change.type), planned_values(change)
            )
            weakest[address] = _worst((protection, weakest.get(address, Protection.YES)))
    return weakest


def _finding(resource: Resource, row: Stateful, stack: CheckedStack) -> Finding:
    mild = _is_meant_to_go(resource.body) or _serves_apps(resource, stack)
    ways = ("`prevent_destroy = true` in `lifecycle`", *row.sufficient_protections)
    return finding(
        resource.block,
        f"`{resource.address}` {row.loss}, and its code does not protect it from deletion",
        address=resource.address,
        hint=f"Set {' or '.join(filter(None, (', '.join(ways[:-1]), ways[-1])))}.",
        stack=stack.name,
        severity=Severity.NOTE if mild or stack.stack.environment_unclear else None,
    )


def _is_meant_to_go(body: Body) -> bool:
    """Whether its code says so: it may be emptied or deleted, its entries expire, or it is a copy."""

    def written(name: str, body: Body = body) -> object:
        attribute = body.attribute(name)
        return constant(attribute.expression) if attribute is not None else None

    expires = any(written("enabled", ttl.body) is True for ttl in body.blocks_of("ttl"))
    unprotected = written("delete_protection_state") == "DELETE_PROTECTION_DISABLED"
    deleted = unprotected and written("deletion_policy") == "DELETE"
    derived = body.attribute("replicate_source_db") is not None or any(
        block.type in _DERIVED for block in body.blocks
    )
    return expires or deleted or derived or any(written(name) is True for name in _EMPTIED)


def _serves_apps(account: Resource, stack: CheckedStack) -> bool:
    """Whether a storage account only has what an app, a website or leases need: it is soon there again."""
    if account.type != "azurerm_storage_account":
        return False
    module = stack.checkout.module(account.place.file.rpartition("/")[0] or ".")
    every = stack.checkout.code.once(("account users", module.folder), lambda: tuple(_account_users(module)))
    users = {user for name, user in every if name == account.name}
    users.update(block.type for block in account.body.blocks_of("static_website"))
    served = "lease" in account.name or any(map(_SERVED.search, users))
    return served and not any(map(_HOLDER.match, users))


def _account_users(module: Module) -> Iterator[tuple[str, str]]:
    """Each storage account with the types, and the arguments of apps, that refer to it."""
    for resource in module.resources(mode="managed"):
        user = "leases" if "lease" in resource.name else resource.type
        for attribute in (attribute for body in bodies(resource.block) for attribute in body.attributes):
            for reference in references(attribute.expression):
                if reference.root == "azurerm_storage_account" and len(reference.names) > 1:
                    yield reference.names[1], attribute.name if _APP.search(user) else user


RULE = Rule(
    id="HF708",
    title="Unprotected resource in production",
    fix="Set `prevent_destroy = true` in its `lifecycle`, or enable the provider's deletion protection.",
    severity=Severity.WARNING,
    source=_check,
    plan=_plan,
)
