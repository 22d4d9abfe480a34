"""The outermost part of the server: what every request gets, also one that no route answers.

A request id and a line in the log, security headers, time limits for headers and body, a limit of requests at
once, and no tokens over plain http from other machines.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from posixpath import normpath
from typing import Any, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace
from structlog.contextvars import bound_contextvars
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from holdfast import __version__
from holdfast.server.exceptions import SlowBodyError, standard_denial
from holdfast.server.guards import NOTES
from holdfast.server.problems import MEDIA_TYPE, Denial
from holdfast.store.server_states.locks import StateRefusal
from holdfast.system import clock
from holdfast.system.addresses import is_local_address

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Any, Any, Any], Awaitable[None]]

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "LOCK", "UNLOCK")
"""Others would be labels of metrics that anyone can invent."""
_FAILED: Final = 400
_CODE: Final = re.compile(rb'"code":"(HF-[A-Z]+-[0-9]+)"')
_HEALTH: Final = ("/healthz", "/readyz")
_STATE: Final = re.compile(r"/+state(/|$)", re.IGNORECASE)
"""Of a path that means a state: Terraform would take a 404 for "there is no state"."""
_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
    (b"holdfast-version", __version__.encode()),
)
_LENGTHS: Final = frozenset({b"content-length", b"transfer-encoding"})
_SITE: Final = b"sec-fetch-site"
"""Browsers say which site sends a request."""
_CHECKED: Final = (*_LENGTHS, _SITE)
_HSTS: Final = (b"strict-transport-security", b"max-age=31536000")


class Log(Protocol):
    """A logger of structlog."""

    def info(self, event: str, **values: object) -> object: ...

    def error(self, event: str, **values: object) -> object: ...


class EdgeLimits(Struct, frozen=True, kw_only=True):
    requests: int = 1000
    body_seconds: float = 300.0
    idle_seconds: float = 30.0
    """Until the next part of a body."""
    memory: int = 1 << 30
    """For bodies of all requests together."""
    https_only: bool = False
    """Other machines must come through a proxy that terminates TLS."""


class _Body:
    """How much of it has arrived."""

    size = 0


class Edge:
    def __init__(self, app: Application, *, log: Log, limits: EdgeLimits) -> None:
        self._app = app
        self._log = log
        self._limits = limits
        self._requests = 0
        self._receiving = 0
        """Bytes of bodies that arrived, of all requests."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id, path = _request_id(scope), scope["path"]
        scope[NOTES] = {}
        began, answer = clock.monotonic(), _Answer(send, request_id, https=scope["scheme"] == "https")
        body = _Body()
        self._requests += 1
        with bound_contextvars(request=request_id):
            try:
                denial = self._denial(scope)
                if denial is not None:
                    await answer.deny(denial)
                else:
                    await self._app(scope, self._limited(receive, body), answer.send)
            finally:
                self._requests -= 1
                self._receiving -= body.size
                self._log.info(
                    "request",
                    method=scope["method"] if scope["method"] in METHODS else "?",
                    path=path,
                    status=answer.status,
                    ms=round((clock.monotonic() - began) * 1000, 1),
                    client=(scope.get("client") or ("?",))[0],
                    **({"code": answer.code} if answer.code is not None else {}),
                    **scope[NOTES],
                )

    def _denial(self, scope: Scope) -> Denial | None:
        if (malformed := _malformed(scope)) is not None or scope["path"] in _HEALTH:
            return malformed
        if self._requests > self._limits.requests:
            return standard_denial(503)
        client = (scope.get("client") or ("",))[0]
        if self._limits.https_only and scope["scheme"] != "https" and not is_local_address(client):
            return Denial(
                status=403,
                code="HF-SRV-19",
                message="this server is reached through https only",
                hint="Use the https address of the proxy. It must send X-Forwarded-Proto, and its own "
                "address must be in `trusted_proxies`.",
            )
        return None

    def _limited(self, receive: Receive, body: _Body) -> Receive:
        """The body must arrive in time and without long pauses, and fit into memory beside the others.

        Waiting for a disconnect afterwards is not limited.
        """
        deadline: float | None = clock.monotonic() + self._limits.body_seconds

        async def limited() -> Message:
            nonlocal deadline
            if deadline is None:
                return await receive()
            try:
                left = max(0.0, deadline - clock.monotonic())
                async with asyncio.timeout(min(left, self._limits.idle_seconds)):
                    message = await receive()
            except TimeoutError:
                raise SlowBodyError from None
            size = len(message.get("body", b""))
            body.size += size
            self._receiving += size
            if self._receiving > self._limits.memory:
                raise StateRefusal(503, "HF-STATE-56", "the server is receiving too much at once")
            if not message.get("more_body", False):
                deadline = None
            return message

        return limited


