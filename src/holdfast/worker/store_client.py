"""The run store for a change that a worker runs: the routes of the server, called in this process.

They act for the person who asked for the change, so the same rules hold as for that person's own commands.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote
from weakref import WeakValueDictionary

import msgspec
from litestar import Request
from litestar import Response as Answer
from litestar.handlers import HTTPRouteHandler
from msgspec import Struct
from msgspec.structs import replace

from holdfast.identity.principal import Principal
from holdfast.identity.roles import Permission
from holdfast.identity.token_rows import CreatedToken, TokenInfo, TokenRows
from holdfast.identity.tokens import GivenToken, new_token
from holdfast.server.app import ServerParts
from holdfast.server.audit_log import TenantStores
from holdfast.server.claims import FencedChange
from holdfast.server.edge import Log
from holdfast.server.exceptions import problem, problem_from, standard_denial
from holdfast.server.guards import not_permitted
from holdfast.server.routes import store, store_blobs
from holdfast.server.store_access import StoreAccess
from holdfast.store.approval_rules import ApprovalRule
from holdfast.store.blobs import StoredBlob
from holdfast.store.run_records import SPOOL
from holdfast.store.server_blobs import PROTOCOL, PROTOCOL_FIELD, ServerBlobs, SeveralBlobs, SeveralNames
from holdfast.store.server_runs.rows import Change
from holdfast.store.server_states.cipher import StateCipher
from holdfast.store.server_states.rows import StateRows
from holdfast.store.server_store import ServerRunStore
from holdfast.system import clock
from holdfast.system.http import Response

API: Final = "/api/v1/store"


class StoreRoutes:
    """What the routes of the run store need; the same for all changes, and for their supervisors."""

    def __init__(self, parts: ServerParts) -> None:
        self.log: Log = parts.log
        self.stores = TenantStores(parts.database, parts.key, parts.older_keys)
        self.rows = StateRows(parts.database, StateCipher([parts.key, *parts.older_keys]))
        self.reading: WeakValueDictionary[str, _ReadingToken] = WeakValueDictionary()
        """Those of changes that this worker runs."""

    def report(self, error: Exception) -> None:
        self.log.error("fault", kind=type(error).__name__)


class _ReadingToken(Struct, frozen=True, kw_only=True, weakref=True):
    digest: bytes
    principal: Principal
    expires: datetime


class RunTokens(TokenRows):
    """Of the runs of one change.

    One that only reads is known to this worker alone, and ends with its change: the command that uses it does
    not outlive the worker. One that writes is stored: a supervisor goes on with the next worker.
    """

    def __init__(self, routes: StoreRoutes) -> None:
        super().__init__(routes.rows.database)
        self._known = routes.reading
        self._own: list[_ReadingToken] = []

    def end(self) -> None:
        self._own.clear()

    def create(self, principal: Principal, **options: Any) -> CreatedToken:
        if "fence" in principal.claims:
            # A change may begin, and a plan be approved, after the token of who asked for it has expired.
            return super().create(principal, **{**options, "outlives": True})
        token, now = new_token(), clock.now()
        known = replace(principal, id=token.id)
        reading = _ReadingToken(digest=token.digest, principal=known, expires=options["expires"])
        self._own.append(reading)
        self._known[token.id] = reading
        shown = ("name", "kind", "role", "tenant", "stacks", "states")
        info = TokenInfo(
            **{name: getattr(principal, name) for name in shown},
            id=token.id,
            created=now,
            created_by=options["created_by"],
            expires=reading.expires,
            last_used=None,
            revoked=None,
        )
        return CreatedToken(info=info, text=token.text)

    def authenticate(self, given: GivenToken) -> Principal | None:
        reading = self._known.get(given.id)
        if reading is None:
            return super().authenticate(given)
        valid = given.matches(reading.digest) and clock.now() < reading.expires
        return reading.principal if valid else None


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
        self._tokens = RunTokens(routes)
        self._values = {"stores": routes.stores, "rows": routes.rows, "tokens": self._tokens}

    def end(self) -> None:
        self._tokens.end()

    def access(self) -> StoreAccess:
        """What the routes that read call."""
        if not self._principal.may(Permission.STORE):
            raise problem(not_permitted(self._principal, Permission.STORE))
        routes = self._routes
        return StoreAccess(routes.stores, routes.rows, self._principal, change=self._change)

    def request(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes | None = None
    ) -> Response:
        path, _, query = target.removeprefix(API).partition("?")
        try:
            status, fields, content = self._call(method, path, dict(parse_qsl(query)), headers, body)
        except Exception as error:  # noqa: BLE001 - as a server answers
            failed = problem_from(error, self._routes.report)
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
            **self._values,
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


def store_of_change(
    routes: StoreRoutes, change: Change, home: Path, *, host: str, address: str
) -> WorkerRunStore:
    """As the person who asked for the change uses it."""
    session = InProcessSession(routes, change.requester, host, FencedChange(change.id, change.fence))
    return WorkerRunStore(session, address=address, spool=home / SPOOL)


class WorkerRunStore(ServerRunStore):
    fenced = True
    more_rules: tuple[ApprovalRule, ...] = ()
    """About approvals, of an event."""

    @property
    def approval_rules(self) -> tuple[ApprovalRule, ...]:
        return (*super().approval_rules, *self.more_rules)

    def __init__(self, session: InProcessSession, *, address: str, spool: Path) -> None:
        super().__init__(WorkerBlobs(session, address=address), spool=spool)
        self.end = session.end
        """Of the tokens that only read: no command of the change runs any more."""


class WorkerBlobs(ServerBlobs):
    """`address`: where supervisors of Terraform, which are processes of their own, reach the routes.

    Most requests only read. They do without a request; what fails is asked again with one, as a client would.
    """

    def __init__(self, session: InProcessSession, *, address: str) -> None:
        super().__init__(address, lambda: "", {}, session=session)
        self.session = session

    def _read_several(self, wanted: Sequence[str]) -> tuple[SeveralBlobs, SeveralNames]:
        try:
            blobs, folders = self.session.access().read_several(wanted)
        except Exception:  # noqa: BLE001 - see above
            return super()._read_several(wanted)
        return blobs, {folder: names for folder, names in folders.items() if len(names) <= store_blobs.PAGE}

    def _read(self, name: str) -> StoredBlob | None:
        found, _ = self._read_several((name,))
        return found[name] if name in found else super()._read(name)  # It is large, or not for the caller.

    def _names(self, folder: str) -> tuple[str, ...]:
        try:
            return self.session.access().names(folder)
        except Exception:  # noqa: BLE001 - see above
            return super()._names(folder)


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
