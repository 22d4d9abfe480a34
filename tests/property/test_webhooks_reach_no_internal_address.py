"""Whatever address a name has, a request by rules goes to public addresses and to listed networks only."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.system.addresses import AddressRules

# The special-purpose registries of IANA, written down here on their own; and metadata services of clouds.
PRIVATE = tuple(map(ip_network, (
    "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7",
)))  # fmt: skip
NEVER = tuple(map(ip_network, (
    "0.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32",
    "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32",
    "fd00:ec2::254/128", "::/128", "fe80::/10", "ff00::/8",
)))  # fmt: skip
DOCUMENTATION = tuple(map(ip_network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32")))
EVERYTHING = AddressRules(("0.0.0.0/0", "::/0"))
Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address


def inside(networks: tuple[Network, ...]) -> st.SearchStrategy[Address]:
    def members(network: Network) -> st.SearchStrategy[Address]:
        kind = IPv4Address if network.version == 4 else IPv6Address
        return st.integers(int(network[0]), int(network[-1])).map(kind)

    return st.sampled_from(networks).flatmap(members)


def faces(address: Address) -> list[str]:
    """All ways to write it, and addresses of IPv6 that lead to it."""
    if isinstance(address, IPv6Address):
        return [str(address), address.exploded, f"{address}%1"]
    number = int(address)
    return [
        str(address),
        f"::ffff:{address}",
        str(IPv6Address((0x2002 << 112) | (number << 80))),
        str(IPv6Address((0x64FF9B << 96) | number)),
    ]


@given(inside(PRIVATE + NEVER + DOCUMENTATION))
def test_internal_addresses_are_refused(address: Address) -> None:
    assert not any(map(AddressRules().allow, faces(address)))


@given(inside(NEVER))
def test_some_are_refused_even_if_they_are_listed(address: Address) -> None:
    assert not any(map(EVERYTHING.allow, faces(address)))


@given(inside(PRIVATE), inside(PRIVATE))
def test_only_listed_networks_are_added(listed: Address, other: Address) -> None:
    rules = AddressRules((str(ip_network(listed)),))
    never = any(listed in network for network in NEVER if network.version == listed.version)
    assert never or all(map(rules.allow, faces(listed)))
    assert listed == other or not any(map(rules.allow, faces(other)))


@pytest.mark.parametrize("public", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "64:ff9b::101:101"])
def test_public_addresses_are_allowed(public: str) -> None:
    assert AddressRules().allow(public)


@given(st.text(max_size=30))
def test_text_that_is_no_address_is_refused(text: str) -> None:
    try:
        ip_address(text.partition("%")[0])
    except ValueError:
        assert not EVERYTHING.allow(text)
