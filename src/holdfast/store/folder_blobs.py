"""Blobs in a folder: `.holdfast/` at the repository root, ignored by Git, readable only by its owner."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from holdfast.kernel.errors import UnknownOutcome
from holdfast.store.blobs import StoredBlob, unreadable
from holdfast.system import files

_IGNORE = "# The Holdfast run store: states, journals, approvals. Not for Git.\n*\n"


class FolderBlobs:
    """The folder is created with the first write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shown = str(folder)

    def path(self, name: str) -> Path:
        return self.folder / name

    def read(self, name: str) -> StoredBlob | None:
        try:
            data = self.path(name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(self.path(name), error) from None
        return StoredBlob(data=data, tag=_tag(data))

    def create(self, name: str, data: bytes) -> bool:
        return files.create(self._writable_path(name), data)

    def replace(self, name: str, data: bytes, *, tag: str) -> str | None:
        path = self._writable_path(name)
        with files.hold_lock(_lock_beside(path)):
            current = self.read(name)
            if current is None or current.tag != tag:
                return None
            files.write(path, data)
        return _tag(data)

    def write(self, name: str, data: bytes, *, durable: bool = True) -> None:
        files.write(self._writable_path(name), data, durable=durable)

    def remove(self, name: str, *, tag: str | None = None) -> bool:
        path = self.path(name)
        if not path.exists():
            return False
        with files.hold_lock(_lock_beside(path)):
            current = self.read(name)
            if current is None or (tag is not None and current.tag != tag):
                return False
            path.unlink()
            files.flush_folder(path.parent)
        return True

    def names(self, folder: str) -> tuple[str, ...]:
        """Files that start with a dot are partial writes or locks."""
        result: list[str] = []
        try:
            for parent, folders, names in os.walk(self.path(folder), onerror=_raise):
                folders[:] = [name for name in folders if not name.startswith(".")]
                below = Path(parent).relative_to(self.folder).as_posix()
                result += [f"{below}/{name}" for name in names if not name.startswith(".")]
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise _unreadable(self.path(folder), error) from None
        return tuple(sorted(result))

    def _writable_path(self, name: str) -> Path:
        path = self.path(name)
        if not path.parent.is_dir():
            files.private_folder(self.folder)
            ignore = self.folder / ".gitignore"
            if not ignore.exists():
                files.write(ignore, _IGNORE)
            files.private_folder(path.parent)
        return path


def _lock_beside(path: Path) -> Path:
    """One lock per folder is enough: it is held only for moments."""
    return path.parent / ".lock"


def _raise(error: OSError) -> None:
    raise error


def _tag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _unreadable(path: Path, error: OSError) -> UnknownOutcome:
    hint = "Allow this user to read it, or restore it. Holdfast runs nothing until it is readable."
    return unreadable(f"cannot read the run store: {path}: {error.strerror}", hint)
