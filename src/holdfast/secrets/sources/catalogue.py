"""The secret sources. To add one: write its module, and add a line here and its scheme to `secret_refs`."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import NamedTuple

from holdfast.config.secret_refs import SCHEMES, SecretRef
from holdfast.kernel.errors import UsageError
from holdfast.secrets.sources.interface import Source, Timeouts
from holdfast.system.environment import Environment


class SourceEntry(NamedTuple):
    schemes: tuple[str, ...]
    module: str
    """Imported when a reference first needs it."""
    name: str
    """The class, a `Source`."""
    local: bool = False
    """On this machine: quick to read, without a request."""


CATALOGUE = (
    SourceEntry(("env", "file", "dotenv"), "local", "LocalSecrets", local=True),
    SourceEntry(("aws-sm", "aws-ssm"), "aws", "AwsSecrets"),
    SourceEntry(("azure-kv",), "azure", "KeyVault"),
    SourceEntry(("vault",), "vault", "Vault"),
)


def source_for(ref: SecretRef) -> SourceEntry:
    for entry in CATALOGUE:
        if ref.scheme in entry.schemes:
            return entry
    raise UsageError(
        "HF-SEC-1",
        f"there is no secret source `{ref.scheme}:` ({ref})",
        hint=f"Use one of {', '.join(f'{scheme}:' for scheme in SCHEMES)}.",
    )


def is_local(ref: SecretRef) -> bool:
    return source_for(ref).local


def open_source(
    entry: SourceEntry, environment: Environment, root: Path, timeouts: Timeouts, *, identify: bool
) -> Source:
    module = importlib.import_module(f"holdfast.secrets.sources.{entry.module}")
    source: Source = getattr(module, entry.name)(environment, root, timeouts, identify=identify)
    return source
