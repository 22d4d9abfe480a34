"""Encrypts the versions of states on the server: compressed first, and bound to tenant, state and version."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from holdfast.secrets.encryption import decrypt, encrypt, key_id_of, wrong_key
from holdfast.secrets.keys import Key

_FAST = 1


class StateCipher:
    def __init__(self, keys: Sequence[Key]) -> None:
        """The first key encrypts; the others are older ones."""
        self._keys = {key.id: key for key in reversed(keys)}
        self._newest = keys[0]

    @staticmethod
    def compress(content: bytes) -> bytes:
        """Apart from `encrypt`, so that no transaction waits for it."""
        return zlib.compress(content, _FAST)

    def encrypt(self, place: tuple[str, str, int], compressed: bytes) -> bytes:
        """`place`: tenant, state and version."""
        return encrypt(self._newest.scope_key(_scope(place)), compressed, context=_context(place))

    def decrypt(self, place: tuple[str, str, int], data: bytes) -> bytes:
        """The content. What was changed, moved or encrypted with another key is an error."""
        key = self._keys.get(key_id := key_id_of(data))
        if key is None:
            raise wrong_key(f"version {place[2]} of a state", key_id, self._newest.id)
        return zlib.decompress(decrypt(key.scope_key(_scope(place)), data, context=_context(place)))


def _scope(place: tuple[str, str, int]) -> str:
    return f"state-versions/{place[1]}"


def _context(place: tuple[str, str, int]) -> str:
    tenant, state, version = place
    return f"state\0{tenant}\0{state}\0{version}"
