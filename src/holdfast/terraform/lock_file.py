"""The dependency lock file: which provider versions a stack uses, and the hashes they are known by. Pure."""

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
        """Those of unpacked packages (`h1:`), which can be computed again; `zh:` belong to archives."""
        return tuple(one for one in self.hashes if one.startswith("h1:"))


def read_lock(content: bytes) -> tuple[LockedProvider, ...]:
    """The providers in the order of the file. What is not understood is left out, and so never trusted."""
    found = []
    for block in read(content, LOCK_FILE).body.blocks_of("provider"):
        values = {one.name: constant(one.expression) for one in block.body.attributes}
        version, constraints, hashes = (values.get(key) for key in ("version", "constraints", "hashes"))
        if len(block.labels) == 1 and isinstance(version, str):
            found.append(
                LockedProvider(
                    address=block.labels[0],
                    version=version,
                    constraints=constraints if isinstance(constraints, str) else None,
                    hashes=tuple(str(one) for one in hashes) if isinstance(hashes, list | tuple) else (),
                )
            )
    return tuple(found)


def lock_text_without_hashes(providers: tuple[LockedProvider, ...]) -> str:
    """A copy for the work directory: with no hash in it Terraform does not hash packages on every command."""
    blocks = []
    for one in providers:
        constraints = f'  constraints = "{one.constraints}"\n' if one.constraints else ""
        blocks.append(f'provider "{one.address}" {{\n  version     = "{one.version}"\n{constraints}}}\n')
    return "# Verified by Holdfast; the hashes are in the source.\n\n" + "\n".join(blocks)


def versions_digest(providers: tuple[LockedProvider, ...]) -> str:
    """One text for one set of provider versions: a warm process serves one such set only."""
    chosen = sorted(f"{one.address} {Version.parse(one.version)}" for one in providers)
    return hashlib.sha256("\n".join(chosen).encode()).hexdigest() if chosen else NO_PROVIDERS
