"""CI by OIDC federation: a token of a trusted issuer is exchanged for a short-lived token of the server.

A rule names the issuer, the audience and claims. The signature is checked with the issuer's published keys,
which are read over verified TLS and kept for a while; an unknown key id reads them again, so that a rotated
key works at once.
"""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Final

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from msgspec import Struct

from holdfast.identity.principal import DEFAULT_TENANT, Principal
from holdfast.identity.roles import Role
from holdfast.kernel.text import json_object
from holdfast.system import clock

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
"""Asymmetric only: with a symmetric one, whoever knows the public key could sign."""
_SKEW: Final = 60.0
_LONGEST_LIFE: Final = 24 * 3600.0
_KEPT_SECONDS: Final = 300.0
_BETWEEN_READS: Final = 10.0
"""An unknown key id reads the keys again, but not more often than this: anyone can send one."""
_LARGEST: Final = 16 * 1024
_IDS: Final = re.compile(r"^repo:([^:/@]+)@\d+/([^:/@]+)@\d+(?=:|\Z)")
"""GitHub's subject with the ids of owner and repository, for repositories created since 2026-07-15."""


class FederationRule(Struct, frozen=True, kw_only=True):
    """A token of `issuer` for `audience` whose claims match gives this role."""

    issuer: str
    audience: str
    claims: Mapping[str, str]
    """Patterns; each must match. At least one: an issuer serves everybody."""
    role: Role = Role.CI
    tenant: str = DEFAULT_TENANT
    stacks: tuple[str, ...] = ("*",)
    states: tuple[str, ...] = ("*",)
    groups: tuple[str, ...] = ()
    groups_claim: str | None = None
    """A claim that lists more of them."""
    lifetime: float = 3600.0

    def matches(self, claims: Mapping[str, object]) -> bool:
        return bool(self.claims) and all(
            _matches(name, pattern, claims.get(name)) for name, pattern in self.claims.items()
        )

    def groups_of(self, claims: Mapping[str, object]) -> tuple[str, ...]:
        """Those of the rule, and those that the issuer says: a text, or a list of texts."""
        said = claims.get(self.groups_claim) if self.groups_claim is not None else None
        named = [said] if isinstance(said, str) else said if isinstance(said, list) else []
        valid = (name for name in named if isinstance(name, str) and name and name.isprintable())
        return tuple(dict.fromkeys((*self.groups, *valid)))


class Federated(Struct, frozen=True, kw_only=True):
    """A verified token and the rule it matched."""

    principal: Principal
    lifetime: float
    issuer: str
    replay_id: str
    """The token's own id, or what is signed (one content has many signatures): it is exchanged once."""
    expires: float


class Untrusted(Exception):  # noqa: N818 - what is said of the token
    """The token is refused. The reason names no rule: that is for the server's log, not for the caller."""


ReadKeys = Callable[[str], bytes]
"""The JSON Web Key Set of an issuer. Raises OSError where it cannot be read."""


