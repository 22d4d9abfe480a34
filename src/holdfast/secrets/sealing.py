"""What Holdfast keeps is sealed: AES-256-GCM in pieces, so that size does not matter and no piece can be
changed, moved, left out or put into another place without being noticed.

    magic (6) · version (1) · key id (8) · salt (16) · nonce prefix (7) · pieces of up to 1 MiB + tag (16)

Each sealed thing has a key of its own, derived from the key and the salt. The nonce of a piece is the prefix,
its number and whether it is the last (the construction known as STREAM). The header and the context are
authenticated with every piece; the context says what the thing is, so that one cannot pass for another.
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
_PIECE = 1024 * 1024


class WrongKey(UsageError):  # noqa: N818 - read as what it says: it was the wrong key
    """Sealed with another key than the one at hand. An error, never "absent"."""


class Damaged(Failed):
    """Not what was sealed: changed, cut short, put elsewhere, or never sealed by Holdfast."""


def seal(key: Key, data: bytes, *, context: str) -> bytes:
    """Encrypt `data` as the thing that `context` names. Sealing twice gives different bytes."""
    salt, prefix = clock.random_bytes(_SALT_SIZE), clock.random_bytes(_PREFIX_SIZE)
    header = MAGIC + bytes([_VERSION]) + bytes.fromhex(key.id) + salt + prefix
    cipher = _cipher(key, salt)
    associated = header + context.encode()
    pieces = (
        cipher.encrypt(nonce, bytes(piece), associated) for nonce, piece in _pieces(prefix, data, size=_PIECE)
    )
    return b"".join((header, *pieces))


def open_(key: Key, sealed: bytes, *, context: str) -> bytes:
    """What was sealed with this key as this thing, to the last byte; else an error, never a part of it."""
    header, body = sealed[:_HEADER_SIZE], memoryview(sealed)[_HEADER_SIZE:]
    named = sealed_with(sealed)
    if named != key.id:
        raise WrongKey(
            "HF-KEY-7",
            f"{context} was encrypted with the key {named}, and the key at hand is {key.id}",
            hint="Set HOLDFAST_KEY to that key, or restore its key file from the backup.",
        )
    prefix = header[-_PREFIX_SIZE:]
    cipher = _cipher(key, header[-_PREFIX_SIZE - _SALT_SIZE : -_PREFIX_SIZE])
    associated = header + context.encode()
    try:
        return b"".join(
            cipher.decrypt(nonce, bytes(piece), associated)
            for nonce, piece in _pieces(prefix, body, size=_PIECE + _TAG_SIZE)
        )
    except InvalidTag:
        raise _damaged(context, "it was changed, cut short or put in the place of something else") from None


def sealed_with(sealed: bytes) -> str:
    """The id of the key that a sealed thing needs. It stands in clear, and is believed only after opening."""
    if not sealed.startswith(MAGIC) or len(sealed) < _HEADER_SIZE + _TAG_SIZE:
        raise _damaged("this", "it is not something that Holdfast encrypted, or most of it is missing")
    if sealed[len(MAGIC)] != _VERSION:
        raise _damaged("this", "it is encrypted in a way that this version of Holdfast does not know")
    return sealed[len(MAGIC) + 1 :][:_KEY_ID_SIZE].hex()


def _damaged(context: str, reason: str) -> Damaged:
    return Damaged(
        "HF-KEY-6",
        f"{context} cannot be decrypted: {reason}",
        hint="Take it from its backup, or make it anew.",
    )


def _cipher(key: Key, salt: bytes) -> AESGCM:
    return AESGCM(derive(key.secret, purpose=b"seal", salt=salt))


def _pieces(prefix: bytes, data: bytes | memoryview, *, size: int) -> Iterator[tuple[bytes, memoryview]]:
    """Each piece with its nonce. There is always a last one, be it empty."""
    view = memoryview(data)
    total = max(1, -(-len(view) // size))
    for number in range(total):
        last = number == total - 1
        nonce = prefix + number.to_bytes(4, "big") + bytes([last])
        yield nonce, view[number * size : (number + 1) * size]
