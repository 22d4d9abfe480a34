"""Signatures (Ed25519): what the apply key wrote, or what a run wrote for which the apply key vouches.

A signature is kept in front of the data it covers, inside the encryption:

    0 · data                                                              not signed
    1 · signature (64) · data                                             signed by the apply key
    2 · public key (32) · size (2) · scopes · signature of these (64) · signature (64) · data    a grant

The process that hosts Terraform gets a key of its own with a grant, which counts only for names in its
scopes, so that it never has the apply key.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from holdfast.kernel.secret import masked_repr
from holdfast.secrets.keys import KEY_SIZE
from holdfast.system import clock

SIGNATURE_SIZE = 64
_UNSIGNED, _DIRECT, _GRANTED = b"\0", b"\1", b"\2"
_BLOB = b"holdfast blob"
_GRANT = b"holdfast grant"
_LENGTH = 2


class BadSignature(Exception):  # noqa: N818 - it reads better without a suffix
    """The data was not written by the apply key, nor for it."""


class Grant(NamedTuple):
    """A signing key for some scopes, and the proof that the apply key granted it."""

    secret: bytes
    proof: bytes

    def __repr__(self) -> str:
        return masked_repr(self)


class Signer:
    """Signs with the apply key, or with the key of a grant for the names in its scopes."""

    def __init__(self, store: str, secret: bytes, *, proof: bytes = b"") -> None:
        self._store = store
        self._key = Ed25519PrivateKey.from_private_bytes(secret)
        self.proof = proof
        """Of the grant; empty for the apply key."""
        self._scopes = _scopes(proof) if proof else None

    def may_sign(self, name: str) -> bool:
        return self._scopes is None or _covers(self._scopes, name)

    def sign(self, name: str, data: bytes) -> bytes:
        """The data with its signature in front."""
        kind = _GRANTED if self.proof else _DIRECT
        return b"".join((kind, self.proof, self.signature(name, data), data))

    def signature(self, name: str, data: bytes) -> bytes:
        return self._key.sign(_message(self._store, name, data))

    def grant(self, *scopes: str) -> Grant:
        if self.proof:
            raise ValueError("a grant cannot be passed on")
        secret = clock.random_bytes(KEY_SIZE)
        public = public_half(secret)
        listed = "\n".join(scopes).encode()
        body = public + len(listed).to_bytes(_LENGTH, "big") + listed
        return Grant(secret=secret, proof=body + self._key.sign(_grant_message(self._store, body)))


class Verifier:
    def __init__(self, store: str, public: bytes) -> None:
        self._store = store
        self._public = Ed25519PublicKey.from_public_bytes(public)

    def open(self, name: str, content: bytes) -> tuple[bytes, bool]:
        """The data, and whether it is signed. Raises `BadSignature` if it has one that is not valid."""
        kind, rest = content[:1], memoryview(content)[1:]
        if kind == _UNSIGNED:
            return bytes(rest), False
        if kind not in {_DIRECT, _GRANTED}:
            raise BadSignature
        proof_size = _proof_size(rest) if kind == _GRANTED else 0
        proof, rest = bytes(rest[:proof_size]), rest[proof_size:]
        data = bytes(rest[SIGNATURE_SIZE:])
        self.verify(name, data, proof=proof, signature=bytes(rest[:SIGNATURE_SIZE]))
        return data, True

    def verify(self, name: str, data: bytes, *, proof: bytes, signature: bytes) -> None:
        """Raises `BadSignature`. An empty proof stands for the apply key."""
        try:
            public = self._granted(name, proof) if proof else self._public
            public.verify(signature, _message(self._store, name, data))
        except (InvalidSignature, ValueError):
            raise BadSignature from None

    def _granted(self, name: str, proof: bytes) -> Ed25519PublicKey:
        body, signature = proof[:-SIGNATURE_SIZE], proof[-SIGNATURE_SIZE:]
        self._public.verify(signature, _grant_message(self._store, body))
        if not _covers(_scopes(proof), name):
            raise BadSignature
        return Ed25519PublicKey.from_public_bytes(body[:KEY_SIZE])


def public_half(secret: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def unsigned(data: bytes) -> bytes:
    return _UNSIGNED + data


def _proof_size(content: bytes | memoryview) -> int:
    listed = int.from_bytes(content[KEY_SIZE : KEY_SIZE + _LENGTH], "big")
    return KEY_SIZE + _LENGTH + listed + SIGNATURE_SIZE


def _scopes(proof: bytes) -> tuple[str, ...]:
    return tuple(proof[KEY_SIZE + _LENGTH : -SIGNATURE_SIZE].decode().split("\n"))


def _covers(scopes: tuple[str, ...], name: str) -> bool:
    return any(name.startswith(f"{scope}/") for scope in scopes)


def _grant_message(store: str, body: bytes) -> bytes:
    return b"\0".join((_GRANT, store.encode(), body))


def _message(store: str, name: str, data: bytes) -> bytes:
    return b"\0".join((_BLOB, store.encode(), name.encode(), hashlib.sha256(data).digest()))
