from __future__ import annotations

from typing import Any

import pytest

from holdfast.config.publishing import RESERVING
from holdfast.contract.reserved import KINDS, CheckedAddress, ReservedAddress, check_reserved

AWS = {
    "public_ip": "192.0.2.1",
    "public_dns": "ec2.example",
    "arn": "arn:aws:ec2:eu-west-1:111111111111:elastic-ip/eipalloc-1",
}
AZURE = {
    "ip_address": "192.0.2.1",
    "fqdn": None,
    "id": "/subscriptions/AAAA-1/resourceGroups/g/providers/Microsoft.Network/publicIPAddresses/p",
}
GOOGLE = {"address": "192.0.2.1", "id": "projects/acme-prod/regions/europe-west1/addresses/a"}


def checked(
    type_: str,
    attributes: dict[str, Any],
    *,
    value: object = "192.0.2.1",
    account: str | None = None,
    found: int = 1,
) -> CheckedAddress | str:
    resource = ReservedAddress(stack="prod/cluster", address=f"{type_}.a", type=type_, attributes=attributes)
    result = check_reserved(
        "gateway.address",
        value,
        environment="prod",
        resource=f"{type_}.a",
        found=(resource,) * found,
        account=account,
    )
    return result if isinstance(result, CheckedAddress) else result.code


@pytest.mark.parametrize(
    ("type_", "attributes", "account"),
    [
        ("aws_eip", AWS, "111111111111"),
        ("azurerm_public_ip", AZURE, "aaaa-1"),
        ("google_compute_address", GOOGLE, "acme-prod"),
        ("google_compute_global_address", {"address": "192.0.2.1", "project": "acme-prod"}, "acme-prod"),
    ],
)
def test_a_fact_is_the_reserved_address_of_the_right_account(
    type_: str, attributes: dict[str, Any], account: str
) -> None:
    """Another address, another account, none or several resources: each refused; unknown is never right."""
    right = checked(type_, attributes, account=account)
    assert isinstance(right, CheckedAddress)
    assert right.account is not None
    without = checked(type_, attributes)
    assert isinstance(without, CheckedAddress)
    assert without.account is None
    assert checked(type_, attributes, account="another") == "HF-FACT-13"
    assert checked(type_, attributes, value="192.0.2.9") == "HF-FACT-12"
    assert checked(type_, attributes, value=None) == "HF-FACT-12"
    assert checked(type_, attributes, found=0) == "HF-FACT-11"
    assert checked(type_, attributes, found=2) == "HF-FACT-11"
    nothing = dict.fromkeys(attributes)
    assert checked(type_, nothing, value=None) == "HF-FACT-12"
    no_owner = {name: value for name, value in attributes.items() if name not in {"arn", "id", "project"}}
    assert checked(type_, no_owner, account=account) == "HF-FACT-13"


def test_every_type_that_can_be_configured_is_understood() -> None:
    assert set(RESERVING) == set(KINDS)
