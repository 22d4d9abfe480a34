"""Files that Terraform wrote beside the code of a stack, stored for its next run, wherever that is."""

from __future__ import annotations

import functools

import msgspec
from msgspec import field

from holdfast.kernel.values import MaskedStruct
from holdfast.store.blobs import EncryptedBlobs, decode_name, encode_name

_FOLDER = "files"


class KeptFiles(MaskedStruct, frozen=True, kw_only=True):
    files: dict[str, str] = field(default_factory=dict)
    """Their hashes, by their paths relative to the root."""
    archive: bytes = b""
    left_out: tuple[str, ...] = ()
    """Written, but too large to be kept."""


class KeptFileStore:
    def __init__(self, encrypted: EncryptedBlobs) -> None:
        self._encrypted = encrypted

    @functools.cached_property
    def _stacks(self) -> set[str]:
        """Listed once: few stacks have such files, and every plan asks."""
        return {decode_name(name.split("/")[1]) for name in self._encrypted.names(_FOLDER)}

    def of(self, stack: str) -> KeptFiles:
        blob = self._encrypted.read(_name(stack)) if stack in self._stacks else None
        return msgspec.msgpack.decode(blob.data, type=KeptFiles) if blob is not None else KeptFiles()

    def write(self, stack: str, kept: KeptFiles) -> None:
        if kept.files or kept.left_out:
            self._encrypted.write(_name(stack), msgspec.msgpack.encode(kept))
            self._stacks.add(stack)
        elif stack in self._stacks:
            self._encrypted.remove(_name(stack))


def _name(stack: str) -> str:
    return f"{_FOLDER}/{encode_name(stack)}/kept"
