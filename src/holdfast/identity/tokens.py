"""Tokens of the server: how they look, what is stored of them, and how they are compared. Pure.

    hf_ID_SECRET    ID: 16 letters and digits, not secret; SECRET: 32 random bytes in base64url

Only a SHA-256 of the secret is stored: it is random and long, so it needs no slow hash. The prefix makes a
leaked token recognisable to secret scanners, including Holdfast's own.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from typing import Final, NamedTuple

from holdfast.kernel.secret import masked_repr
from holdfast.system import clock

PREFIX: Final = "hf_"
_FORMAT: Final = re.compile(r"hf_(?P<id>[a-z2-7]{16})_(?P<secret>[A-Za-z0-9_-]{43})")
_ID_BYTES: Final = 10
_SECRET_BYTES: Final = 32
_NEVER: Final = bytes(32)
"""Compared with where there is no such token, so that the time says nothing."""


class NewToken(NamedTuple):
    id: str
    text: str
    """Shown once."""
    digest: bytes
    """Stored."""

    def __repr__(self) -> str:
        return masked_repr(self)


class GivenToken(NamedTuple):
    id: str
    digest: bytes

    def matches(self, stored: bytes | None) -> bool:
        """In constant time; None: there is no token with this id."""
        same = hmac.compare_digest(self.digest, stored if stored is not None else _NEVER)
        return same and stored is not None


def new_token() -> NewToken:
    id_ = base64.b32encode(clock.random_bytes(_ID_BYTES)).decode().lower()
    secret = base64.urlsafe_b64encode(clock.random_bytes(_SECRET_BYTES)).decode().rstrip("=")
    return NewToken(id=id_, text=f"{PREFIX}{id_}_{secret}", digest=_digest(secret))


def read_token(text: str) -> NewToken | None:
    """A token that was created before, from its text."""
    given = parse_token(text)
    return None if given is None else NewToken(id=given.id, text=text, digest=given.digest)


def parse_token(text: str) -> GivenToken | None:
    """None: it cannot be a token of ours."""
    match = _FORMAT.fullmatch(text)
    return None if match is None else GivenToken(id=match["id"], digest=_digest(match["secret"]))


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
