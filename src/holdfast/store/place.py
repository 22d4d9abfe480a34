"""Where the run store is: opened by the name in the configuration, or by what another process was told."""

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
    """`variables` are those of the one who started the command; a folder needs none of them."""
    if name.startswith("s3://"):
        return _s3().open(name, wanted(variables))
    if "://" in name:
        raise UsageError(
            "HF-STORE-1",
            f"the run store {_scheme(name)} is neither a folder nor in S3",
            hint="Set `store: .holdfast`, another folder, or s3://bucket/prefix.",
        )
    return FolderBlobs((root / name).absolute())


def folders_of(blobs: BlobStore) -> tuple[Path, ...]:
    """The folders of this machine that a store writes to: they must have room."""
    return (blobs.folder,) if isinstance(blobs, FolderBlobs) else ()


def describe(blobs: BlobStore) -> dict[str, object]:
    """What `from_description` needs in another process, as JSON. It may hold credentials."""
    if isinstance(blobs, FolderBlobs):
        return {"kind": "folder", "folder": str(blobs.folder)}
    described: dict[str, object] = blobs.described()  # type: ignore[attr-defined]
    return described


def from_description(described: Mapping[str, object]) -> BlobStore:
    match described:
        case {"kind": "folder", "folder": str(folder)}:
            return FolderBlobs(Path(folder))
        case {"kind": "s3", "address": str(address), "variables": dict(variables)}:
            known = described.get("known")
            return _s3().open(address, variables, known=known if isinstance(known, dict) else None)
        case _:
            raise UsageError("HF-STORE-1", f"a run store of the kind {described.get('kind')} is not known")


def wanted(variables: Mapping[str, str]) -> dict[str, str]:
    """What S3 may need of the caller's environment: AWS's own, and what programs need to find their way."""
    return {
        name: value
        for name, value in variables.items()
        if value and (name in ALWAYS or name.startswith(("AWS_", *ALWAYS_PREFIXES)))
    }


def _s3() -> type[S3Blobs]:
    try:
        from holdfast.store.s3_blobs import S3Blobs  # noqa: PLC0415 - an extra, and slow to import: only where it is used
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("boto"):
            raise
        raise UsageError(
            "HF-STORE-4",
            "the run store is in S3, and the Python package boto3 is not installed",
            hint="Install Holdfast with its extra for AWS: pip install 'holdfast[aws]'.",
        ) from None
    return S3Blobs


def _scheme(name: str) -> str:
    """An address may hold a password: only its kind is shown."""
    return f"{name.partition('://')[0]}://…"
