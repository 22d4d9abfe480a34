"""Proof of who acts: a token that GitHub signed for this very job, checked against GitHub's own keys.

A job with `permissions: id-token: write` can ask for one. What the token says replaces what the variables of
the job say, which the job itself could have set. Whatever is missing or wrong leaves the claims unproved,
with the reason; nothing here fails a run.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast.audit.actor import CLAIMS, GITHUB_ACTIONS, Who
from holdfast.system import clock
from holdfast.system.environment import Environment

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

GITHUB: Final = "https://token.actions.githubusercontent.com"
AUDIENCE: Final = "holdfast"
_ALGORITHM: Final = "RS256"
_SKEW: Final = 60.0
_SECONDS: Final = 10.0
_LEAST_BITS: Final = 2048
_PARTS: Final = 3
_OK: Final = 200


class Unproved(Struct, frozen=True, kw_only=True):
    why: str


Claims = Mapping[str, object]


def proved(who: Who, environment: Environment, *, issuer: str = GITHUB) -> Who:
    """The same one with what a token proves, or with the reason why nothing does. Asks the network twice."""
    if who.kind != GITHUB_ACTIONS:
        return who
    found = _asked(environment, issuer)
    return with_claims(who, found, issuer=issuer)


def with_claims(who: Who, found: Claims | Unproved, *, issuer: str) -> Who:
    """Only what was signed counts as a claim then: what the variables said besides is not mixed in. Pure."""
    if isinstance(found, Unproved):
        return Who(
            kind=who.kind,
            name=who.name,
            host=who.host,
            proved=False,
            because=f"the variables of the job say so; {found.why}",
            claims=who.claims,
        )
    signed = {name: str(found[name]) for name in (*CLAIMS, "sub", "environment") if found.get(name)}
    return Who(
        kind=who.kind,
        name=signed.get("actor") or who.name,
        host=who.host,
        proved="actor" in signed,
        because=f"a token of {issuer} says so" if "actor" in signed else "the token names no actor",
        claims=signed,
    )


def checked(token: str, keys: bytes, *, issuer: str, audience: str, now: datetime) -> Claims | Unproved:
    """What a token says, if one of these keys (a JWK set) signed it, for us, and for now. Pure."""
    parts = token.split(".")
    header, claims = (_part(parts[0]), _part(parts[1])) if len(parts) == _PARTS else (None, None)
    if header is None or claims is None:
        return Unproved(why="the token cannot be read")
    if header.get("alg") != _ALGORITHM:
        return Unproved(why=f"the token is signed in a way that is not taken: {header.get('alg')}")
    key = _key(keys, header.get("kid"))
    if key is None:
        return Unproved(why="the token is signed with a key that its issuer does not have")
    if not _signed(key, f"{parts[0]}.{parts[1]}".encode(), _decoded(parts[2])):
        return Unproved(why="the signature of the token is wrong")
    return _meant(claims, issuer=issuer, audience=audience, at=now.timestamp())


def _meant(claims: Claims, *, issuer: str, audience: str, at: float) -> Claims | Unproved:
    said = claims.get("aud")
    if claims.get("iss") != issuer:
        return Unproved(why="another issuer made the token")
    if audience not in (said if isinstance(said, list) else [said]):
        return Unproved(why="the token is meant for somebody else")
    if not at < _number(claims.get("exp"), 0.0) + _SKEW:
        return Unproved(why="the token has expired")
    if at < _number(claims.get("nbf"), 0.0) - _SKEW:
        return Unproved(why="the token does not count yet")
    return claims


def _asked(environment: Environment, issuer: str) -> Claims | Unproved:
    from holdfast.system.http import HttpError  # noqa: PLC0415 - only in a job that can prove who it is

    url = environment.get("ACTIONS_ID_TOKEN_REQUEST_URL")
    secret = environment.get("ACTIONS_ID_TOKEN_REQUEST_TOKEN")
    if url is None or secret is None:
        return Unproved(why="the job may not ask for a token (permissions: id-token: write)")
    try:
        joined = f"{url}{'&' if '?' in url else '?'}audience={AUDIENCE}"
        token = _document(_got(joined, environment, {"Authorization": f"bearer {secret}"})).get("value")
        keys = _got(f"{issuer}/.well-known/jwks", environment, {})
    except (HttpError, ValueError) as error:
        return Unproved(why=f"no token could be had: {error}")
    if not isinstance(token, str):
        return Unproved(why="no token could be had: the answer holds none")
    return checked(token, keys, issuer=issuer, audience=AUDIENCE, now=clock.now())


def _got(url: str, environment: Environment, headers: Mapping[str, str]) -> bytes:
    from holdfast.system import http  # noqa: PLC0415

    answer = http.request("GET", url, environment=environment, headers=headers, seconds=_SECONDS)
    if answer.status != _OK:
        raise ValueError(f"the answer is {answer.status}")
    return answer.body


def _key(keys: bytes, wanted: object) -> RSAPublicKey | None:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers  # noqa: PLC0415

    listed = _document(keys).get("keys")
    for one in listed if isinstance(listed, list) else ():
        if not isinstance(one, dict) or one.get("kid") != wanted or one.get("kty") != "RSA":
            continue
        try:
            numbers = [int.from_bytes(_decoded(str(one.get(name)))) for name in ("e", "n")]
            key = RSAPublicNumbers(*numbers).public_key()
        except ValueError:
            return None
        return key if key.key_size >= _LEAST_BITS else None
    return None


def _signed(key: RSAPublicKey, content: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15  # noqa: PLC0415
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415

    try:
        key.verify(signature, content, PKCS1v15(), SHA256())
    except InvalidSignature:
        return False
    return True


def _part(text: str) -> dict[str, object] | None:
    return _document(_decoded(text)) or None


def _document(data: bytes) -> dict[str, object]:
    """An empty one where it is none."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(f"{text}{'=' * (-len(text) % 4)}".encode(), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""


def _number(value: object, otherwise: float) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else otherwise