CLIENT: ContextVar[str | None] = ContextVar("client", default=None)
"""The address that the bytes which are being read come from."""


class TimedConnection(H11Protocol):
    """HTTP on one connection. It is closed if a request does not begin in time; uvicorn waits forever."""

    def __init__(self, *args: Any, header_seconds: float, **options: Any) -> None:
        super().__init__(*args, **options)
        self._header_seconds = header_seconds
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._limit_headers()

    def data_received(self, data: bytes) -> None:
        # For what uvicorn logs about bytes that are not a request.
        mark = CLIENT.set((self.transport.get_extra_info("peername") or ("?",))[0])
        super().data_received(data)
        CLIENT.reset(mark)
        self._limit_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _limit_headers(self) -> None:
        """From the first byte on, also of what follows a request that was answered early."""
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request.
        if cycle is not None and not cycle.response_complete:
            self._stop_timer()
        elif self._header_timer is None:
            self._header_timer = self.loop.call_later(self._header_seconds, self.transport.close)

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None


def _malformed(scope: Scope) -> Denial | None:
    """What no route should see."""
    if scope["method"] not in METHODS:
        return replace(standard_denial(405), headers=(("allow", ", ".join(METHODS)),))
    if b"%00" in scope["raw_path"] + scope["query_string"]:
        return standard_denial(400)  # PostgreSQL stores no such text.
    fields = {name: value for name, value in scope["headers"] if name in _CHECKED}
    if len(fields.keys() & _LENGTHS) > 1:  # A proxy may take another part for the next request.
        return replace(standard_denial(400), headers=(("connection", "close"),))
    if fields.get(_SITE) == b"cross-site" and scope["method"] not in ("GET", "HEAD"):
        return standard_denial(403)
    if scope["raw_path"].startswith(b"/state/") or not _STATE.match(normpath(scope["path"])):
        return None
    return Denial(
        status=400,
        code="HF-STATE-40",
        message="the address of a state begins with /state/",
        hint="Use an address such as /state/network/prod.",
    )


class _Answer:
    """Adds headers to the response and remembers its status."""

    def __init__(self, send: Send, request_id: str, *, https: bool) -> None:
        self._send = send
        self._request_id = request_id
        self._https = https
        self.status: int | None = None
        self.code: str | None = None
        """Of the problem document."""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = int(message["status"])
            headers = list(message.get("headers", ()))
            present = {name.lower() for name, _ in headers}
            headers += [header for header in _HEADERS if header[0] not in present]
            headers.append((b"x-request-id", self._request_id.encode()))
            if self._https:
                headers.append(_HSTS)
            message = {**message, "headers": headers}
        elif (self.status or 0) >= _FAILED and (code := _CODE.search(message.get("body", b""))) is not None:
            self.code = code[1].decode()
        await self._send(message)

    async def deny(self, denial: Denial) -> None:
        body = denial.body()
        fields = [(name.encode(), value.encode()) for name, value in denial.headers]
        fields += [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", b"%d" % len(body))]
        await self.send({"type": "http.response.start", "status": denial.status, "headers": fields})
        await self.send({"type": "http.response.body", "body": body})


def _request_id(scope: Scope) -> str:
    """The caller's, if it is harmless, so that its logs and ours can be matched."""
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    return given.decode() if _REQUEST_ID.fullmatch(given) else clock.random_token(8)
