"""The cipher of a run store whose id is known, for tests that write blobs and journals beside a store."""

from __future__ import annotations

import json

from holdfast.secrets.keys import Key
from holdfast.store.blob_cipher import BlobCipher
from holdfast.store.blobs import BlobStore, EncryptedBlobs
from holdfast.store.run_store import FORMAT, IDENTITY

STORE = "01STORE"
KEY = Key.of(b"k" * 32)
CIPHER = BlobCipher.of(STORE, KEY)


def encrypted_on(blobs: BlobStore, key: Key = KEY) -> EncryptedBlobs:
    return EncryptedBlobs(blobs, lambda: BlobCipher.of(STORE, key))


def identify(blobs: BlobStore, key: Key = KEY) -> None:
    """Give a new store the id that `CIPHER` has."""
    document = {"version": FORMAT, "id": STORE, "created": "2026-01-01T00:00:00+00:00", "key": key.id}
    blobs.create(IDENTITY, json.dumps(document).encode())
