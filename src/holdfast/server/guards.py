"""Who sends a request, and whether the route's permission is theirs.

Every route names its permission in `opt`; `OPEN` routes need no token. A route without one is refused.
"""

from __future__ import annotations

import base64
import binascii
import threading
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Final

from anyio import CapacityLimiter, to_thread
from litestar.connection import ASGIConnection
from litestar.handlers.base import BaseRouteHandler
from msgspec.structs import replace

from holdfast.identity.principal import RUN, Principal
from holdfast.identity.roles import Permission, Role, roles_with
from holdfast.identity.token_rows import LostLeaseError, TokenRows
from holdfast.identity.tokens import parse_token
from holdfast.server.exceptions import problem
from holdfast.server.problems import Denial, denial_from
from holdfast.system import clock

Scope = MutableMapping[str, Any]
NOTES: Final = "holdfast.notes"
"""In a scope: what the log says about the request."""
OPEN: Final[Mapping[str, Any]] = {"permission": None}
_LONGEST_TOKEN: Final = 200
_WINDOW: Final = 60.0
_MOST_KEYS: Final = 10_000
_THREADS: Final = 16
"""Tokens that are checked at the same time."""
_HEADER_HINT: Final = (
    "Send `Authorization: Bearer TOKEN`, or the token as the password of Basic. "
    "An admin creates one: holdfast token create"
)
EXCHANGE_HINT: Final = (
    "Compare the token's issuer, audience and claims with `oidc` in server.yaml, and request a new token."
)
_CHALLENGE: Final = (("www-authenticate", 'Bearer realm="holdfast", Basic realm="holdfast"'),)


class FailedLogins:
    """Failures per minute by key. Bounded: the oldest are forgotten. Thread-safe."""

    def __init__(self, limit: int, *, now: Callable[[], float] = clock.monotonic) -> None:
        self._limit = limit
        self._now = now
        self._counts: dict[str, tuple[float, int]] = {}
        self._lock = threading.Lock()

    def add(self, *keys: str) -> None:
        now = self._now()
        with self._lock:
            for key in keys:
                began, count = self._counts.pop(key, (now, 0))
                self._counts[key] = (now, 1) if now - began >= _WINDOW else (began, count + 1)
            while len(self._counts) > _MOST_KEYS:
                del self._counts[next(iter(self._counts))]

    def wait(self, key: str) -> int | None:
        """Seconds to wait, or None if the limit is not reached."""
        began, count = self._counts.get(key, (0.0, 0))
        left = _WINDOW - (self._now() - began)
        return max(1, round(left)) if count >= self._limit and left > 0 else None


class Authenticator:
    """Finds the principal of a request by its token.

    A wrong token never keeps others out: whoever has a right one gets in, also from the same address, and
    also if another address tried the same id.
    """

    def __init__(self, tokens: TokenRows, failures: FailedLogins) -> None:
        self._tokens = tokens
        self._failures = failures
        self._threads = CapacityLimiter(_THREADS)

    def authenticate(self, scope: Scope) -> Principal | Denial:
        text = _token_text(scope)
        if text is None:
            return _unauthorized("the request has no token")
        given = parse_token(text)
        try:
            principal = self._tokens.authenticate(given) if given is not None else None
        except LostLeaseError as lost:
            return replace(denial_from(lost), status=401)
        if principal is None:
            return self.refuse(scope, "the token is wrong, expired or revoked")
        run = {"run": principal.claims["run"]} if principal.kind == RUN else {}
        scope.setdefault(NOTES, {}).update(token=principal.id, who=principal.name, **run)
        return principal

    def refuse(self, scope: Any, reason: str, hint: str = _HEADER_HINT) -> Denial:
        """A wrong token, also of CI: counts a failure of its address."""
        address = address_of(scope)
        self._failures.add(address)
        wait = self._failures.wait(address)
        return _too_many(wait) if wait is not None else _unauthorized(reason, hint)

    async def authorize(
        self, connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler
    ) -> None:
        """A guard of Litestar. 401: no or a wrong token; 403: the role does not permit it.

        Other requests do not wait for the database.
        """
        permission = handler.opt.get("permission", Permission.ADMINISTER)
        if permission is None:
            return
        scope: Any = connection.scope
        principal = await to_thread.run_sync(self.authenticate, scope, limiter=self._threads)
        if isinstance(principal, Denial):
            raise problem(principal)
        if "permission" not in handler.opt or not principal.may(permission):
            raise problem(not_permitted(principal, permission))
        scope["user"] = principal


def not_permitted(principal: Principal, permission: Permission) -> Denial:
    if principal.may(permission):
        message, hint = (
            "the stacks and states of your token do not include this",
            "Ask an admin for another one.",
        )
    else:
        message = f"the role {principal.role} of {principal.name} does not permit this ({permission})"
        hint = roles_hint(permission)
    return Denial(status=403, code="HF-TOK-2", message=message, hint=hint)


def require_covered(principal: Principal, stacks: tuple[str, ...]) -> None:
    """What an admin sets up for stacks lets others apply them: like a token, no more than its creator."""
    given = replace(principal, role=Role.OPERATOR, stacks=stacks, states=stacks)
    if not given.is_within(principal):
        raise problem(not_permitted(principal, Permission.ADMINISTER))


def roles_hint(permission: Permission) -> str:
    roles = roles_with(permission)
    which = " or ".join(filter(None, (", ".join(roles[:-1]), roles[-1])))
    return f"It needs the role {which}. Ask an admin for a token: holdfast token create --role {roles[0]}"


def _unauthorized(reason: str, hint: str = _HEADER_HINT) -> Denial:
    return Denial(
        status=401,
        code="HF-TOK-1",
        message=reason,
        hint=hint,
        headers=_CHALLENGE,
    )


def _too_many(wait: int) -> Denial:
    return Denial(
        status=429,
        code="HF-TOK-3",
        message="too many requests with wrong tokens",
        hint=f"Check the token, then try again in {wait} seconds.",
        headers=(("retry-after", str(wait)),),
    )


def address_of(scope: Any) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "?"


def _token_text(scope: Scope) -> str | None:
    """From `Bearer TOKEN`, or the password of `Basic`, whose user may be any."""
    fields = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
    if len(fields) != 1:
        return None
    scheme, _, value = fields[0].decode("latin-1").strip().partition(" ")
    value = value.strip()
    if scheme.lower() == "basic":
        try:
            value = base64.b64decode(value, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return ""
    elif scheme.lower() != "bearer":
        return ""
    return value[:_LONGEST_TOKEN] or None
