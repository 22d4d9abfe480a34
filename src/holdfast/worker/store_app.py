"""What a worker serves to supervisors of Terraform: the run store and nothing else, without a router.

Every run sends it several requests. Permissions are those of the server's routes, which it calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from holdfast.config.server import ServerLimits
from holdfast.server.edge import Receive, Scope, Send
from holdfast.server.exceptions import problem, problem_from, standard_denial
from holdfast.server.guards import Authenticator, FailedLogins, address_of
from holdfast.server.problems import MEDIA_TYPE, Denial
from holdfast.server.routes.store import require_protocol
from holdfast.server.routes.store_blobs import require_writable
from holdfast.store.server_blobs import PROTOCOL_FIELD
from holdfast.system.http import Response
from holdfast.worker.store_client import API, InProcessSession, RunTokens, StoreRoutes

_SMALL: Final = 1 << 18
"""Bytes of a body that is read before it is known who sends it."""
_LENGTH: Final = "content-length"


class StoreApplication:
    def __init__(self, routes: StoreRoutes, limits: ServerLimits) -> None:
        self._routes = routes
        self._authenticator = Authenticator(RunTokens(routes), FailedLogins(limits.failed_logins))
        self._largest = limits.state_size

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            if not _is_small(headers):
                await asyncio.to_thread(self._require_writable, scope)
            body = await self._body(receive)
            response = await asyncio.to_thread(self._answer, scope, headers, body)
        except Exception as error:  # noqa: BLE001 - as the server answers
            response = self._refusal(error)
        fields = [(name.encode(), value.encode()) for name, value in response.headers.items()]
        fields.append((_LENGTH.encode(), b"%d" % len(response.body)))
        if response.status >= HTTPStatus.BAD_REQUEST:
            fields.append((b"content-type", MEDIA_TYPE.encode()))
        await send({"type": "http.response.start", "status": response.status, "headers": fields})
        await send({"type": "http.response.body", "body": response.body})

    def _answer(self, scope: Scope, headers: Mapping[str, str], body: bytes) -> Response:
        session = self._session(scope)
        require_protocol(headers.get(PROTOCOL_FIELD))
        target = scope["raw_path"].decode("latin-1")
        if not target.startswith(f"{API}/"):
            raise problem(standard_denial(HTTPStatus.NOT_FOUND))
        query = scope["query_string"].decode("latin-1")
        return session.request(scope["method"], f"{target}?{query}", headers=headers, body=body)

    def _session(self, scope: Scope) -> InProcessSession:
        principal = self._authenticator.authenticate(scope)
        if isinstance(principal, Denial):
            raise problem(principal)
        scope["user"] = principal
        return InProcessSession(self._routes, principal, address_of(scope))

    def _require_writable(self, scope: Scope) -> None:
        """Before the body is read: what a token may not write takes no memory."""
        self._session(scope)
        require_writable(self._routes.stores, self._routes.rows, scope)

    async def _body(self, receive: Receive) -> bytes:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":  # A part of a body is never taken for the whole.
                raise problem(standard_denial(HTTPStatus.BAD_REQUEST))
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self._largest:
                raise problem(standard_denial(HTTPStatus.REQUEST_ENTITY_TOO_LARGE))
        return body

    def _refusal(self, error: Exception) -> Response:
        failed = problem_from(error, self._routes.report)
        extra: Any = failed.extra if isinstance(failed.extra, dict) else {}
        return Response(failed.status_code, failed.headers or {}, msgspec.json.encode(extra))


def _is_small(headers: Mapping[str, str]) -> bool:
    length = headers.get(_LENGTH, "0")
    return "transfer-encoding" not in headers and length.isdigit() and int(length) <= _SMALL
