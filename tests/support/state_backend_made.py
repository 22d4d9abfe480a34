"""The state backend of the server on a real port, with a real database."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import uvicorn

from holdfast.database.database import Database
from holdfast.identity.principal import Principal
from holdfast.identity.roles import Role
from holdfast.secrets.keys import Key
from holdfast.server.problems import Denial
from holdfast.server.state_protocol import AfterWrite, Scope, StateLimits, StateProtocol
from holdfast.store.server_states.changes import Author, StateKey
from holdfast.store.server_states.cipher import StateCipher
from holdfast.store.server_states.locks import Caller, lock_request
from holdfast.store.server_states.rows import StateRows
from holdfast.store.server_states.rules import read_new_state

ME = "me"
CALLER = Caller(who=ME)
NET = StateKey("default", "network/prod")
KEY = Key.of(bytes(range(32)))
SECRET = {
    "mode": "managed",
    "type": "random_password",
    "name": "db",
    "provider": 'provider["registry.terraform.io/hashicorp/random"]',
    "instances": [{"attributes": {"result": "s3cr3t-Value-9431", "length": 17}}],
}
"""A resource with one secret."""


def authenticate(scope: Scope) -> Principal | Denial:
    """`Basic` with any user and the token as password, or `Bearer`. A token is `NAME@TENANT`."""
    kind, _, text = dict(scope["headers"]).get(b"authorization", b"").decode().partition(" ")
    token = base64.b64decode(text).decode().partition(":")[2] if kind == "Basic" else text
    if not token or token.startswith("wrong"):
        return Denial(
            status=401,
            code="HF-TOK-1",
            message="the token is missing or wrong",
            headers=(("www-authenticate", 'Basic realm="holdfast"'),),
        )
    name, _, tenant = token.partition("@")
    role = Role(name) if name in ("admin", "viewer") else Role.CI
    states = ("net*",) if name == "narrow" else ("*",)
    return Principal(id=name, name=name, kind="token", role=role, tenant=tenant or "default", states=states)


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def problem(self) -> dict[str, Any]:
        assert self.headers["content-type"] == "application/problem+json"
        document: dict[str, Any] = json.loads(self.body)
        assert document["status"] == self.status
        return document


class StateBackend(NamedTuple):
    rows: StateRows
    port: int
    faults: list[Exception]

    def address(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port}/state/{name}"

    def send(
        self,
        method: str,
        name: str,
        body: bytes | None = None,
        *,
        token: str | None = ME,
        headers: Mapping[str, str] | None = None,
        md5: bool = True,
    ) -> Answer:
        """One request, as Terraform sends it."""
        fields = dict(headers or {})
        if token is not None:
            fields["authorization"] = f"Bearer {token}"
        if body and md5:
            fields.setdefault(
                "content-md5", base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
            )
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, f"/state/{name}", body, fields)
            response = connection.getresponse()
            return Answer(
                response.status,
                response.read(),
                {field.lower(): value for field, value in response.getheaders()},
            )
        finally:
            connection.close()

    def lock(self, name: str, id_: str, **options: Any) -> Answer:
        return self.send("LOCK", name, lock_info(id_), **options)

    def unlock(self, name: str, id_: str, **options: Any) -> Answer:
        return self.send("UNLOCK", name, lock_info(id_), **options)


@contextmanager
def state_backend(
    database: Database, limits: StateLimits | None = None, after_write: AfterWrite | None = None
) -> Iterator[StateBackend]:
    rows, faults = StateRows(database, StateCipher([KEY])), list[Exception]()
    app = StateProtocol(rows, authenticate, limits=limits, after_write=after_write, on_fault=faults.append)
    config = uvicorn.Config(app, log_level="critical", lifespan="off", access_log=False)
    server = uvicorn.Server(config)
    with socket.socket() as listening:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # As the server itself does.
        listening.bind(("127.0.0.1", 0))
        listening.listen(256)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield StateBackend(rows, listening.getsockname()[1], faults)
        finally:
            server.should_exit = True
            thread.join()


def lock_info(id_: str, **changed: str) -> bytes:
    info = {
        "ID": id_,
        "Operation": "OperationTypeApply",
        "Info": "",
        "Who": "someone@somewhere",
        "Version": "1.15.5",
        "Created": "2026-01-01T00:00:00Z",
        "Path": "",
    }
    return json.dumps(info | changed).encode()


def state(serial: int, *, lineage: str = "lineage-1", values: Mapping[str, object] | None = None) -> bytes:
    """A state with one `terraform_data` per value."""
    resources = [
        {
            "mode": "managed",
            "type": "terraform_data",
            "name": name,
            "provider": 'provider["terraform.io/builtin/terraform"]',
            "instances": [{"schema_version": 0, "attributes": {"id": name, "input": value}}],
        }
        for name, value in ({"a": serial} if values is None else values).items()
    ]
    document = {
        "version": 4,
        "terraform_version": "1.15.5",
        "serial": serial,
        "lineage": lineage,
        "outputs": {},
        "resources": resources,
        "check_results": None,
    }
    return json.dumps(document).encode()


def envelope(serial: int, *, lineage: str = "lineage-1", data: str = "c2VjcmV0") -> bytes:
    """What OpenTofu sends when it encrypts its state."""
    document = {
        "serial": serial,
        "lineage": lineage,
        "meta": {"key_provider.pbkdf2.it": "e30="},
        "encrypted_data": data,
        "encryption_version": "v0",
    }
    return json.dumps(document).encode()


def write_state(rows: StateRows, content: bytes) -> str:
    """As plain Terraform does it, to the state NET; the id of that state."""
    rows.lock(NET, lock_request(lock_info("one"), CALLER))
    new = read_new_state(content)
    rows.write(NET, new, Author(who=CALLER.who, why="terraform"), CALLER, lock="one")
    rows.unlock(NET, "one", CALLER)
    row, _ = rows.look(NET)
    assert row is not None
    return row.id
