"""The server on a real port, with a real database."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from litestar import Litestar
from msgspec.structs import replace

from holdfast.config.server import ServerSettings, default_settings
from holdfast.database.database import Database
from holdfast.identity.federation import Federation, FederationRule, ReadKeys
from holdfast.identity.principal import ALL_TENANTS, DEFAULT_TENANT, Principal
from holdfast.identity.roles import Role
from holdfast.identity.token_rows import TokenRows
from holdfast.secrets.keys import Key
from holdfast.server.app import ServerParts, create_api
from holdfast.server.serve import server_config
from holdfast.worker.store_client import StoreRoutes

KEY = Key.of(bytes(range(32)))


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def problem(self) -> dict[str, Any]:
        """Checks that it is a complete problem document."""
        assert self.headers["content-type"] == "application/problem+json", self
        document: dict[str, Any] = json.loads(self.body)
        assert set(document) == {"type", "title", "status", "detail", "code", "message", "hint", "errors"}
        assert document["status"] == self.status
        return document


class ListLog:
    """What the server logs."""

    def __init__(self) -> None:
        self.lines: list[dict[str, object]] = []

    def info(self, event: str, **values: object) -> None:
        self.lines.append({"event": event, **values})

    error = info


class MadeServer:
    def __init__(self, port: int, parts: ServerParts, log: ListLog) -> None:
        self.port = port
        self.parts = parts
        self.url = f"http://127.0.0.1:{port}"
        self.database = parts.database
        self.tokens = TokenRows(parts.database)
        self.log = log
        self.worker: tuple[StoreRoutes, str] | None = None
        """If the tests of a run store call its routes without a network: where supervisors reach them."""
        self.admin = self.token(Role.ADMIN, tenant=ALL_TENANTS, name="root")

    def token(self, role: Role, *, tenant: str = DEFAULT_TENANT, name: str = "", **scope: Any) -> str:
        principal = Principal(id="", name=name or role.value, kind="token", role=role, tenant=tenant, **scope)
        return self.tokens.create(principal, created_by="tests").text

    def send(
        self,
        method: str,
        path: str,
        document: object = None,
        *,
        token: str | None = "",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        basic: bool = False,
    ) -> Answer:
        """One request: with the admin's token, another one, or (None) without."""
        fields = dict(headers or {})
        text = self.admin if token == "" else token
        if text is not None:
            password = base64.b64encode(f"any:{text}".encode()).decode()
            fields["authorization"] = f"Basic {password}" if basic else f"Bearer {text}"
        if document is not None:
            body = json.dumps(document).encode()
            fields.setdefault("content-type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, fields)
            response = connection.getresponse()
            received = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, response.read(), received)
        finally:
            connection.close()


def api_of(server: MadeServer) -> Litestar:
    """The same application, to look into."""
    return create_api(server.parts)


@contextmanager
def made_server(
    database: Database,
    *,
    settings: ServerSettings | None = None,
    limits: Mapping[str, Any] | None = None,
    rules: tuple[FederationRule, ...] = (),
    read_keys: ReadKeys | None = None,
    https_only: bool = False,
    trusted_proxies: tuple[str, ...] = (),
    keys: tuple[Key, ...] = (KEY,),
) -> Iterator[MadeServer]:
    settings = settings or default_settings(Path("/nowhere"))
    settings = replace(settings, limits=replace(settings.limits, **(limits or {})))
    log = ListLog()
    settings = replace(settings, trusted_proxies=trusted_proxies)
    parts = ServerParts(
        database=database,
        key=keys[0],
        older_keys=keys[1:],
        settings=settings,
        federation=Federation(rules, read_keys or (lambda _: b"{}")),
        log=log,
        https_only=https_only,
    )
    server = uvicorn.Server(server_config(parts))
    with socket.socket() as listening:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # As the server itself does.
        listening.bind(("127.0.0.1", 0))
        listening.listen(256)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield MadeServer(listening.getsockname()[1], parts, log)
        finally:
            server.should_exit = True
            thread.join()
