"""The provider mirror: unpacked packages, each in a folder named by its hash, verified once, never changed.

`HOLDFAST_HOME/providers/<hash>/package/…` is linked into work directories. An entry is complete before its
name appears. Each use compares the files with the record of their verification (`folder_hashes`): an entry
whose content changed is never used; a plan sets it aside and fills it again, an apply is refused.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from holdfast.kernel.errors import Failed
from holdfast.system import clock, files, processes
from holdfast.terraform.engine.folder_hashes import FolderHashes, files_below, package_hash
from holdfast.terraform.engine.warm_providers import HANDSHAKE, plaintext_socket
from holdfast.terraform.engine.worker_sockets import VARIABLE
from holdfast.terraform.lock_file import LockedProvider

_META = "meta.json"
_VERIFIED = "verified.json"
_PACKAGE = "package"


class Package(Struct, frozen=True, kw_only=True):
    """One verified provider package of the mirror."""

    folder: Path
    """Work directories link to it."""
    plain: bool
    """A probe of its handshake succeeded over a Unix socket without TLS."""
    placed: bool
    """It opens its socket in the folder that it is given for that."""


class Handshake(NamedTuple):
    """See `Package`."""

    plain: bool = False
    placed: bool = False


class Mirror:
    def __init__(self, folder: Path, hashes: FolderHashes) -> None:
        self.folder = folder
        self._hashes = hashes

    @contextlib.contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Hold the mirror's lock while packages are downloaded, so that each is downloaded once."""
        with files.hold_lock(files.private_folder(self.folder) / "fill.lock"):
            yield

    def find(self, provider: LockedProvider) -> Package | None:
        """The package of a locked provider, if it is here and unchanged."""
        return next(filter(None, map(self._intact, provider.package_hashes)), None)

    def is_changed(self, provider: LockedProvider) -> bool:
        """Whether the package is here, but with another content than when it was verified."""
        here = any((self._entry(hash_) / _PACKAGE).exists() for hash_ in provider.package_hashes)
        return here and self.find(provider) is None

    def add(self, source: Path, known: tuple[str, ...], handshake: Handshake) -> Package:
        """Add a package. `known` are the hashes of the lock file; anything else is refused."""
        hash_ = package_hash(source)
        if hash_ not in known:
            raise Failed(
                "HF-MIRR-1",
                f"the provider package in {source} does not match the hashes of the lock file",
                hint="The package or the lock file was changed. Check both before you continue.",
            )
        present = self._intact(hash_)
        if present is not None and (present.plain, present.placed) == handshake:
            return present
        entry = self._entry(hash_)
        aside = self.folder / f".{entry.name}.{clock.random_token(6)}"
        files.private_folder(aside)
        try:
            _copy_tree(source, aside / _PACKAGE)
            if package_hash(aside / _PACKAGE) != hash_:
                raise Failed("HF-MIRR-2", f"{source} changed while Holdfast copied it into the mirror")
            files.write(aside / _META, json.dumps({"hash": hash_, **handshake._asdict()}))
            self._set_aside(entry)
            aside.rename(entry)
            files.flush_folder(self.folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return Package(folder=entry / _PACKAGE, plain=handshake.plain, placed=handshake.placed)

    def _entry(self, known: str) -> Path:
        return self.folder / base64.b64decode(known.removeprefix("h1:")).hex()

    def _intact(self, known: str) -> Package | None:
        entry = self._entry(known)
        try:
            meta = json.loads((entry / _META).read_bytes())
            hash_ = self._hashes.hash_of(entry / _PACKAGE, entry / _VERIFIED)
        except (OSError, ValueError):
            return None
        if hash_ != known:
            return None
        return Package(
            folder=entry / _PACKAGE, plain=meta["plain"] is True, placed=meta.get("placed") is True
        )

    def _set_aside(self, entry: Path) -> None:
        """A damaged entry is renamed: a provider that runs from it keeps its file."""
        if entry.exists():
            entry.rename(self.folder / f".damaged-{entry.name[:12]}-{clock.random_token(6)}")


def _copy_tree(source: Path, target: Path) -> None:
    """Read-only copies, not links: later changes of the source must not reach the mirror."""
    for name in files_below(source):
        path, copy = source / name, target / name
        copy.parent.mkdir(parents=True, exist_ok=True, mode=files.PRIVATE_FOLDER)
        shutil.copyfile(path, copy)
        copy.chmod(0o500 if os.access(path, os.X_OK) else 0o400)


def probe_handshake(package: Path, *, scratch: Path, path: str, ruleset: int) -> Handshake:
    """Start the provider as Terraform would without plugin TLS, and read the one line it prints.

    Terraform panics when plugin TLS is off and a provider answers with a certificate, so every provider is
    probed before TLS is switched off for it.
    """
    program = executable(package)
    if program is None:
        return Handshake()
    sockets = files.private_folder(scratch / "o")
    environment = {
        **HANDSHAKE,
        "TMPDIR": str(scratch),
        "PATH": path,
        "HOME": str(scratch),
        VARIABLE: str(sockets),
    }
    line = processes.first_line((str(program),), folder=scratch, environment=environment, ruleset=ruleset)
    plain = plaintext_socket(line.decode(errors="replace")) if line is not None else None
    return Handshake(plain is not None, plain is not None and plain[1].startswith(f"{sockets}/"))


def executable(package: Path) -> Path | None:
    """The provider program among the files of its package."""
    programs = (
        path
        for path in sorted(package.iterdir())
        if path.name.startswith("terraform-provider-") and path.is_file() and os.access(path, os.X_OK)
    )
    return next(programs, None)
