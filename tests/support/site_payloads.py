"""Payloads of the shipped blueprints, by blueprint."""

from __future__ import annotations

from typing import Any

PAYLOADS: dict[str, dict[str, Any]] = {
    "cato-ipsec-site": {
        "site_name": "Berlin",
        "network_range": "10.20.0.0/24",
        "public_ip": "203.0.113.10",
        "cato_private_ip": "169.254.10.1",
        "bgp_neighbor_ip": "169.254.10.2",
        "bgp_peer_asn": 65010,
    },
    "versa-site": {
        "site_name": "Berlin",
        "template": "BRANCH",
        "device": "branch1",
        "public_ip": "203.0.113.10",
        "peer_public_ip": "198.51.100.10",
        "tunnel_interface": "tvi-0/601",
        "tunnel_ip": "169.254.10.1",
        "bgp_neighbor_ip": "169.254.10.2",
        "bgp_peer_asn": 65010,
    },
}
