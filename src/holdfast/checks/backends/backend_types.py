"""The backends of Terraform: which settings are secrets, identities, or locations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.stacks.backend_types import BACKEND_TYPES as STATE_SETTINGS

MANAGED: Final = "holdfast"
"""Neither code nor configuration names a backend: Holdfast stores the state."""


class BackendType(Struct, frozen=True):
    """Names of settings; a dot leads to a nested one."""

    needs: tuple[str, ...] = ()
    """Required to know where the state is. If one is missing, it and others may come from elsewhere."""
    secrets: tuple[str, ...] = ()
    identities: tuple[str, ...] = ()
    """Accounts, roles, users, profiles."""
    places: tuple[str, ...] = ()
    """Locations that differ between targets."""
    store: tuple[str, ...] = ()
    """What permissions are granted on: it should hold the states of one environment."""
    variables: Mapping[str, str] = {}
    """Environment variables that set a setting by default, with its name."""
    at_rest_unknown: str | None = None
    """Why the code does not show whether the state is encrypted at rest."""


_SETTINGS: Final = msgspec.json.decode(
    Path(__file__).with_suffix(".json").read_bytes(), type=dict[str, BackendType]
)
BACKEND_TYPES: Final[Mapping[str, BackendType]] = {
    name: replace(kind, needs=STATE_SETTINGS[name].needs) if name in STATE_SETTINGS else kind
    for name, kind in _SETTINGS.items()
}

REMOVED: Final[Mapping[str, str]] = {
    "artifactory": "http",
    "azure": "azurerm",
    "etcd": "consul",
    "etcdv3": "consul",
    "manta": "s3",
    "swift": "s3",
}
"""Backends that Terraform 1.3 removed, each with the closest replacement."""
