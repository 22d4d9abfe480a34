"""The dependency lock file: provider versions and the hashes of their packages. Pure."""

from __future__ import annotations

import hashlib

from msgspec import Struct

from holdfast.hcl.eval.code import LOCK_FILE
from holdfast.hcl.reader import constant, read
from holdfast.terraform.versions import Version

NO_PROVIDERS = "none"
"""The digest of a stack that uses built-in providers only."""


class LockedProvider(Struct, frozen=True, kw_only=True):
    address: str
    version: str
    constraints: str | None = None
    hashes: tuple[str, ...] = ()

    @property
    def package_hashes(self) -> tuple[str, ...]:
        """Those of unpacked packages (`h1:`), which can be recomputed; `zh:` hashes belong to archives."""
        return tuple(text for text in self.hashes if text.startswith("h1:"))


def read_lock(content: bytes) -> tuple[LockedProvider, ...]:
    """The providers in the order of the file. A malformed block is left out, and so never trusted."""
    providers = []
    for block in read(content, LOCK_FILE).body.blocks_of("provider"):
        values = {item.name: constant(item.expression) for item in block.body.attributes}
        version, constraints, hashes = (values.get(key) for key in ("version", "constraints", "hashes"))
        if len(block.labels) == 1 and isinstance(version, str):
            providers.append(
                LockedProvider(
                    address=block.labels[0],
                    version=version,
                    constraints=constraints if isinstance(constraints, str) else None,
                    hashes=tuple(map(str, hashes)) if isinstance(hashes, list | tuple) else (),
                )
            )
    return tuple(providers)


def lock_text_without_hashes(providers: tuple[LockedProvider, ...]) -> str:
    """A copy for the work directory: without hashes Terraform does not hash packages on every command."""
    blocks = []
    for provider in providers:
        constraints = f'  constraints = "{provider.constraints}"\n' if provider.constraints else ""
        version = f'  version     = "{provider.version}"\n'
        blocks.append(f'provider "{provider.address}" {{\n{version}{constraints}}}\n')
    return "# Verified by Holdfast; the hashes are in the source.\n\n" + "\n".join(blocks)


def versions_digest(providers: tuple[LockedProvider, ...]) -> str:
    """A digest of the provider versions: a worker serves one such set only."""
    chosen = sorted(f"{provider.address} {Version.parse(provider.version)}" for provider in providers)
    return hashlib.sha256("\n".join(chosen).encode()).hexdigest() if chosen else NO_PROVIDERS
