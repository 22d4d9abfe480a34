"""Argo CD Applications are synced and healthy."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.config.gates import ArgocdGate
from holdfast.gates.interface import Evidence, Met, NotMet, Observation, Tools
from holdfast.gates.kinds.kubernetes import observed
from holdfast.kernel.text import first_names, plural
from holdfast.kubernetes.client import KubernetesClient

API_VERSION = "argoproj.io/v1alpha1"
_MOST = 3
_MOST_LINES = 20


class ArgocdApplications:
    def __init__(self, settings: ArgocdGate, tools: Tools) -> None:
        self._settings = settings
        self._tools = tools

    async def observe(self, seconds: float) -> Observation:
        return await asyncio.to_thread(observed, self._tools, seconds, self._look)

    def _look(self, client: KubernetesClient) -> Observation:
        settings = self._settings
        kind = client.kind(API_VERSION, "Application")
        found = {
            application["metadata"]["name"]: application
            for application in client.list(kind, settings.namespace)
        }
        names = settings.applications or tuple(sorted(found))
        if not names:
            return NotMet(
                text=f"there is no Application in the namespace {settings.namespace}",
                next_step="Check that the root ApplicationSet is applied, and what it generates.",
            )
        problems = {name: application_problem(found.get(name)) for name in names}
        broken = [f"{name} {problem}" for name, problem in problems.items() if problem is not None]
        if not broken:
            return Met(text=f"{plural(len(names), 'Application')} synced and healthy")
        worst = next(name for name, problem in problems.items() if problem is not None)
        evidence = tuple(
            Evidence(title=f"Application {name}", text="\n".join(lines))
            for name in names
            if problems[name] is not None and (lines := list(details(found.get(name) or {})))
        )
        return NotMet(
            text=first_names(broken, _MOST),
            evidence=evidence[:_MOST],
            next_step=f"argocd app get {settings.namespace}/{worst}",
        )


def application_problem(application: Mapping[str, Any] | None) -> str | None:
    """Synced is what was compared last; healthy is what runs. Pure."""
    if application is None:
        return "does not exist"
    status = application.get("status") or {}
    sync = (status.get("sync") or {}).get("status") or "not compared yet"
    health = (status.get("health") or {}).get("status") or "of unknown health"
    phase = (status.get("operationState") or {}).get("phase")
    if phase in {"Running", "Terminating"} or application.get("operation"):
        return "is syncing"
    return None if (sync, health) == ("Synced", "Healthy") else f"is {sync}, {health}"


def details(application: Mapping[str, Any]) -> Iterator[str]:
    """What Argo CD says about it, and its resources that are not fine. Pure."""
    status = application.get("status") or {}
    lines = [f"{entry.get('type')}: {entry.get('message')}" for entry in status.get("conditions") or ()]
    if message := (status.get("operationState") or {}).get("message"):
        lines.append(f"last sync: {message}")
    for resource in status.get("resources") or ():
        health = (resource.get("health") or {}).get("status")
        if resource.get("status") not in {None, "Synced"} or health not in {None, "Healthy"}:
            message = (resource.get("health") or {}).get("message")
            what = f"{resource.get('kind')} {resource.get('name')}"
            lines.append(f"{what}: {resource.get('status')}, {health}{f': {message}' if message else ''}")
    yield from lines[:_MOST_LINES]
