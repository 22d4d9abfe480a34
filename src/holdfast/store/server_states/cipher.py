"""Encrypts the versions of states on the server: compressed first, and bound to tenant, state and version."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.secrets.encryption import decrypt, encrypt, key_id_of, wrong_key
from holdfast.secrets.keys import CipherKey, Key

_FAST = 1


class VersionPlace(NamedTuple):
    """Which version it is; its content is bound to it."""

    tenant: str
    state: str
    number: int

    @property
    def context(self) -> str:
        return f"state\0{self.tenant}\0{self.state}\0{self.number}"


class StateCipher:
    def __init__(self, keys: Sequence[Key]) -> None:
        """The first key encrypts; the others are older ones."""
        self._keys = {key.id: key for key in reversed(keys)}
        self._newest = keys[0]

    @property
    def key_id(self) -> str:
        """Of the key that encrypts."""
        return self._newest.id

    @staticmethod
    def compress(content: bytes) -> bytes:
        """Apart from `encrypt`, so that no transaction waits for it."""
        return zlib.compress(content, _FAST)

    def encrypt(self, place: VersionPlace, compressed: bytes) -> bytes:
        return encrypt(_key(self._newest, place), compressed, context=place.context)

    def decrypt(self, place: VersionPlace, data: bytes) -> bytes:
        """The content. What was changed, moved or encrypted with another key is an error."""
        return zlib.decompress(self._compressed(place, data))

    def renew(self, place: VersionPlace, data: bytes) -> bytes:
        """The same content, encrypted with the newest key."""
        return self.encrypt(place, self._compressed(place, data))

    def _compressed(self, place: VersionPlace, data: bytes) -> bytes:
        key = self._keys.get(key_id := key_id_of(data))
        if key is None:
            raise wrong_key(f"version {place.number} of a state", key_id, self._newest.id)
        return decrypt(_key(key, place), data, context=place.context)


def _key(key: Key, place: VersionPlace) -> CipherKey:
    return key.scope_key(f"state-versions/{place.state}")
