"""Addresses are sorted as a person counts."""

from __future__ import annotations

from holdfast.terraform.addresses import address_order


def test_numbers_in_addresses_sort_as_numbers() -> None:
    """`node[2]` comes before `node[10]`, and a module's resources stay together."""
    addresses = ["module.b[10].x.a", "a.node[10]", "a.node[2]", "module.b[9].x.a", "a.node", 'a.node["z"]']
    assert sorted(addresses, key=address_order) == [
        "a.node",
        "a.node[2]",
        "a.node[10]",
        'a.node["z"]',
        "module.b[9].x.a",
        "module.b[10].x.a",
    ]
