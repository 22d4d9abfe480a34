"""A blob store that encrypts every blob with the store's key and binds it to its name."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from holdfast.kernel.errors import UnknownOutcome
from holdfast.kernel.secret import masked_repr
from holdfast.secrets.encryption import Damaged, WrongKey, decrypt, encrypt, key_id_of
from holdfast.secrets.keys import Key
from holdfast.store.blobs import BlobStore


class DecryptedBlob(NamedTuple):
    data: bytes
    tag: str

    def __repr__(self) -> str:
        return masked_repr(self)

    def document(self) -> dict[str, object]:
        document: object = json.loads(self.data)
        if not isinstance(document, dict):
            raise UnknownOutcome("HF-STORE-2", "the run store contains a blob that is not a JSON object")
        return document


class EncryptedBlobs:
    """Reading a blob that was changed or has another key is an error: it is never taken for absent."""

    def __init__(self, blobs: BlobStore, key: Callable[[], Key]) -> None:
        self.blobs = blobs
        self._key = key

    def read(self, name: str) -> DecryptedBlob | None:
        item = self.blobs.read(name)
        if item is None:
            return None
        return DecryptedBlob(data=self._decrypt(name, item.data), tag=item.tag)

    def create(self, name: str, data: bytes) -> bool:
        return self.blobs.create(name, self._encrypt(name, data))

    def replace(self, name: str, data: bytes, *, tag: str) -> str | None:
        return self.blobs.replace(name, self._encrypt(name, data), tag=tag)

    def write(self, name: str, data: bytes, *, durable: bool = True) -> None:
        self.blobs.write(name, self._encrypt(name, data), durable=durable)

    def remove(self, name: str, *, tag: str | None = None) -> bool:
        return self.blobs.remove(name, tag=tag)

    def names(self, folder: str) -> tuple[str, ...]:
        return self.blobs.names(folder)

    def _decrypt(self, name: str, data: bytes) -> bytes:
        key, what = self._key(), f"{name} in the run store {self.blobs.shown}"
        try:
            return decrypt(key, data, context=_context(name))
        except WrongKey:
            raise WrongKey(
                "HF-KEY-7",
                f"{what} was encrypted with key {key_id_of(data)}, but the current key is {key.id}",
                hint="Set HOLDFAST_KEY to that key, or restore its key file from your backup.",
            ) from None
        except Damaged:
            raise UnknownOutcome(
                "HF-STORE-2",
                f"{what} was changed, truncated or replaced by something else",
                hint="Restore it from a backup. Holdfast runs nothing until the store is readable.",
            ) from None

    def _encrypt(self, name: str, data: bytes) -> bytes:
        return encrypt(self._key(), data, context=_context(name))


def _context(name: str) -> str:
    return f"store\0{name}"


def to_json(document: dict[str, object]) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
