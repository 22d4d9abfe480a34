"""The places of a run store: a folder (`.holdfast/`, ignored by Git, only for its owner), S3, or a server.

It is opened by its name in the configuration, or in another process by its description.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.kernel.errors import UnknownOutcome, UsageError
from holdfast.store.blobs import BlobStore, StoredBlob, unreadable
from holdfast.system import files
from holdfast.system.environment import Environment
from holdfast.terraform.engine.environment import ALWAYS, ALWAYS_PREFIXES

if TYPE_CHECKING:
    from holdfast.store.s3_blobs import S3Blobs

_IGNORE = "# The Holdfast run store: states, journals, approvals. Do not commit it.\n*\n"


class FolderBlobs:
    """The folder is created with the first write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shown = str(folder)

    def path(self, name: str) -> Path:
        return self.folder / name

    def read(self, name: str) -> StoredBlob | None:
        try:
            with open(f"{self.folder}/{name}", "rb", buffering=0) as file:  # noqa: PTH123 - called very often
                data = file.readall()
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
        start = f"{self.folder}/"
        try:
            for parent, folders, names in os.walk(self.path(folder), onerror=_raise):
                folders[:] = [name for name in folders if not name.startswith(".")]
                below = f"{parent}/".removeprefix(start)
                result += [f"{below}{name}" for name in names if not name.startswith(".")]
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


def open_blobs(name: str, root: Path, variables: Mapping[str, str]) -> BlobStore:
    """`variables` are the caller's; only S3 and a server need them."""
    if name.startswith("s3://"):
        return _s3().open(name, s3_variables(variables))
    if name.startswith(("https://", "http://")):
        from holdfast.store.server_blobs import ServerBlobs  # noqa: PLC0415 - few stores are a server

        return ServerBlobs.open(name, Environment(variables=variables))
    if "://" in name:
        raise UsageError(
            "HF-STORE-1",
            f"the run store {name.partition('://')[0]}://… is not a folder, in S3 or a server",
            hint="Set `store: .holdfast`, another folder, s3://bucket/prefix, or https://HOST of a server.",
        )
    return FolderBlobs((root / name).absolute())


def is_on_server(blobs: BlobStore) -> bool:
    return getattr(blobs, "on_server", False) is True


def folders_of(blobs: BlobStore) -> tuple[Path, ...]:
    """The local folders that the store writes to."""
    return (blobs.folder,) if isinstance(blobs, FolderBlobs) else ()


def describe(blobs: BlobStore) -> dict[str, object]:
    """For `from_description` in another process, as JSON. It may contain credentials."""
    if isinstance(blobs, FolderBlobs):
        return {"kind": "folder", "folder": str(blobs.folder)}
    description: dict[str, object] = blobs.description()  # type: ignore[attr-defined]
    return description


def from_description(description: Mapping[str, object]) -> BlobStore:
    match description:
        case {"kind": "folder", "folder": str(folder)}:
            return FolderBlobs(Path(folder))
        case {"kind": "s3", "address": str(address), "variables": dict(variables)}:
            known = description.get("known")
            return _s3().open(address, variables, known=known if isinstance(known, dict) else None)
        case {"kind": "server"}:
            from holdfast.store.server_blobs import ServerBlobs  # noqa: PLC0415 - as above

            return ServerBlobs.from_description(description)
        case _:
            raise UsageError("HF-STORE-1", f"unknown kind of run store: {description.get('kind')}")


def s3_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """AWS's own variables, and those that every program gets."""
    return {
        name: value
        for name, value in variables.items()
        if value and (name in ALWAYS or name.startswith(("AWS_", *ALWAYS_PREFIXES)))
    }


def _s3() -> type[S3Blobs]:
    try:
        from holdfast.store.s3_blobs import S3Blobs  # noqa: PLC0415 - an extra, and slow to import
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("boto"):
            raise
        raise UsageError(
            "HF-STORE-4",
            "the run store is in S3, and the Python package boto3 is not installed",
            hint="Install Holdfast with its AWS extra: pip install 'holdfast[aws]'.",
        ) from None
    return S3Blobs
