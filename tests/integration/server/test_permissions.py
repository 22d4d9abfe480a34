"""One table: every route, what it needs, and who gets in. A route without a row fails."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from litestar import Litestar, get
from litestar.connection import ASGIConnection
from litestar.plugins.problem_details import ProblemDetailsException
from litestar.routes import ASGIRoute, HTTPRoute
from postgres_made import MadePostgres
from server_made import MadeServer, api_of, made_server

from holdfast.database.database import Database
from holdfast.identity.principal import DEFAULT_TENANT
from holdfast.identity.roles import GRANTABLE, PERMISSIONS, Permission, Role
from holdfast.server.guards import Authenticator, FailedLogins

OTHER = "other"
STATES = "/api/v1/states/{state_id:str}"
VERSION = f"{STATES}/versions/{{number:int}}"
STORE = "/api/v1/store"
RUN = "/api/v1/runs/{run_id:str}"
BLOB = f"{STORE}/blobs/{{name:path}}"
OUTGOING = "/api/v1/webhooks"
EVENT = "/api/v1/events/{event_id:str}"
WEBHOOK = "/api/v1/repositories/{repository:str}/webhook"
ROUTES: dict[tuple[str, str], Permission | None] = {
    ("GET", "/healthz"): None,
    ("GET", "/readyz"): None,
    ("GET", "/openapi.json"): None,
    ("GET", "/metrics"): Permission.READ,
    ("POST", "/api/v1/tokens"): Permission.ADMINISTER,
    ("GET", "/api/v1/tokens"): Permission.ADMINISTER,
    ("DELETE", "/api/v1/tokens/{token_id:str}"): Permission.ADMINISTER,
    ("GET", "/api/v1/tokens/current"): Permission.READ,
    ("POST", "/api/v1/tokens/run"): Permission.WRITE_STATE,
    ("POST", "/api/v1/tokens/exchange"): None,
    ("GET", "/api/v1/audit"): Permission.AUDIT,
    ("GET", "/api/v1/states"): Permission.READ,
    ("GET", f"{STATES}/versions"): Permission.READ,
    ("GET", VERSION): Permission.READ,
    ("GET", f"{VERSION}/content"): Permission.READ_STATE,
    ("GET", f"{VERSION}/secrets"): Permission.READ,
    ("GET", f"{STATES}/diff"): Permission.READ,
    ("GET", f"{STATES}/lock"): Permission.READ,
    ("POST", f"{STATES}/rollback"): Permission.ADMINISTER,
    ("POST", f"{VERSION}/pin"): Permission.ADMINISTER,
    ("POST", f"{VERSION}/purge"): Permission.ADMINISTER,
    ("POST", f"{STATES}/settings"): Permission.ADMINISTER,
    ("POST", "/api/v1/states/settings"): Permission.ADMINISTER,
    ("POST", f"{STATES}/unlock"): Permission.ADMINISTER,
    ("GET", STORE): Permission.STORE,
    ("GET", f"{STORE}/names"): Permission.STORE,
    ("POST", f"{STORE}/reads"): Permission.STORE,
    ("GET", BLOB): Permission.STORE,
    ("PUT", BLOB): Permission.STORE,
    ("DELETE", BLOB): Permission.STORE,
    ("POST", f"{STORE}/grants"): Permission.STORE,
    ("POST", f"{STORE}/audit"): Permission.STORE,
    ("POST", f"{STORE}/takeovers"): Permission.RUN,
    ("POST", f"{STORE}/renames"): Permission.RUN,
    ("POST", f"{STORE}/approvals"): Permission.APPROVE,
    ("POST", f"{STORE}/authors"): Permission.PLAN,
    ("POST", f"{STORE}/exchange"): Permission.OPEN_PLAN,
    ("POST", "/api/v1/hooks/{host:str}/{repository:str}"): None,
    ("PUT", WEBHOOK): Permission.ADMINISTER,
    ("GET", WEBHOOK): Permission.ADMINISTER,
    ("DELETE", WEBHOOK): Permission.ADMINISTER,
    ("POST", OUTGOING): Permission.ADMINISTER,
    ("GET", OUTGOING): Permission.ADMINISTER,
    ("GET", f"{OUTGOING}/{{webhook_id:str}}"): Permission.ADMINISTER,
    ("DELETE", f"{OUTGOING}/{{webhook_id:str}}"): Permission.ADMINISTER,
    ("GET", f"{OUTGOING}/{{webhook_id:str}}/deliveries"): Permission.ADMINISTER,
    ("POST", f"{OUTGOING}/{{webhook_id:str}}/deliveries/{{delivery_id:str}}/retry"): Permission.ADMINISTER,
    ("POST", f"{OUTGOING}/{{webhook_id:str}}/test"): Permission.ADMINISTER,
    ("GET", "/api/v1/notifications"): Permission.ADMINISTER,
    ("POST", "/api/v1/notifications/test"): Permission.ADMINISTER,
    ("POST", "/api/v1/notifications/messages/{message_id:str}/retry"): Permission.ADMINISTER,
    ("POST", "/api/v1/events"): Permission.RUN,
    ("GET", "/api/v1/events"): Permission.READ,
    ("GET", EVENT): Permission.READ,
    ("GET", f"{EVENT}/log"): Permission.READ_PLAN,
    ("POST", f"{EVENT}/approve"): Permission.APPROVE,
    ("POST", f"{EVENT}/reject"): Permission.APPROVE,
    ("POST", f"{EVENT}/cancel"): Permission.RUN,
    ("POST", f"{EVENT}/retry"): Permission.RUN,
    ("POST", f"{EVENT}/rollback"): Permission.RUN,
    ("GET", "/api/v1/devices"): Permission.READ,
    ("GET", "/api/v1/devices/{blueprint:str}/{resource_id:str}"): Permission.READ,
    ("POST", "/api/v1/devices/{blueprint:str}/{resource_id:str}/drift"): Permission.RUN,
    ("GET", "/api/v1/drift"): Permission.READ,
    ("POST", "/api/v1/drift/look"): Permission.RUN,
    ("POST", "/api/v1/drift/acknowledge"): Permission.RUN,
    ("GET", "/api/v1/blueprints"): Permission.READ,
    ("POST", "/api/v1/uploads"): Permission.PLAN,
    ("POST", "/api/v1/repositories"): Permission.ADMINISTER,
    ("GET", "/api/v1/repositories"): Permission.ADMINISTER,
    ("DELETE", "/api/v1/repositories/{repository_id:str}"): Permission.ADMINISTER,
    ("GET", "/api/v1/workers"): Permission.READ,
    ("POST", "/api/v1/runs"): Permission.PLAN,
    ("GET", "/api/v1/runs"): Permission.READ,
    ("POST", "/api/v1/changes"): Permission.PLAN,
    ("GET", "/api/v1/changes/{change_id:str}"): Permission.READ,
    ("GET", "/api/v1/changes/{change_id:str}/checks"): Permission.READ_PLAN,
    ("GET", "/api/v1/changes/{change_id:str}/log"): Permission.READ_PLAN,
    ("GET", "/api/v1/changes/{change_id:str}/results"): Permission.READ_PLAN,
    ("POST", "/api/v1/changes/{change_id:str}/cancel"): Permission.PLAN,
    ("POST", "/api/v1/changes/{change_id:str}/apply"): Permission.RUN,
    ("GET", RUN): Permission.READ,
    ("GET", f"{RUN}/plan"): Permission.READ_PLAN,
    ("GET", f"{RUN}/log"): Permission.READ_PLAN,
    ("POST", f"{RUN}/approve"): Permission.APPROVE,
    ("POST", f"{RUN}/reject"): Permission.APPROVE,
    ("POST", f"{RUN}/override"): Permission.APPROVE,
    ("POST", f"{RUN}/cancel"): Permission.PLAN,
    ("POST", f"{RUN}/retry"): Permission.PLAN,
    ("POST", f"{RUN}/reconcile"): Permission.RUN,
    ("GET", "/state"): Permission.READ_STATE,
    ("HEAD", "/state"): Permission.READ_STATE,
    ("POST", "/state"): Permission.WRITE_STATE,
    ("PUT", "/state"): Permission.WRITE_STATE,
    ("LOCK", "/state"): Permission.WRITE_STATE,
    ("UNLOCK", "/state"): Permission.WRITE_STATE,
    ("DELETE", "/state"): Permission.WRITE_STATE,
}
OF_LITESTAR = ("/openapi.json/{path:str}", "/openapi.json/openapi.json")
"""Below the description, always 404."""
STATE_METHODS = ("GET", "HEAD", "POST", "PUT", "LOCK", "UNLOCK", "DELETE")


class Tokens(NamedTuple):
    here: dict[Role, str]
    elsewhere: dict[Role, str]


@pytest.fixture(scope="module")
def server(postgres: MadePostgres) -> Iterator[MadeServer]:
    with (
        postgres.new_database() as address,
        Database.open(address) as database,
        made_server(database, limits={"exchanges": 10_000}) as server,
    ):
        yield server


@pytest.fixture(scope="module")
def tokens(server: MadeServer) -> Tokens:
    roles = [*GRANTABLE, Role.RUN]
    return Tokens(
        here={role: server.token(role, tenant=DEFAULT_TENANT) for role in roles},
        elsewhere={role: server.token(role, tenant=OTHER) for role in roles},
    )


def test_every_route_has_a_row(server: MadeServer) -> None:
    """And names the permission of that row itself; the state protocol checks its own."""
    routes = dict(_routes(api_of(server)))
    assert set(routes) == set(ROUTES)
    assert {key: value for key, value in routes.items() if key[1] != "/state"} == {
        key: value for key, value in ROUTES.items() if key[1] != "/state"
    }


def test_a_route_without_a_permission_is_refused(server: MadeServer) -> None:
    @get("/forgotten")
    async def forgotten() -> None: ...

    authenticator = Authenticator(server.tokens, FailedLogins(10))
    scope: Any = {"type": "http", "headers": [(b"authorization", f"Bearer {server.admin}".encode())]}
    with pytest.raises(ProblemDetailsException) as refused:
        asyncio.run(authenticator.authorize(ASGIConnection(scope), forgotten))
    assert refused.value.status_code == 403


def test_every_role_has_its_permissions() -> None:
    assert set(PERMISSIONS) == set(Role)


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_who_gets_in(server: MadeServer, tokens: Tokens, method: str, path: str) -> None:
    """401 without a token, 403 without the permission; otherwise the route itself answers."""
    needed = ROUTES[method, path]
    assert (_status(server, method, path, None) == 401) == (needed is not None)
    if needed is None:
        return
    for of_tenant in tokens:
        for role, token in of_tenant.items():
            status = _status(server, method, path, token)
            assert status not in (401, 500, 503), (role, status)
            refused = needed not in PERMISSIONS[role]
            # What a blob needs is in a table of its own: `test_the_server_as_run_store.py`.
            assert (status == 403) == refused or (path == BLOB and not refused), (role, status)


def test_what_belongs_to_another_tenant_does_not_exist(server: MadeServer, tokens: Tokens) -> None:
    own = server.send("POST", "/api/v1/tokens", {"role": "viewer"}, token=tokens.here[Role.ADMIN]).document
    stranger = tokens.elsewhere[Role.ADMIN]
    listed = server.send("GET", "/api/v1/tokens?limit=200", token=stranger).document["tokens"]
    assert {token["tenant"] for token in listed} == {OTHER}
    assert server.send("DELETE", f"/api/v1/tokens/{own['id']}", token=stranger).status == 404
    assert server.send("GET", "/api/v1/tokens/current", token=own["token"]).status == 200
    elsewhere = {"role": "viewer", "tenant": OTHER}
    assert server.send("POST", "/api/v1/tokens", elsewhere, token=tokens.here[Role.ADMIN]).status == 403
    assert server.send("POST", "/api/v1/tokens", elsewhere).status == 201  # The first admin's is for all.


def _status(server: MadeServer, method: str, path: str, token: str | None) -> int:
    address = (
        path.replace("{state_id:str}", "none")
        .replace("{number:int}", "1")
        .replace("{token_id:str}", "none")
        .replace("{run_id:str}", "none")
        .replace("{change_id:str}", "none")
        .replace("{repository_id:str}", "none")
        .replace("{webhook_id:str}", "none")
        .replace("{event_id:str}", "none")
        .replace("{blueprint:str}", "none")
        .replace("{resource_id:str}", "none")
        .replace("{delivery_id:str}", "none")
        .replace("{name:path}", "records/none")
        .replace("{host:str}", "github")
        .replace("{repository:str}", "none")
    )
    address = "/state/some/state" if path == "/state" else address
    document = {"ID": "one"} if method == "UNLOCK" else {} if path != "/state" else None
    return server.send(method, address, document if method != "GET" else None, token=token).status


def _routes(api: Litestar) -> Iterator[tuple[tuple[str, str], Permission | None]]:
    for route in api.routes:
        if isinstance(route, HTTPRoute) and route.path not in OF_LITESTAR:
            for handler in route.route_handlers:
                # OPTIONS is refused before it gets here.
                for method in handler.http_methods - {"OPTIONS"}:
                    yield (method, route.path), handler.opt["permission"]
        elif isinstance(route, ASGIRoute):
            yield from (((method, route.path), None) for method in STATE_METHODS)
