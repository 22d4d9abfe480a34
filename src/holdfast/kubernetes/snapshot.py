"""A resource as evidence: what it is and what its status says, nothing that people wrote. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

_METADATA = ("name", "namespace", "generation", "creationTimestamp", "deletionTimestamp", "finalizers")
_LONGEST = 8000


def snapshot(resource: Mapping[str, Any]) -> str:
    """As YAML. Data, spec, annotations and labels, which may hold secrets, are left out."""
    metadata = resource.get("metadata") or {}
    shown: dict[str, Any] = {
        "apiVersion": resource.get("apiVersion"),
        "kind": resource.get("kind"),
        "metadata": {name: metadata[name] for name in _METADATA if name in metadata},
    }
    if "status" in resource:
        shown["status"] = resource["status"]
    text = yaml.safe_dump(shown, sort_keys=False, allow_unicode=True)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\n# cut"
