"""Encryption of everything that Holdfast stores: AES-256-GCM in chunks.

    magic (6) · version (1) · key id (8) · salt (16) · nonce prefix (7) · chunks of up to 1 MiB + tag (16)

Every message has its own key, derived from the key and the salt. The nonce of a chunk is the prefix, its
number and whether it is the last one (the STREAM construction). Each chunk authenticates the header and the
context, which says what the message is: no chunk can be changed, moved, left out or used as something else.
"""

from __future__ import annotations

from collections.abc import Iterator

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from holdfast.kernel.errors import Failed, UsageError
from holdfast.secrets.keys import Key, derive
from holdfast.system import clock

MAGIC = b"HFSEAL"
_VERSION = 1
_KEY_ID_SIZE = 8
_SALT_SIZE = 16
_PREFIX_SIZE = 7
_TAG_SIZE = 16
_HEADER_SIZE = len(MAGIC) + 1 + _KEY_ID_SIZE + _SALT_SIZE + _PREFIX_SIZE
_CHUNK = 1024 * 1024


class WrongKey(UsageError):  # noqa: N818 - it reads better without a suffix
    """Encrypted with another key. An error, never "absent"."""


class Damaged(Failed):
    """Changed, truncated, in the place of something else, or not encrypted by Holdfast."""


def encrypt(key: Key, data: bytes, *, context: str) -> bytes:
    """Twice the same input gives different bytes. `context` says what the data is."""
    salt, prefix = clock.random_bytes(_SALT_SIZE), clock.random_bytes(_PREFIX_SIZE)
    header = MAGIC + bytes([_VERSION]) + bytes.fromhex(key.id) + salt + prefix
    cipher = _cipher(key, salt)
    associated = header + context.encode()
    chunks = (
        cipher.encrypt(nonce, bytes(chunk), associated) for nonce, chunk in _chunks(prefix, data, size=_CHUNK)
    )
    return b"".join((header, *chunks))


def decrypt(key: Key, encrypted: bytes, *, context: str) -> bytes:
    """All of the data or an error, never a part of it."""
    header, body = encrypted[:_HEADER_SIZE], memoryview(encrypted)[_HEADER_SIZE:]
    key_id = key_id_of(encrypted)
    if key_id != key.id:
        raise wrong_key(context, key_id, key)
    prefix = header[-_PREFIX_SIZE:]
    cipher = _cipher(key, header[-_PREFIX_SIZE - _SALT_SIZE : -_PREFIX_SIZE])
    associated = header + context.encode()
    try:
        return b"".join(
            cipher.decrypt(nonce, bytes(chunk), associated)
            for nonce, chunk in _chunks(prefix, body, size=_CHUNK + _TAG_SIZE)
        )
    except InvalidTag:
        raise _damaged(context, "it was changed, truncated or replaced by something else") from None


def key_id_of(encrypted: bytes) -> str:
    """The id of the key that decrypts it: not encrypted itself, and authentic only after decryption."""
    if not encrypted.startswith(MAGIC) or len(encrypted) < _HEADER_SIZE + _TAG_SIZE:
        raise _damaged("this", "Holdfast did not encrypt it, or most of it is missing")
    if encrypted[len(MAGIC)] != _VERSION:
        raise _damaged("this", "a newer version of Holdfast encrypted it")
    return encrypted[len(MAGIC) + 1 :][:_KEY_ID_SIZE].hex()


def wrong_key(what: str, key_id: str, key: Key) -> WrongKey:
    return WrongKey(
        "HF-KEY-7",
        f"{what} was encrypted with key {key_id}, but the current key is {key.id}",
        hint="Set HOLDFAST_KEY to that key, or restore its key file from your backup.",
    )


def _damaged(context: str, reason: str) -> Damaged:
    return Damaged(
        "HF-KEY-6",
        f"cannot decrypt {context}: {reason}",
        hint="Restore it from a backup, or create it again.",
    )


def _cipher(key: Key, salt: bytes) -> AESGCM:
    return AESGCM(derive(key.secret, purpose=b"seal", salt=salt))


def _chunks(prefix: bytes, data: bytes | memoryview, *, size: int) -> Iterator[tuple[bytes, memoryview]]:
    """Each chunk with its nonce. There is always a last one, even if it is empty."""
    view = memoryview(data)
    total = max(1, -(-len(view) // size))
    for number in range(total):
        last = number == total - 1
        nonce = prefix + number.to_bytes(4, "big") + bytes([last])
        yield nonce, view[number * size : (number + 1) * size]
