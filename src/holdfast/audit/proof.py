"""Verifies the actor with a token that GitHub signed for this job.

A job with `permissions: id-token: write` can request one. Its claims replace the variables of the job, which
the job itself could have set. If anything is missing or wrong, the actor stays unverified, with the reason;
nothing here fails a run.

The job also says where to request the token. So that a token from elsewhere proves nothing, its audience is a
random value of this request, its repository must be that of the Git remote, its repository and run must be
those of the job's variables, and the issuer's keys are not read with certificates that the job chose.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.audit.actor import CLAIMS, GITHUB_ACTIONS, Actor
from holdfast.kernel.text import json_object
from holdfast.system import clock
from holdfast.system.environment import Environment

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

GITHUB: Final = "https://token.actions.githubusercontent.com"
_AUDIENCE: Final = "holdfast"
_OF_THIS_RUN: Final = ("repository", "run_id", "run_attempt")
_CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_REMOTE: Final = re.compile(
    r"(?:https://(?:[^/@]*@)?|ssh://(?:[^/@]*@)?|[^/@]*@)github\.com(?::[0-9]+)?[/:](?P<repository>[^/]+/[^/]+?)"
    r"(?:\.git)?/?",
    re.IGNORECASE,
)
_ALGORITHM: Final = "RS256"
_SKEW: Final = 60.0
_SECONDS: Final = 10.0
_MIN_KEY_BITS: Final = 2048
_PARTS: Final = 3
_OK: Final = 200


class Unverified(Struct, frozen=True, kw_only=True):
    why: str


Claims = Mapping[str, object]


def verify_actor(
    who: Actor, environment: Environment, remotes: Callable[[], Iterable[str]], *, issuer: str = GITHUB
) -> Actor:
    """The actor with verified claims, or with the reason why there are none. Sends two requests.

    `remotes` gives the addresses of the repository's Git remotes.
    """
    if who.kind != GITHUB_ACTIONS:
        return who
    claims = _request_claims(environment, issuer)
    if not isinstance(claims, Unverified):
        claims = check_run(claims, who.claims, repositories(remotes()))
    return with_claims(who, claims, issuer=issuer)


def repositories(remotes: Iterable[str]) -> frozenset[str]:
    """Those on GitHub, in lower case. Pure."""
    matches = (_REMOTE.fullmatch(remote) for remote in remotes)
    return frozenset(match["repository"].lower() for match in matches if match is not None)


def check_run(claims: Claims, job: Mapping[str, str], expected: frozenset[str]) -> Claims | Unverified:
    """Only a token of this repository and this run proves who acts. Pure."""
    repository = str(claims.get("repository") or "")
    if expected and repository.lower() not in expected:
        return Unverified(
            why=f"the token is for the repository {repository}, not {', '.join(sorted(expected))}"
        )
    for name in _OF_THIS_RUN:
        if not claims.get(name) or str(claims[name]) != job.get(name):
            return Unverified(why=f"the token is for another run: its {name} differs from the job's")
    if str(claims["run_attempt"]) != "1":
        return Unverified(why="the run was started again, and the token does not say by whom")
    return claims


def with_claims(who: Actor, claims: Claims | Unverified, *, issuer: str) -> Actor:
    """Signed claims replace the variables; they are never mixed. Pure."""
    if isinstance(claims, Unverified):
        because = f"the job's variables, without a verified token: {claims.why}"
        return replace(who, verified=False, because=because)
    signed = {name: str(claims[name]) for name in (*CLAIMS, "sub", "environment") if claims.get(name)}
    return replace(
        who,
        name=signed.get("actor") or who.name,
        verified="actor" in signed,
        because=f"a token signed by {issuer}" if "actor" in signed else "the token does not name an actor",
        claims=signed,
    )


def check_token(token: str, keys: bytes, *, issuer: str, audience: str, now: datetime) -> Claims | Unverified:
    """The claims of a valid token that one of these keys (a JWK set) signed for Holdfast. Pure."""
    parts = token.split(".")
    header, claims = (_part(parts[0]), _part(parts[1])) if len(parts) == _PARTS else (None, None)
    if header is None or claims is None:
        return Unverified(why="the token is not valid")
    if header.get("alg") != _ALGORITHM:
        return Unverified(why=f"the token has the unsupported signature algorithm {header.get('alg')}")
    key = _key(keys, header.get("kid"))
    if key is None:
        return Unverified(why="the token is signed with a key that is not its issuer's")
    if not _has_valid_signature(key, f"{parts[0]}.{parts[1]}".encode(), _decode(parts[2])):
        return Unverified(why="the signature of the token is wrong")
    return _check_claims(claims, issuer=issuer, audience=audience, at=now.timestamp())


def _check_claims(claims: Claims, *, issuer: str, audience: str, at: float) -> Claims | Unverified:
    audiences = claims.get("aud")
    if claims.get("iss") != issuer:
        return Unverified(why="the token has a different issuer")
    if audience not in (audiences if isinstance(audiences, list) else [audiences]):
        return Unverified(why="the token has a different audience")
    if not at < _number(claims.get("exp"), 0.0) + _SKEW:
        return Unverified(why="the token has expired")
    if at < _number(claims.get("nbf"), 0.0) - _SKEW:
        return Unverified(why="the token is not valid yet")
    return claims


def _request_claims(environment: Environment, issuer: str) -> Claims | Unverified:
    from holdfast.system.http import HttpError  # noqa: PLC0415 - only in a job that can request a token

    url = environment.get("ACTIONS_ID_TOKEN_REQUEST_URL")
    secret = environment.get("ACTIONS_ID_TOKEN_REQUEST_TOKEN")
    if url is None or secret is None:
        return Unverified(why="the job is not allowed to request one (it needs permissions: id-token: write)")
    if chosen := next(filter(environment.get, _CERTIFICATES), None):
        return Unverified(why=f"{chosen} is set, so GitHub's keys cannot be read reliably")
    audience = f"{_AUDIENCE}-{clock.random_token()}"
    try:
        joined = f"{url}{'&' if '?' in url else '?'}audience={audience}"
        token = json_object(_get(joined, environment, {"Authorization": f"bearer {secret}"})).get("value")
        keys = _get(f"{issuer}/.well-known/jwks", environment, {})
    except (HttpError, ValueError) as error:
        return Unverified(why=f"GitHub issued none: {error}")
    if not isinstance(token, str):
        return Unverified(why="GitHub issued none: the response has no token")
    return check_token(token, keys, issuer=issuer, audience=audience, now=clock.now())


def _get(url: str, environment: Environment, headers: Mapping[str, str]) -> bytes:
    from holdfast.system import http  # noqa: PLC0415

    answer = http.request("GET", url, environment=environment, headers=headers, seconds=_SECONDS)
    if answer.status != _OK:
        raise ValueError(f"status {answer.status}")
    return answer.body


def _key(keys: bytes, wanted: object) -> RSAPublicKey | None:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers  # noqa: PLC0415

    listed = json_object(keys).get("keys")
    for entry in listed if isinstance(listed, list) else ():
        if not isinstance(entry, dict) or entry.get("kid") != wanted or entry.get("kty") != "RSA":
            continue
        try:
            numbers = [int.from_bytes(_decode(str(entry.get(name)))) for name in ("e", "n")]
            key = RSAPublicNumbers(*numbers).public_key()
        except ValueError:
            return None
        return key if key.key_size >= _MIN_KEY_BITS else None
    return None


def _has_valid_signature(key: RSAPublicKey, content: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15  # noqa: PLC0415
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415

    try:
        key.verify(signature, content, PKCS1v15(), SHA256())
    except InvalidSignature:
        return False
    return True


def _part(text: str) -> dict[str, object] | None:
    return json_object(_decode(text)) or None


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(f"{text}{'=' * (-len(text) % 4)}".encode(), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""


def _number(value: object, default: float) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else default
