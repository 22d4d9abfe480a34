"""Whether a published address is the one that is reserved in the cloud, in the right account. Pure.

An address that belongs to nothing reserved changes with the next replacement of its load balancer; one of
another account or subscription sends an environment's traffic to another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from holdfast.kernel.errors import Problem
from holdfast.kernel.patterns import pattern

_ARN: Final = pattern(r"arn:[a-z0-9-]+:ec2:[a-z0-9-]*:([0-9]{12}):.+")
_SUBSCRIPTION: Final = pattern(r"/subscriptions/([^/]+)/.+")
_PROJECT: Final = pattern(r"(?:https://[^/]+/compute/[a-z0-9]+/)?projects/([^/]+)/.+")


class _Kind(Struct, frozen=True, kw_only=True):
    addresses: tuple[str, ...]
    """Attributes that may be what is published."""
    owner: Callable[[Mapping[str, Any]], str | None]
    owner_is: str


def _part(attributes: Mapping[str, Any], names: tuple[str, ...], form: Any) -> str | None:
    for name in names:
        match = form.fullmatch(str(attributes.get(name) or ""))
        if match is not None:
            return str(match[1])
    return None


_AWS: Final = _Kind(
    addresses=("public_ip", "carrier_ip", "public_dns"),
    owner=lambda attributes: _part(attributes, ("arn",), _ARN),
    owner_is="account",
)
_AZURE: Final = _Kind(
    addresses=("ip_address", "fqdn"),
    owner=lambda attributes: _part(attributes, ("id",), _SUBSCRIPTION),
    owner_is="subscription",
)
_GOOGLE: Final = _Kind(
    addresses=("address",),
    owner=lambda attributes: attributes.get("project") or _part(attributes, ("id", "self_link"), _PROJECT),
    owner_is="project",
)
KINDS: Final[Mapping[str, _Kind]] = {
    "aws_eip": _AWS,
    "azurerm_public_ip": _AZURE,
    "google_compute_address": _GOOGLE,
    "google_compute_global_address": _GOOGLE,
}
"""Types of resources that reserve an address."""


class ReservedAddress(Struct, frozen=True, kw_only=True):
    """A resource of a state."""

    stack: str
    address: str
    """Of the resource: `aws_eip.gateway`."""
    type: str
    attributes: Mapping[str, Any]


class CheckedAddress(Struct, frozen=True, kw_only=True):
    """A fact that is the reserved address."""

    fact: str
    environment: str
    stack: str
    resource: str
    account: str | None
    """None: it is not known which account it must be, so this was not checked."""


def check_reserved(
    fact: str,
    value: object,
    *,
    environment: str,
    resource: str,
    found: tuple[ReservedAddress, ...],
    account: str | None,
) -> CheckedAddress | Problem:
    """`found` are the resources of this address in the states of the environment."""
    if len(found) != 1:
        stacks = ", ".join(reserved.stack for reserved in found)
        what = f"several stacks have it: {stacks}" if found else "no state of its stacks has it"
        return Problem(
            code="HF-FACT-11",
            message=f"the fact {fact} of {environment} must be the address that {resource} reserves, "
            f"and {what}",
            hint="Apply the stack, or correct `facts.reserved`.",
        )
    (reserved,) = found
    kind = KINDS[reserved.type]
    addresses = [text for name in kind.addresses if (text := reserved.attributes.get(name))]
    if value not in addresses:
        return Problem(
            code="HF-FACT-12",
            message=f"the fact {fact} of {environment} is {value}, but {resource} of {reserved.stack} "
            f"reserves {' or '.join(map(str, addresses)) or 'no address yet'}",
            hint="Use the reserved address for the load balancer, and apply it; or correct `facts.reserved`.",
        )
    owner = kind.owner(reserved.attributes)
    if account is not None and (owner is None or owner.lower() != account.lower()):
        return Problem(
            code="HF-FACT-13",
            message=f"the fact {fact} of {environment} is reserved in the {kind.owner_is} "
            f"{owner or '(unknown)'}, not in {account}: {resource} of {reserved.stack}",
            hint="Check the credentials and the provider of the stack, or correct `facts.accounts`.",
        )
    return CheckedAddress(
        fact=fact,
        environment=environment,
        stack=reserved.stack,
        resource=resource,
        account=owner if account is not None else None,
    )
