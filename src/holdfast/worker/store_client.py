"""The run store for a change that a worker runs: the routes of the server, called in this process.

They act for the person who asked for the change, so the same rules hold as for that person's own commands.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

import msgspec
from litestar import Request
from litestar import Response as Answer
from litestar.handlers import HTTPRouteHandler

from holdfast.identity.principal import Principal
from holdfast.identity.token_rows import CreatedToken, TokenRows
from holdfast.server.app import ServerParts
from holdfast.server.audit_log import TenantStores
from holdfast.server.claims import FencedChange
from holdfast.server.edge import Log
from holdfast.server.exceptions import problem, problem_from, standard_denial
from holdfast.server.guards import not_permitted
from holdfast.server.routes import store, store_blobs
from holdfast.store.approval_rules import ApprovalRule
from holdfast.store.run_records import SPOOL
from holdfast.store.server_blobs import PROTOCOL, PROTOCOL_FIELD, ServerBlobs
from holdfast.store.server_runs.rows import Change
from holdfast.store.server_states.cipher import StateCipher
from holdfast.store.server_states.rows import StateRows
from holdfast.store.server_store import ServerRunStore
from holdfast.system.http import Response

API: Final = "/api/v1/store"


class StoreRoutes:
    """What the routes of the run store need; the same for all changes."""

    def __init__(self, parts: ServerParts) -> None:
        self.log: Log = parts.log
        self.stores = TenantStores(parts.database, parts.key, parts.older_keys)
        self.rows = StateRows(parts.database, StateCipher([parts.key, *parts.older_keys]))
        self.values = {
            "stores": self.stores,
            "rows": self.rows,
            "tokens": _LastingTokens(parts.database),
        }


class _LastingTokens(TokenRows):
    """A change may begin, and a plan be approved, after the token of who asked for it has expired."""

    def create(self, principal: Principal, **options: Any) -> CreatedToken:
        return super().create(principal, **{**options, "outlives": True})


class InProcessSession:
    """Answers like the server, to one principal. `address`: where their request came from.

    Once another worker has the change, nothing is written for its runs.
    """

    def __init__(
        self, routes: StoreRoutes, principal: Principal, address: str, change: FencedChange | None = None
    ) -> None:
        self._routes = routes
        self._principal = principal
        self._address = address
        self._change = change

    def request(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes | None = None
    ) -> Response:
        path, _, query = target.removeprefix(API).partition("?")
        try:
            status, fields, content = self._call(method, path, dict(parse_qsl(query)), headers, body)
        except Exception as error:  # noqa: BLE001 - as a server answers
            failed = problem_from(error, self._report)
            extra = failed.extra if isinstance(failed.extra, dict) else {}
            return Response(failed.status_code, failed.headers or {}, msgspec.json.encode(extra))
        return Response(status, {**fields, PROTOCOL_FIELD: PROTOCOL}, content)

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> tuple[int, Mapping[str, str], bytes]:
        handler = _handlers().get((method, "/" + path.strip("/").partition("/")[0]))
        if handler is None:
            raise problem(standard_denial(HTTPStatus.NOT_FOUND))
        permission = handler.opt["permission"]
        if not self._principal.may(permission):
            raise problem(not_permitted(self._principal, permission))
        function, types = _function(handler)
        request = self._as_request(method, path, headers)
        known = {
            **self._routes.values,
            "principal": self._principal,
            "request": request,
            "body": body or b"",
        }
        arguments: dict[str, Any] = {}
        for name, kind in types.items():
            if name in known:
                arguments[name] = known[name]
            elif name == "access":
                routes = self._routes
                arguments[name] = store_blobs.access_of(routes.stores, routes.rows, request, self._change)
            elif name == "data":
                arguments[name] = msgspec.json.decode(body or b"null", type=kind)
            elif name in query:
                arguments[name] = msgspec.convert(query[name], kind, strict=False)
        answer = function(**arguments)
        if isinstance(answer, Answer):
            fields = {name.lower(): str(value) for name, value in answer.headers.items()}
            return answer.status_code or handler.status_code, fields, answer.content or b""
        return handler.status_code, {}, b"" if answer is None else msgspec.json.encode(answer)

    def _as_request(self, method: str, path: str, headers: Mapping[str, str]) -> Request[Any, Any, Any]:
        scope: Any = {
            "type": "http",
            "method": method,
            "path": unquote(f"{API}{path}"),
            "raw_path": f"{API}{path}".encode("latin-1"),
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "client": (self._address, 0),
            "user": self._principal,
        }
        return Request(scope)

    def _report(self, error: Exception) -> None:
        self._routes.log.error("fault", kind=type(error).__name__)


def store_of_change(
    routes: StoreRoutes, change: Change, home: Path, *, host: str, address: str
) -> WorkerRunStore:
    """As the person who asked for the change uses it."""
    session = InProcessSession(routes, change.requester, host, FencedChange(change.id, change.fence))
    return WorkerRunStore(WorkerBlobs(session, address=address), spool=home / SPOOL)


class WorkerRunStore(ServerRunStore):
    fenced = True
    more_rules: tuple[ApprovalRule, ...] = ()
    """About approvals, of an event."""

    @property
    def approval_rules(self) -> tuple[ApprovalRule, ...]:
        return (*super().approval_rules, *self.more_rules)


class WorkerBlobs(ServerBlobs):
    """`address`: where supervisors of Terraform, which are processes of their own, reach the routes."""

    def __init__(self, session: InProcessSession, *, address: str) -> None:
        super().__init__(address, lambda: "", {}, session=session)


@functools.cache
def _handlers() -> Mapping[tuple[str, str], HTTPRouteHandler]:
    """By method and the first part of the path."""
    return {
        (method, "/" + path.strip("/").partition("/")[0]): handler
        for handler in (*store.HANDLERS, *store_blobs.HANDLERS)
        for path in handler.paths
        for method in handler.http_methods
    }


@functools.cache
def _function(handler: HTTPRouteHandler) -> tuple[Any, Mapping[str, Any]]:
    """The function of a route, and the types of its parameters."""
    function = handler.fn
    hints = typing.get_type_hints(function)
    return function, {name: hints[name] for name in inspect.signature(function).parameters}
