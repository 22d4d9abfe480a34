"""A resource of the cluster has a condition."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.config.gates import KubernetesGate
from holdfast.gates.interface import Evidence, Met, NotMet, Observation, Tools
from holdfast.kubernetes.client import Kind, KubernetesClient, KubernetesError
from holdfast.kubernetes.snapshot import snapshot

_MOST_EVENTS = 10


class KubernetesCondition:
    def __init__(self, settings: KubernetesGate, tools: Tools) -> None:
        self._settings = settings
        self._tools = tools

    async def observe(self, seconds: float) -> Observation:
        return await asyncio.to_thread(observed, self._tools, seconds, self._look)

    def _look(self, client: KubernetesClient) -> Observation:
        settings = self._settings
        kind = client.kind(settings.api_version, settings.kind)
        where = f"{settings.kind} {settings.name}"
        resource = client.find(kind, settings.name, settings.namespace)
        if resource is None:
            return NotMet(text=f"{where} does not exist", next_step="Check what should create it.")
        problem = condition_problem(resource, settings.condition)
        if problem is None:
            return Met(text=f"{where} is {settings.condition}")
        return NotMet(
            text=f"{where}: {problem}",
            evidence=evidence_of(client, kind, resource),
            next_step=f"kubectl describe {kind.plural} {settings.name}",
        )


def observed(tools: Tools, seconds: float, look: Callable[[KubernetesClient], Observation]) -> Observation:
    """What the API refuses, or an API that does not answer, may be different later."""
    client = tools.cluster().within(seconds)
    try:
        return look(client)
    except KubernetesError as error:
        return NotMet(text=error.problem.message, next_step=error.problem.hint)


def condition_problem(resource: Mapping[str, Any], condition: str) -> str | None:
    """Why the condition is not met. One about an older generation says nothing about this one. Pure."""
    name, _, expected = condition.partition("=")
    expected = expected or "True"
    status = resource.get("status") or {}
    conditions = status.get("conditions") or ()
    found = next((entry for entry in conditions if entry.get("type") == name), None)
    if found is None:
        return f"has no condition {name} yet"
    generation = (resource.get("metadata") or {}).get("generation")
    seen = found.get("observedGeneration", status.get("observedGeneration"))
    if generation is not None and seen is not None and seen < generation:
        return f"{name} is about generation {seen}; the newest is {generation}"
    if found.get("status") == expected:
        return None
    why = ": ".join(str(found[part]) for part in ("reason", "message") if found.get(part))
    return f"{name} is {found.get('status')}{f' ({why})' if why else ''}"


def evidence_of(client: KubernetesClient, kind: Kind, resource: Mapping[str, Any]) -> tuple[Evidence, ...]:
    """Its status, and the last warnings about it."""
    full = {"apiVersion": kind.api_version, "kind": kind.name, **resource}
    parts = [Evidence(title=f"{kind.name} {resource['metadata']['name']}", text=snapshot(full))]
    try:
        events = _warnings(client, resource["metadata"])
    except KubernetesError as error:
        events = [f"not readable: {error.problem.message}"]
    if events:
        parts.append(Evidence(title="last warnings", text="\n".join(events[-_MOST_EVENTS:])))
    return tuple(parts)


def _warnings(client: KubernetesClient, metadata: Mapping[str, Any]) -> list[str]:
    namespace = metadata.get("namespace")
    if namespace is None:
        return []
    fields = f"involvedObject.name={metadata['name']},type=Warning"
    events = client.list(client.kind("v1", "Event"), namespace, fields=fields)
    return [f"{event.get('reason')}: {event.get('message')}" for event in events]
