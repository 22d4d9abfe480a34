"""Encryption of everything that Holdfast stores: AES-256-GCM in chunks.

    magic (6) · version (1) · key id (8) · salt (16) · nonce prefix (7) · chunks of up to 1 MiB + tag (16)

Every message has its own key, derived from a key and the salt. The nonce of a chunk is the prefix, its
number and whether it is the last one (the STREAM construction). Each chunk authenticates the header and the
context, which says what the message is: no chunk can be changed, moved, left out or used as something else.

A sealed message starts with a fresh X25519 public key (32): the public half of the pair is enough to write
it, and only the private half opens it. Its key is derived from the context too: a server that gives it away
for one context opens nothing else with that.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from holdfast.kernel.errors import Failed, UsageError
from holdfast.secrets.keys import KEY_SIZE, CipherKey, Key, derive
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


def encrypt(key: CipherKey, data: bytes, *, context: str) -> bytes:
    """Twice the same input gives different bytes. `context` says what the data is."""
    salt, prefix = clock.random_bytes(_SALT_SIZE), clock.random_bytes(_PREFIX_SIZE)
    header = MAGIC + bytes([_VERSION]) + bytes.fromhex(key.id) + salt + prefix
    cipher = _cipher(key, salt)
    associated = header + context.encode()
    chunks = (
        cipher.encrypt(nonce, bytes(chunk), associated) for nonce, chunk in _chunks(prefix, data, size=_CHUNK)
    )
    return b"".join((header, *chunks))


def decrypt(key: CipherKey, encrypted: bytes, *, context: str) -> bytes:
    """All of the data or an error, never a part of it."""
    header, body = encrypted[:_HEADER_SIZE], memoryview(encrypted)[_HEADER_SIZE:]
    key_id = key_id_of(encrypted)
    if key_id != key.id:
        raise wrong_key(context, key_id, key.id)
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


def seal(key: Key, data: bytes, *, context: str) -> bytes:
    """Encrypt for the apply key. The plan key can do this, and cannot undo it."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import (  # noqa: PLC0415 - only for bundles
        X25519PrivateKey,
        X25519PublicKey,
    )

    fresh = X25519PrivateKey.from_private_bytes(clock.random_bytes(KEY_SIZE))
    public = fresh.public_key().public_bytes_raw()
    shared = fresh.exchange(X25519PublicKey.from_public_bytes(key.public.seal))
    return public + encrypt(_sealing_key(key, shared, public, context), data, context=context)


def unseal(key: Key, sealed: bytes, *, context: str) -> bytes:
    """All of the data or an error. Only the apply key can do this."""
    if (key_id := sealed_key_id(sealed)) != key.id:
        raise wrong_key(context, key_id, key.id)
    public, opening_key = sealed[:KEY_SIZE], key.ask_server or functools.partial(sealed_message_key, key)
    try:
        secret = opening_key(public, context)
    except ValueError:
        raise _damaged(context, "its public key is not valid") from None
    return decrypt(CipherKey(key.id, secret), sealed[KEY_SIZE:], context=context)


def sealed_message_key(key: Key, public: bytes, context: str) -> bytes:
    """Opens the sealed message that starts with `public` and has this context, and no other.

    Raises ValueError for a bad public key.
    """
    from cryptography.hazmat.primitives.asymmetric.x25519 import (  # noqa: PLC0415 - only for bundles
        X25519PrivateKey,
        X25519PublicKey,
    )

    if key.private is None:
        raise apply_key_needed("opening a bundle")
    private = X25519PrivateKey.from_private_bytes(key.private.seal)
    shared = private.exchange(X25519PublicKey.from_public_bytes(public))
    return _sealing_key(key, shared, public, context).secret


def sealed_key_id(sealed: bytes) -> str:
    return key_id_of(sealed[KEY_SIZE:])


def _sealing_key(key: Key, shared: bytes, public: bytes, context: str) -> CipherKey:
    purpose = b"sealed message " + context.encode()
    return CipherKey(key.id, derive(shared, purpose=purpose, salt=public + key.public.seal))


def apply_key_needed(what: str) -> UsageError:
    return UsageError(
        "HF-KEY-10",
        f"{what} needs the apply key; this command has only the plan key",
        hint="Set HOLDFAST_KEY or HOLDFAST_KEY_FILE; HOLDFAST_PLAN_KEY is for jobs that only plan.",
    )


def key_id_of(encrypted: bytes) -> str:
    """The id of the key that decrypts it: not encrypted itself, and authentic only after decryption."""
    if not encrypted.startswith(MAGIC) or len(encrypted) < _HEADER_SIZE + _TAG_SIZE:
        raise _damaged("this", "Holdfast did not encrypt it, or most of it is missing")
    if encrypted[len(MAGIC)] != _VERSION:
        raise _damaged("this", "a newer version of Holdfast encrypted it")
    return encrypted[len(MAGIC) + 1 :][:_KEY_ID_SIZE].hex()


def wrong_key(what: str, key_id: str, current: str) -> WrongKey:
    return WrongKey(
        "HF-KEY-7",
        f"{what} was encrypted with key {key_id}, but the current key is {current}",
        hint="Set HOLDFAST_KEY to that key, or restore its key file from your backup.",
    )


def _damaged(context: str, reason: str) -> Damaged:
    return Damaged(
        "HF-KEY-6",
        f"cannot decrypt {context}: {reason}",
        hint="Restore it from a backup, or create it again.",
    )


def _cipher(key: CipherKey, salt: bytes) -> AESGCM:
    return AESGCM(derive(key.secret, purpose=b"message", salt=salt))


def _chunks(prefix: bytes, data: bytes | memoryview, *, size: int) -> Iterator[tuple[bytes, memoryview]]:
    """Each chunk with its nonce. There is always a last one, even if it is empty."""
    view = memoryview(data)
    total = max(1, -(-len(view) // size))
    for number in range(total):
        last = number == total - 1
        nonce = prefix + number.to_bytes(4, "big") + bytes([last])
        yield nonce, view[number * size : (number + 1) * size]
