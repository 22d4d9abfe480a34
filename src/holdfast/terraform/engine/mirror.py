"""The provider mirror: unpacked packages, each in a folder named by its hash, verified once, never changed.

`HOLDFAST_HOME/providers/<hash>/package/…` is linked into work directories. An entry is complete before its
name appears. What was verified is remembered with the size, times and inode of each file; an entry in which
any of these changed is verified again, and one whose content changed is set aside and filled anew.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from holdfast.kernel.errors import Failed
from holdfast.kernel.values import dataclass
from holdfast.system import clock, files
from holdfast.terraform.lock_file import LockedProvider

_META = "meta.json"
_PACKAGE = "package"


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One verified provider package of the mirror."""

    folder: Path
    """What work directories link to."""
    plain: bool
    """Its handshake was probed: it speaks over a Unix socket without a certificate."""


class Mirror:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextlib.contextmanager
    def filling(self) -> Iterator[None]:
        """Hold the mirror's lock while packages are fetched: many cold starts fetch each package once."""
        with files.locked(files.private_folder(self.folder) / "fill.lock"):
            yield

    def find(self, provider: LockedProvider) -> Package | None:
        """The package of a locked provider, if it is here and still what it was."""
        for known in provider.package_hashes:
            package = self._intact(known)
            if package is not None:
                return package
        return None

    def add(self, source: Path, known: tuple[str, ...], *, plain: bool) -> Package:
        """Take a package in. `known` are the hashes the lock file vouches for; anything else is refused."""
        found = package_hash(source)
        if found not in known:
            raise Failed(
                "HF-MIRR-1",
                f"the provider package in {source} does not match the hashes of the lock file",
                hint="The package or the lock file was changed. Look at both before you go on.",
            )
        present = self._intact(found)
        if present is not None and present.plain == plain:
            return present
        entry = self._entry(found)
        aside = self.folder / f".{entry.name}.{clock.random_token(6)}"
        files.private_folder(aside)
        try:
            _copy_tree(source, aside / _PACKAGE)
            if package_hash(aside / _PACKAGE) != found:
                raise Failed("HF-MIRR-2", f"{source} changed while it was copied into the mirror")
            self._remember(aside, found, plain=plain)
            self._set_aside(entry)
            aside.rename(entry)
            files.flush_folder(self.folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return Package(folder=entry / _PACKAGE, plain=plain)

    def _entry(self, known: str) -> Path:
        return self.folder / base64.b64decode(known.removeprefix("h1:")).hex()

    def _intact(self, known: str) -> Package | None:
        entry = self._entry(known)
        try:
            meta = json.loads((entry / _META).read_bytes())
            fingerprint = _fingerprint(entry / _PACKAGE)
        except (OSError, ValueError):
            return None
        if meta["fingerprint"] != fingerprint:
            if package_hash(entry / _PACKAGE) != known:
                return None
            self._remember(entry, known, plain=bool(meta["plain"]))
        return Package(folder=entry / _PACKAGE, plain=bool(meta["plain"]))

    def _remember(self, entry: Path, known: str, *, plain: bool) -> None:
        meta = {"hash": known, "plain": plain, "fingerprint": _fingerprint(entry / _PACKAGE)}
        files.write(entry / _META, json.dumps(meta))

    def _set_aside(self, entry: Path) -> None:
        """A damaged entry is renamed: a provider that runs from it this moment keeps its file."""
        if entry.exists():
            entry.rename(self.folder / f".damaged-{entry.name[:12]}-{clock.random_token(6)}")


def package_hash(folder: Path) -> str:
    """The `h1:` hash that lock files hold: over the name and SHA-256 of every file, in order of name."""
    lines = []
    for path in _files(folder):
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
        lines.append(f"{digest.hexdigest()}  {path.relative_to(folder).as_posix()}\n")
    lines.sort(key=lambda line: line[66:])
    return "h1:" + base64.b64encode(hashlib.sha256("".join(lines).encode()).digest()).decode()


def _files(folder: Path) -> list[Path]:
    return [Path(place) / name for place, _, names in os.walk(folder) for name in names]


def _fingerprint(package: Path) -> list[list[object]]:
    """What changes when somebody writes to a file: cheap to ask, on every command."""
    stats = sorted((path.relative_to(package).as_posix(), path.stat()) for path in _files(package))
    if not stats:
        raise FileNotFoundError(package)
    return [[name, stat.st_size, stat.st_mtime_ns, stat.st_ino, stat.st_mode] for name, stat in stats]


def _copy_tree(source: Path, target: Path) -> None:
    """Copies, read-only. Not links: what somebody does to the source later must not reach the mirror."""
    for path in _files(source):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True, mode=files.PRIVATE_FOLDER)
        shutil.copyfile(path, copy)
        copy.chmod(0o500 if os.access(path, os.X_OK) else 0o400)
