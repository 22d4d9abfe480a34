"""Hashes of folders, computed again only where a file may have changed.

A record beside a folder lists what changes with every write: device, inode, size, mode and times of each
file. No program can set the time of the last change (ctime), so a file that was swapped and given its old
times is read again. A record counts only with the right HMAC: other files cannot be recorded
as verified without Holdfast's key. What init left in a work directory is recorded in the same way.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from holdfast.system import clock, files

_SETTLED = 0.1
"""Seconds. A file that changed later than this before it was read could change again at the same ctime."""

_Stamp = tuple[str, int, int, int, int, int, int]


class _Record(Struct, frozen=True, kw_only=True):
    hash: str
    files: tuple[_Stamp, ...]


class FolderHashes:
    """`key` authenticates the records. Without one, they are remembered for the life of this object."""

    def __init__(self, key: bytes | None = None, *, load: Callable[[], bytes | None] | None = None) -> None:
        """`load` is asked for the key until there is one: a first command creates it while it runs."""
        self._loaded = key
        self._load = load
        self._known: dict[Path, _Record] = {}
        self._documents: dict[Path, dict[str, Any]] = {}

    @property
    def _key(self) -> bytes | None:
        if self._loaded is None and self._load is not None:
            self._loaded = self._load()
        return self._loaded

    def read_document(self, file: Path) -> dict[str, Any] | None:
        """What `write_document` wrote there, with this key; nothing else."""
        if self._key is None:
            return self._documents.get(file)
        try:
            record = json.loads(file.read_bytes())
            document: dict[str, Any] = record["document"]
            authentic = hmac.compare_digest(record["mac"], self._document_mac(file, document))
        except (OSError, ValueError, LookupError, TypeError):
            return self._documents.get(file)
        return document if authentic else None

    def write_document(self, file: Path, document: dict[str, Any]) -> None:
        if self._key is None:
            self._documents[file] = document
            return
        record = {"document": document, "mac": self._document_mac(file, document)}
        files.write(file, json.dumps(record), durable=False)

    def _document_mac(self, file: Path, document: dict[str, Any]) -> str:
        text = json.dumps(["document", str(file), document], sort_keys=True)
        return hmac.new(self._key or b"", text.encode(errors="surrogateescape"), "sha256").hexdigest()

    def hash_of(self, folder: Path, record: Path | None = None, *, skipped: tuple[str, ...] = ()) -> str:
        """The `h1:` hash of the folder, without folders of the skipped names.

        Raises OSError if it has no files or one cannot be read.
        """
        stamps = _stamps(folder, skipped)
        if not stamps:
            raise FileNotFoundError(folder)
        known = self._known.get(folder) or self._read(folder, record)
        if known is not None and known.files == stamps:
            self._known[folder] = known
            return known.hash
        before = clock.now().timestamp()
        current = _Record(hash=package_hash(folder, skipped=skipped), files=stamps)
        settled = before - max(stamp[-1] for stamp in stamps) / 1e9 > _SETTLED
        if settled and _stamps(folder, skipped) == stamps:
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


def package_hash(folder: Path, *, skipped: tuple[str, ...] = ()) -> str:
    """The `h1:` hash of lock files: over the name and SHA-256 of every file, in order of name."""
    lines = [f"{_digest(f'{folder}/{name}')}  {name}\n" for name in files_below(folder, skipped=skipped)]
    text = "".join(lines).encode(errors="surrogateescape")
    return "h1:" + base64.b64encode(hashlib.sha256(text).digest()).decode()


def files_below(folder: Path, *, skipped: tuple[str, ...] = ()) -> list[str]:
    """The paths of all files and of links to folders, relative to the folder, in order."""
    start = len(str(folder)) + 1
    paths = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in skipped]
        links = [name for name in folders if os.path.islink(f"{place}/{name}")]  # noqa: PTH114 - as below
        paths += [f"{place}/{name}"[start:] for name in (*names, *links)]
    return sorted(paths)


def _digest(path: str) -> str:
    """Of the content; of a link to a folder or to nothing, of where it leads."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - as below
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (FileNotFoundError, IsADirectoryError):
        target = os.readlink(path)  # noqa: PTH115 - as below
        return hashlib.sha256(f"-> {target}".encode(errors="surrogateescape")).hexdigest()


def _stamps(folder: Path, skipped: tuple[str, ...]) -> tuple[_Stamp, ...]:
    return tuple(_stamp(f"{folder}/{name}", name) for name in files_below(folder, skipped=skipped))


def _stamp(path: str, name: str) -> _Stamp:
    try:
        about = os.stat(path)  # noqa: PTH116 - strings, because this runs for every command
    except FileNotFoundError:
        about = os.lstat(path)
    if stat.S_ISDIR(about.st_mode):
        about = os.lstat(path)
    return (
        name,
        about.st_dev,
        about.st_ino,
        about.st_size,
        about.st_mode,
        about.st_mtime_ns,
        about.st_ctime_ns,
    )
