"""Opens the run store by its name in the configuration, or in another process by its description."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.kernel.errors import UsageError
from holdfast.store.blobs import BlobStore
from holdfast.store.folder_blobs import FolderBlobs
from holdfast.terraform.engine.environment import ALWAYS, ALWAYS_PREFIXES

if TYPE_CHECKING:
    from holdfast.store.s3_blobs import S3Blobs


def open_blobs(name: str, root: Path, variables: Mapping[str, str]) -> BlobStore:
    """`variables` are the caller's; only S3 needs them."""
    if name.startswith("s3://"):
        return _s3().open(name, s3_variables(variables))
    if "://" in name:
        raise UsageError(
            "HF-STORE-1",
            f"the run store {name.partition('://')[0]}://… is neither a folder nor in S3",
            hint="Set `store: .holdfast`, another folder, or s3://bucket/prefix.",
        )
    return FolderBlobs((root / name).absolute())


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
