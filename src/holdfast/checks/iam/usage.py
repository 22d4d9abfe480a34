"""What a resource uses its document as, where its type alone does not say it."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.iam.policy_types import BOUNDARY, RESOURCE_CONTROL, Kind, Use
from holdfast.checks.model.subjects import Module, Resource, bodies, value
from holdfast.hcl.nodes import references

_POLICY = "aws_iam_policy"
_BOUNDARY = "permissions_boundary"


def use_of(resource: Resource, listed: Use, *, bounding: bool) -> Use:
    """`listed`: what the table of types says."""
    if listed.kind is Kind.ORGANIZATION and value(resource.body, "type") == "RESOURCE_CONTROL_POLICY":
        return RESOURCE_CONTROL
    return BOUNDARY if bounding else listed


def boundaries(module: Module) -> frozenset[str]:
    """The managed policies that bound what others allow, and are attached nowhere in sight.

    They are called so, or a `permissions_boundary` of the module names them.
    """
    policies = {one.address: one for one in module.resources(_POLICY, mode="managed")}
    if not policies or not _is_written(module, b"boundary"):
        return frozenset()
    called = {
        address
        for address, one in policies.items()
        if "boundary" in f"{one.name} {value(one.body, 'name')}".lower()
    }
    bounding: set[str] = set()
    attached: set[str] = set()
    for resource in module.resources(mode="managed"):
        for name, address in _named(resource):
            (bounding if name == _BOUNDARY else attached).add(address)
    return frozenset((called | bounding) & policies.keys() - attached)


def _is_written(module: Module, word: bytes) -> bool:
    return any(word in (module.checkout.content(file.path) or b"") for file in module.files)


def _named(resource: Resource) -> Iterator[tuple[str, str]]:
    """The managed policies that it refers to, each with the argument that does."""
    for body in bodies(resource.block):
        for attribute in body.attributes:
            for one in references(attribute.expression):
                if one.root == _POLICY and len(one.names) > 1:
                    yield attribute.name, f"{_POLICY}.{one.names[1]}"
