"""Brings GitOps into a cluster: server-side apply of pinned manifests, with the same result each time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from holdfast.config.bootstrap import Bootstrap
from holdfast.kernel.errors import Failed, Refused
from holdfast.kubernetes.client import Kind, KubernetesClient, KubernetesError
from holdfast.system import clock

_FIRST = {"Namespace": 0, "CustomResourceDefinition": 1}
_SERVED_SECONDS = 60.0
_PAUSE = 0.2


class Manifests(Struct, frozen=True, kw_only=True):
    """What is applied, in this order."""

    files: int
    resources: tuple[Mapping[str, Any], ...]


def read_manifests(root: Path, settings: Bootstrap) -> Manifests:
    """Everything is read and verified before anything is applied."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": settings.namespace}}
    resources: list[Mapping[str, Any]] = [namespace]
    for manifest in settings.manifests:
        try:
            content = (root / manifest.file).read_bytes()
        except OSError:
            raise Failed(
                "HF-BOOT-1", f"{manifest.file} cannot be read", hint="Check `bootstrap` of the target."
            ) from None
        digest = hashlib.sha256(content).hexdigest()
        if manifest.sha256 is not None and digest != manifest.sha256:
            raise Refused(
                "HF-BOOT-2",
                f"{manifest.file} has the SHA-256 sum {digest}, not the one in holdfast.yaml",
                hint="Restore the file, or update `sha256` after a review of what changed.",
            )
        resources += sorted(
            _resources(manifest.file, content), key=lambda one: _FIRST.get(str(one["kind"]), 2)
        )
    return Manifests(files=len(settings.manifests), resources=tuple(resources))


def _resources(file: str, content: bytes) -> Iterator[Mapping[str, Any]]:
    try:
        documents = list(yaml.safe_load_all(content))
    except (yaml.YAMLError, ValueError, RecursionError):
        raise Failed(
            "HF-BOOT-1", f"{file} is not valid YAML", hint="Render templates before the deploy."
        ) from None
    for document in documents:
        if document is None:
            continue
        items = (
            document.get("items")
            if isinstance(document, dict) and document.get("kind") == "List"
            else [document]
        )
        for item in items or ():
            name = (
                isinstance(item, dict)
                and isinstance(item.get("metadata"), dict)
                and item["metadata"].get("name")
            )
            if not name or not item.get("kind") or not item.get("apiVersion"):
                raise Failed(
                    "HF-BOOT-1",
                    f"{file} has a document that is no resource: it needs apiVersion, kind and metadata.name",
                    hint="Render templates before the deploy.",
                )
            yield item


def apply_manifests(client: KubernetesClient, manifests: Manifests, namespace: str) -> None:
    """A field that another program manages is an error: Holdfast takes nothing over."""
    defined = defined_kinds(manifests.resources)
    for resource in manifests.resources:
        kind = _served_kind(client, resource, defined)
        metadata = dict(resource["metadata"])
        if kind.namespaced:
            metadata.setdefault("namespace", namespace)
        try:
            client.apply({**resource, "metadata": metadata})
        except KubernetesError as error:
            problem = error.problem
            message = f"{resource['kind']} {metadata['name']}: {problem.message}"
            raise KubernetesError(problem.code, message, status=error.status, hint=problem.hint) from None


def _served_kind(client: KubernetesClient, resource: Mapping[str, Any], defined: frozenset[str]) -> Kind:
    """A kind that was just defined takes a moment to be served."""
    end = clock.monotonic() + _SERVED_SECONDS
    waits = f"{resource['apiVersion']}/{resource['kind']}" in defined
    while True:
        try:
            return client.kind(str(resource["apiVersion"]), str(resource["kind"]))
        except KubernetesError as error:
            if not error.not_found or not waits or clock.monotonic() > end:
                raise
        clock.pause(_PAUSE)


def defined_kinds(resources: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """`group/version/kind` of the CustomResourceDefinitions among them. Pure."""
    return frozenset(
        f"{one['spec']['group']}/{version['name']}/{one['spec']['names']['kind']}"
        for one in resources
        if one["kind"] == "CustomResourceDefinition"
        for version in one["spec"]["versions"]
    )
