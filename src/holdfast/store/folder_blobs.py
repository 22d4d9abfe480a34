"""Blobs in a folder: `.holdfast/` at the repository root, ignored by Git, readable only by its owner."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from holdfast.kernel.errors import UnknownOutcome
from holdfast.store.blobs import Item
from holdfast.system import files

_IGNORE = "# Holdfast's own record: states, marks, journals. Not for Git.\n*\n"


class FolderBlobs:
    """Nothing is made before something has to be written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shown = str(folder)

    def path(self, name: str) -> Path:
        return self.folder / name

    def read(self, name: str) -> Item | None:
        try:
            data = self.path(name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(self.path(name), error) from None
        return Item(data=data, tag=_tag(data))

    def create(self, name: str, data: bytes) -> bool:
        return files.create(self._place(name), data)

    def replace(self, name: str, data: bytes, *, tag: str) -> str | None:
        place = self._place(name)
        with files.locked(self._lock(place)):
            now = self.read(name)
            if now is None or now.tag != tag:
                return None
            files.write(place, data)
        return _tag(data)

    def write(self, name: str, data: bytes, *, durable: bool = True) -> None:
        files.write(self._place(name), data, durable=durable)

    def remove(self, name: str, *, tag: str | None = None) -> bool:
        place = self.path(name)
        if not place.exists():
            return False
        with files.locked(self._lock(place)):
            now = self.read(name)
            if now is None or (tag is not None and now.tag != tag):
                return False
            place.unlink()
            files.flush_folder(place.parent)
        return True

    def names(self, folder: str) -> tuple[str, ...]:
        """What begins with a dot is half-written, or a lock."""
        found: list[str] = []
        try:
            for place, folders, names in os.walk(self.path(folder), onerror=_raise):
                folders[:] = [one for one in folders if not one.startswith(".")]
                below = Path(place).relative_to(self.folder).as_posix()
                found += [f"{below}/{name}" for name in names if not name.startswith(".")]
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise _unreadable(self.path(folder), error) from None
        return tuple(sorted(found))

    def prepare(self) -> None:
        files.private_folder(self.folder)
        ignore = self.folder / ".gitignore"
        if not ignore.exists():
            files.write(ignore, _IGNORE)

    def _place(self, name: str) -> Path:
        place = self.path(name)
        if not place.parent.is_dir():
            self.prepare()
            files.private_folder(place.parent)
        return place

    def _lock(self, place: Path) -> Path:
        """One lock for a folder's names: what they guard takes no time."""
        return place.parent / ".lock"


def _raise(error: OSError) -> None:
    raise error


def _tag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _unreadable(path: Path, error: OSError) -> UnknownOutcome:
    return UnknownOutcome(
        "HF-STORE-2",
        f"the run store cannot be read: {path}: {error.strerror}",
        hint="Give this user the right to read it, or restore it. Nothing is run while it is unreadable.",
    )
