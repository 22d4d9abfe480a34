"""Hashes of folders, computed again only where a file may have changed.

A record beside a folder lists what changes with every write: device, inode, size, mode and times of each
file. No program can set the time of the last change (ctime), so a file that was swapped and given its old
times is read again. A record counts only with the right HMAC: without Holdfast's key, nobody can record
other files as verified.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from holdfast.system import clock, files

_SETTLED = 0.1
"""Seconds. A file that changed later than this before it was read could change again at the same ctime."""

_Stamp = tuple[str, int, int, int, int, int, int]


class _Record(Struct, frozen=True, kw_only=True):
    hash: str
    files: tuple[_Stamp, ...]


class FolderHashes:
    """`key` authenticates the records. Without one, hashes are remembered for the life of this object."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key
        self._known: dict[Path, _Record] = {}

    def hash_of(self, folder: Path, record: Path | None = None) -> str:
        """The `h1:` hash of the folder; raises OSError if it has no files or one cannot be read."""
        stamps = _stamps(folder)
        if not stamps:
            raise FileNotFoundError(folder)
        known = self._known.get(folder) or self._read(folder, record)
        if known is not None and known.files == stamps:
            self._known[folder] = known
            return known.hash
        before = clock.now().timestamp()
        current = _Record(hash=package_hash(folder), files=stamps)
        settled = before - max(stamp[-1] for stamp in stamps) / 1e9 > _SETTLED
        if settled and _stamps(folder) == stamps:
            self._known[folder] = current
            self._write(folder, record, current)
        return current.hash

    def _read(self, folder: Path, record: Path | None) -> _Record | None:
        if self._key is None or record is None:
            return None
        try:
            document = json.loads(record.read_bytes())
            known = _Record(hash=document["hash"], files=tuple(tuple(file) for file in document["files"]))
            authentic = hmac.compare_digest(document["mac"], self._mac(folder, known))
        except (OSError, ValueError, LookupError, TypeError):
            return None
        return known if authentic else None

    def _write(self, folder: Path, record: Path | None, known: _Record) -> None:
        if self._key is not None and record is not None:
            document = {"hash": known.hash, "files": known.files, "mac": self._mac(folder, known)}
            files.write(record, json.dumps(document), durable=False)

    def _mac(self, folder: Path, known: _Record) -> str:
        text = json.dumps([str(folder), known.hash, known.files])
        return hmac.new(self._key or b"", text.encode(errors="surrogateescape"), "sha256").hexdigest()


def package_hash(folder: Path) -> str:
    """The `h1:` hash of lock files: over the name and SHA-256 of every file, in order of name."""
    lines = []
    for name in files_below(folder):
        with (folder / name).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        lines.append(f"{digest}  {name}\n")
    text = "".join(lines).encode(errors="surrogateescape")
    return "h1:" + base64.b64encode(hashlib.sha256(text).digest()).decode()


def files_below(folder: Path, *, skipped: Iterable[str] = ()) -> list[str]:
    """The paths of all files, relative to the folder, in order; without folders of the skipped names."""
    start = len(str(folder)) + 1
    paths = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in skipped]
        paths += [f"{place}/{name}"[start:] for name in names]
    return sorted(paths)


def _stamps(folder: Path) -> tuple[_Stamp, ...]:
    return tuple(_stamp(f"{folder}/{name}", name) for name in files_below(folder))


def _stamp(path: str, name: str) -> _Stamp:
    about = os.stat(path)  # noqa: PTH116 - strings, because this runs for every command
    return (
        name,
        about.st_dev,
        about.st_ino,
        about.st_size,
        about.st_mode,
        about.st_mtime_ns,
        about.st_ctime_ns,
    )
