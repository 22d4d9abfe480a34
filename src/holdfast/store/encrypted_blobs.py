"""A blob store whose every thing is encrypted: under the store's key, as the thing that its name says."""

from __future__ import annotations

import json
from collections.abc import Callable

from holdfast.kernel.errors import UnknownOutcome
from holdfast.kernel.values import dataclass, field
from holdfast.secrets.encryption import Damaged, WrongKey, decrypt, encrypt, key_id_of
from holdfast.secrets.keys import Key
from holdfast.store.blobs import BlobStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    data: bytes = field(repr=False)
    tag: str

    def document(self) -> dict[str, object]:
        found: object = json.loads(self.data)
        if not isinstance(found, dict):
            raise UnknownOutcome("HF-STORE-2", "the run store holds something that is not a record")
        return found


class EncryptedBlobs:
    """Reading what another key encrypted, or what was changed, is an error; it is never taken for absent."""

    def __init__(self, blobs: BlobStore, key: Callable[[], Key]) -> None:
        self.blobs = blobs
        self._key = key

    def read(self, name: str) -> Opened | None:
        item = self.blobs.read(name)
        if item is None:
            return None
        return Opened(data=self._opened(name, item.data), tag=item.tag)

    def create(self, name: str, data: bytes) -> bool:
        return self.blobs.create(name, self._encrypted(name, data))

    def replace(self, name: str, data: bytes, *, tag: str) -> str | None:
        return self.blobs.replace(name, self._encrypted(name, data), tag=tag)

    def write(self, name: str, data: bytes, *, durable: bool = True) -> None:
        self.blobs.write(name, self._encrypted(name, data), durable=durable)

    def remove(self, name: str, *, tag: str | None = None) -> bool:
        return self.blobs.remove(name, tag=tag)

    def names(self, folder: str) -> tuple[str, ...]:
        return self.blobs.names(folder)

    def _opened(self, name: str, data: bytes) -> bytes:
        key, what = self._key(), f"{name} in the run store {self.blobs.shown}"
        try:
            return decrypt(key, data, context=_context(name))
        except WrongKey:
            raise WrongKey(
                "HF-KEY-7",
                f"{what} was encrypted with the key {key_id_of(data)}, and the key at hand is {key.id}",
                hint="Set HOLDFAST_KEY to that key, or restore its key file from the backup.",
            ) from None
        except Damaged:
            raise UnknownOutcome(
                "HF-STORE-2",
                f"{what} was changed, cut short or put in the place of something else",
                hint="Restore it from a backup. Nothing is run while the record is unreadable.",
            ) from None

    def _encrypted(self, name: str, data: bytes) -> bytes:
        return encrypt(self._key(), data, context=_context(name))


def _context(name: str) -> str:
    return f"store\0{name}"


def packed(document: dict[str, object]) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
