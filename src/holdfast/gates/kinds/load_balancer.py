"""A load balancer of the cluster has exactly the expected addresses."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from holdfast.config.gates import LoadBalancerGate
from holdfast.gates.interface import Met, NotMet, Observation, Tools
from holdfast.gates.kinds.kubernetes import evidence_of, observed
from holdfast.kubernetes.client import KubernetesClient

_API_VERSIONS = {"Service": "v1", "Gateway": "gateway.networking.k8s.io/v1"}


class LoadBalancer:
    def __init__(self, settings: LoadBalancerGate, tools: Tools) -> None:
        self._settings = settings
        self._tools = tools

    async def observe(self, seconds: float) -> Observation:
        return await asyncio.to_thread(observed, self._tools, seconds, self._look)

    def _look(self, client: KubernetesClient) -> Observation:
        settings = self._settings
        kind = client.kind(_API_VERSIONS[settings.kind], settings.kind)
        where = f"{settings.kind} {settings.name}"
        resource = client.find(kind, settings.name, settings.namespace)
        if resource is None:
            return NotMet(text=f"{where} does not exist", next_step="Check what should create it.")
        found, expected = bound_addresses(settings.kind, resource), frozenset(settings.equals)
        if found == expected:
            return Met(text=f"{where} has {', '.join(sorted(found))}")
        shown = ", ".join(sorted(found)) or "no address yet"
        return NotMet(
            text=f"{where} has {shown} instead of {', '.join(settings.equals)}",
            evidence=evidence_of(client, kind, resource),
            next_step="Check that the reserved address is set on it, in the same account and region.",
        )


def bound_addresses(kind: str, resource: Mapping[str, Any]) -> frozenset[str]:
    """Pure."""
    status = resource.get("status") or {}
    if kind == "Gateway":
        return frozenset(str(entry.get("value")) for entry in status.get("addresses") or ())
    entries = (status.get("loadBalancer") or {}).get("ingress") or ()
    return frozenset(str(entry.get("ip") or entry.get("hostname")) for entry in entries)