class Federation:
    def __init__(
        self,
        rules: tuple[FederationRule, ...],
        read_keys: ReadKeys,
        *,
        now: Callable[[], float] = lambda: clock.now().timestamp(),
    ) -> None:
        self._rules = rules
        self._read_keys = read_keys
        self._now = now
        self._keys: dict[str, tuple[float, KeySet]] = {}
        self._failed: dict[str, float] = {}
        """When they could not be read: an issuer that does not answer must not block every request."""
        self._reading = threading.Lock()

    def verify(self, text: str) -> Federated:
        """Raises `Untrusted`, or OSError if the issuer's keys cannot be read."""
        claims = self._signed_claims(text)
        issuer = str(claims["iss"])
        self._require_times(claims)
        audiences = claims.get("aud")
        audiences = audiences if isinstance(audiences, list) else [audiences]
        rule = next(
            (
                rule
                for rule in self._rules
                if rule.issuer == issuer and rule.audience in audiences and rule.matches(claims)
            ),
            None,
        )
        if rule is None:
            raise Untrusted("no rule of the server matches the token's audience and claims")
        subject = str(claims.get("sub") or "")
        if not subject or not subject.isprintable():
            raise Untrusted("the token has no valid subject")
        principal = Principal(
            id="",
            name=subject,
            kind="oidc",
            role=rule.role,
            tenant=rule.tenant,
            stacks=rule.stacks,
            states=rule.states,
            claims={name: value for name, value in claims.items() if isinstance(value, str)},
            groups=rule.groups_of(claims),
        )
        return Federated(
            principal=principal,
            lifetime=rule.lifetime,
            issuer=issuer,
            replay_id=str(claims.get("jti") or text.rpartition(".")[0]),
            expires=float(claims["exp"]),  # type: ignore[arg-type]
        )

    def _signed_claims(self, text: str) -> Mapping[str, object]:
        if len(text) > _LARGEST:
            raise Untrusted("the token is too large")
        issuer = _unverified_issuer(text)
        if issuer not in {rule.issuer for rule in self._rules}:
            raise Untrusted("the token's issuer is not trusted by this server")
        try:
            return self._decode(text, self._key_set(issuer))
        except (JoseError, ValueError):
            # A key that the issuer has just started to use, or a bad token.
            again = self._key_set(issuer, older_than=_BETWEEN_READS)
        try:
            return self._decode(text, again)
        except (JoseError, ValueError):
            raise Untrusted("the token's signature is not valid") from None

    def _decode(self, text: str, keys: KeySet) -> Mapping[str, object]:
        return jwt.decode(text, keys, algorithms=list(ALGORITHMS)).claims

    def _key_set(self, issuer: str, *, older_than: float = _KEPT_SECONDS) -> KeySet:
        with self._reading:
            known = self._keys.get(issuer)
            if known is not None and self._now() - known[0] < older_than:
                return known[1]
            if self._now() - self._failed.get(issuer, -_BETWEEN_READS) < _BETWEEN_READS:
                raise OSError(f"the keys of {issuer} could not be read a moment ago")
            try:
                keys = KeySet.import_key_set(json_object(self._read_keys(issuer)))  # type: ignore[arg-type]
            except (OSError, JoseError, ValueError, KeyError, TypeError) as error:
                self._failed[issuer] = self._now()
                raise OSError(f"cannot read the keys of {issuer}: {error}") from error
            self._keys[issuer] = (self._now(), keys)
            return keys

    def _require_times(self, claims: Mapping[str, object]) -> None:
        now = self._now()
        expires, issued = _number(claims, "exp"), _number(claims, "iat")
        if expires is None or issued is None:
            raise Untrusted("the token does not say when it was issued and when it expires")
        begins = _number(claims, "nbf")
        if now > expires + _SKEW:
            raise Untrusted("the token has expired")
        if max(issued, begins if begins is not None else issued) > now + _SKEW:
            raise Untrusted("the token is not valid yet: are the clocks right?")
        if expires - issued > _LONGEST_LIFE:
            raise Untrusted("the token is valid for more than a day")


def without_ids(subject: str) -> str:
    """`repo:acme@12/infra@34:ref:…` as `repo:acme/infra:ref:…`."""
    return _IDS.sub(r"repo:\1/\2", subject)


def _matches(name: str, pattern: str, value: object) -> bool:
    """A pattern of a subject without ids matches both of GitHub's formats; one with ids only itself."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return False
    text = str(value)
    return fnmatchcase(text, pattern) or (
        name == "sub" and not _IDS.match(pattern) and fnmatchcase(without_ids(text), pattern)
    )


def _unverified_issuer(text: str) -> str:
    """Which keys to check it with; trusted only after that."""
    try:
        payload = text.split(".")[1]
        return str(json_object(_base64url(payload)).get("iss"))
    except (IndexError, ValueError):
        raise Untrusted("it is not a signed token") from None


def _base64url(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _number(claims: Mapping[str, object], name: str) -> float | None:
    value = claims.get(name)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
