"""The blob store under a run store: names to bytes, in a folder or in S3, encrypted.

It guarantees that only one writer creates a name, and that a writer replaces only what it has read. A blob
that cannot be read, was changed or has another key is an error, never "absent".
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple, Protocol
from urllib.parse import quote, unquote

from holdfast.kernel.errors import UnknownOutcome
from holdfast.kernel.secret import masked_repr
from holdfast.secrets.encryption import Damaged
from holdfast.store.blob_cipher import BlobCipher

UNREADABLE = "HF-STORE-2"
LOST_LEASE = "HF-STATE-49"
"""How a server refuses a run whose stack another one has, or whose claim was released."""


class StoredBlob(NamedTuple):
    data: bytes
    tag: str
    """Changes with every write; `replace` and `remove` compare it."""
    signed: bool = False
    """By the apply key, or by a run that it granted this name; known after decryption, or to a server."""

    def __repr__(self) -> str:
        return masked_repr(self)

    def document(self) -> dict[str, object]:
        document: object = json.loads(self.data)
        if not isinstance(document, dict):
            raise UnknownOutcome(UNREADABLE, "the run store contains a blob that is not a JSON object")
        return document


class BlobStore(Protocol):
    """The parts of a name are joined by `/`, and each is safe as a file name."""

    shown: str
    """For messages: a path or an address, without secrets."""

    def read(self, name: str) -> StoredBlob | None:
        """None only if it does not exist."""
        ...

    def create(self, name: str, data: bytes) -> bool:
        """Durable, and complete before the name appears. False if the name exists."""
        ...

    def replace(self, name: str, data: bytes, *, tag: str) -> str | None:
        """The new tag, or None if the blob no longer has this tag."""
        ...

    def write(self, name: str, data: bytes, *, durable: bool = True) -> None:
        """Unconditional."""
        ...

    def remove(self, name: str, *, tag: str | None = None) -> bool:
        """False if it does not exist, or has another tag."""
        ...

    def names(self, folder: str) -> tuple[str, ...]:
        """Every full name below `folder/`, sorted; all names for an empty folder."""
        ...


class EncryptedBlobs:
    """Encrypts every blob and binds it to its store and name; what counts only if signed is signed."""

    def __init__(self, blobs: BlobStore, cipher: Callable[[], BlobCipher]) -> None:
        self.blobs = blobs
        self._cipher = cipher

    @property
    def cipher(self) -> BlobCipher:
        return self._cipher()

    def read(self, name: str) -> StoredBlob | None:
        blob = self.blobs.read(name)
        return self.decrypt(name, blob) if blob is not None else None

    def decrypt(self, name: str, blob: StoredBlob) -> StoredBlob:
        what = f"{name} in the run store {self.blobs.shown}"
        try:
            data, signed = self.cipher.decrypt(name, blob.data, what=what)
        except Damaged:
            raise unreadable(
                f"{what} was changed, truncated, replaced by something else or copied from another store"
            ) from None
        return StoredBlob(data=data, tag=blob.tag, signed=signed or blob.signed)

    def document(self, name: str) -> dict[str, object] | None:
        blob = self.read(name)
        return blob.document() if blob is not None else None

    def create(self, name: str, data: bytes) -> bool:
        return self.blobs.create(name, self.cipher.encrypt(name, data))

    def replace(self, name: str, data: bytes, *, tag: str) -> str | None:
        return self.blobs.replace(name, self.cipher.encrypt(name, data), tag=tag)

    def write(self, name: str, data: bytes, *, durable: bool = True) -> None:
        self.blobs.write(name, self.cipher.encrypt(name, data), durable=durable)

    def remove(self, name: str, *, tag: str | None = None) -> bool:
        return self.blobs.remove(name, tag=tag)

    def names(self, folder: str) -> tuple[str, ...]:
        return self.blobs.names(folder)


def to_json(document: dict[str, object]) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def unreadable(
    message: str, hint: str = "Restore it from a backup. Holdfast runs nothing until the store is readable."
) -> UnknownOutcome:
    return UnknownOutcome(UNREADABLE, message, hint=hint)


def encode_name(text: str) -> str:
    """Any text as one part of a name. It never starts with a dot: such files are partial writes."""
    quoted = quote(text, safe="")
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted


def decode_name(part: str) -> str:
    return unquote(part)
