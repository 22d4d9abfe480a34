"""The server as an ASGI application: the API on Litestar, the state protocol under `/state`.

A new route names its permission in `opt`, and takes by name what `_dependencies` provides.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from litestar import Litestar, Request, asgi
from litestar.di import Provide
from litestar.exceptions import HTTPException, NotFoundException, SerializationException
from litestar.middleware.rate_limit import RateLimitConfig
from litestar.params import QueryParameter
from msgspec import Struct

from holdfast.config.server import ServerSettings
from holdfast.database.database import Database
from holdfast.identity.federation import Federation
from holdfast.identity.principal import Principal
from holdfast.identity.token_rows import TokenRows
from holdfast.kernel.errors import HoldfastError
from holdfast.secrets.keys import Key
from holdfast.secrets.redact import Redactor
from holdfast.server.audit_log import ServerAudit, TenantStores
from holdfast.server.edge import Application, Edge, EdgeLimits, Log
from holdfast.server.exceptions import problem, problem_details, standard_denial
from holdfast.server.fleet.drift import FleetDrift
from holdfast.server.fleet.requests import EventRequests
from holdfast.server.guards import OPEN, Authenticator, FailedLogins
from holdfast.server.notifications import ServerChannels
from holdfast.server.openapi import openapi_config
from holdfast.server.problems import FieldProblem
from holdfast.server.routes import health
from holdfast.server.routes.audit import list_entries
from holdfast.server.routes.change_log import change_log, change_results
from holdfast.server.routes.devices import devices_router
from holdfast.server.routes.drift import drift_router
from holdfast.server.routes.events import events_router
from holdfast.server.routes.health import Readiness
from holdfast.server.routes.metrics import STATE_PATH, metrics, request_metrics
from holdfast.server.routes.notifications import notifications_router
from holdfast.server.routes.outgoing_webhooks import outgoing_webhooks_router
from holdfast.server.routes.run_log import run_log
from holdfast.server.routes.runs import runs_router
from holdfast.server.routes.sources import sources_router
from holdfast.server.routes.states import states_router
from holdfast.server.routes.store import store_router
from holdfast.server.routes.tokens import tokens_router
from holdfast.server.routes.webhooks import webhooks_router
from holdfast.server.routes.workers import list_workers
from holdfast.server.run_events import RunEvents
from holdfast.server.run_requests import RunRequests
from holdfast.server.state_protocol import StateLimits, StateProtocol
from holdfast.server.validation import body_problems, parameter_problems
from holdfast.states.server_versions import scan_version
from holdfast.store.alert_signals import AlertSignals
from holdfast.store.outgoing_webhooks import OutgoingWebhookRows
from holdfast.store.server_drift.rows import DriftRows
from holdfast.store.server_runs.claiming import limits_of
from holdfast.store.server_runs.sources import RepositoryRows
from holdfast.store.server_runs.webhooks import WebhookRows
from holdfast.store.server_runs.workers import WorkerRows
from holdfast.store.server_states.cipher import StateCipher
from holdfast.store.server_states.rows import StateRows
from holdfast.store.server_states.versions import StateVersions
from holdfast.system.addresses import AddressRules
from holdfast.system.environment import Environment


class ServerParts(Struct, frozen=True, kw_only=True):
    """What the application needs from outside."""

    database: Database
    key: Key
    older_keys: tuple[Key, ...] = ()
    """States and blobs may still be encrypted with them."""
    settings: ServerSettings
    federation: Federation
    log: Log
    environment: Environment = Environment(variables={})
    """For the secrets of channels, certificates and proxies."""
    https_only: bool = False
    """It is reached from other machines, through a proxy that terminates TLS."""
    events: RunEvents | None = None
    """Its own, if who starts it also ends its streams."""


def create_app(parts: ServerParts) -> Application:
    return with_edge(parts, create_api(parts))


def with_edge(parts: ServerParts, app: Application) -> Application:
    limits = parts.settings.limits
    edge_limits = EdgeLimits(
        requests=limits.requests,
        body_seconds=limits.request_time,
        idle_seconds=limits.idle_time,
        memory=limits.receiving,
        https_only=parts.https_only,
    )
    return Edge(app, log=parts.log, limits=edge_limits)


def create_api(parts: ServerParts) -> Litestar:
    """Without what is around every request."""
    limits = parts.settings.limits
    authenticator = Authenticator(TokenRows(parts.database), FailedLogins(limits.failed_logins))
    rows = StateRows(parts.database, StateCipher([parts.key, *parts.older_keys]))
    stores = TenantStores(parts.database, parts.key, parts.older_keys)
    audit = ServerAudit(stores, Redactor())
    events = parts.events or RunEvents(parts.database)
    known: dict[str, object] = {"rows": rows, "stores": stores, "audit": audit, "events": events}
    known["requests"] = RunRequests(parts.database, stores, audit, rows, limits_of(parts.settings.runs))
    known["channels"] = ServerChannels(
        stores=stores,
        settings=parts.settings.notify,
        environment=parts.environment,
        folder=parts.settings.folder,
        log=parts.log,
    )
    known["fleet_drift"] = FleetDrift(database=parts.database, stores=stores, settings=parts.settings.fleet)
    known["fleet"] = EventRequests(parts.database, stores, audit, parts.settings.fleet.waiting)

    def on_fault(error: Exception) -> None:
        """Without the text of an unknown exception, which may contain what it is about."""
        known = isinstance(error, HoldfastError)
        message = error.problem.message if known else type(error).__name__  # type: ignore[attr-defined]
        parts.log.error("fault", code=error.problem.code if known else None, message=message)  # type: ignore[attr-defined]

    return Litestar(
        route_handlers=[
            *health.ROUTES,
            metrics,
            tokens_router(_rate_limit(limits.exchanges)),
            states_router(),
            store_router(stores, rows, largest=limits.state_size),
            list_entries,
            webhooks_router(),
            outgoing_webhooks_router(),
            notifications_router(),
            runs_router(),
            events_router(),
            devices_router(),
            drift_router(),
            run_log,
            change_log,
            change_results,
            sources_router(largest=limits.upload_size),
            list_workers,
            _state_mount(parts, rows, authenticator, audit, on_fault),
        ],
        dependencies=_dependencies(parts, known, authenticator),
        on_shutdown=[events.close],
        guards=[authenticator.authorize],
        before_request=_require_valid,
        middleware=[request_metrics().middleware],
        plugins=[problem_details(on_fault)],
        openapi_config=openapi_config(),
        request_max_body_size=limits.request_size,
        logging_config=None,
    )


def _state_mount(
    parts: ServerParts, rows: StateRows, authenticator: Authenticator, audit: ServerAudit, on_fault: Any
) -> Any:
    limits, versions = parts.settings.limits, StateVersions(rows)
    protocol = StateProtocol(
        rows,
        authenticator.authenticate,
        limits=StateLimits(body=limits.state_size, seconds=limits.request_time),
        audit=audit,
        after_write=lambda place, content: scan_version(versions, place, content),
        on_fault=on_fault,
    )

    # It checks tokens itself: Terraform takes a 404 for an empty state.
    @asgi(STATE_PATH, is_mount=True, copy_scope=True, opt=dict(OPEN))
    async def state(scope: Any, receive: Any, send: Any) -> None:
        if not scope["raw_path"].startswith(f"{STATE_PATH}/".encode()):
            raise NotFoundException  # A mount gets everything that begins with its path.
        await protocol(scope, receive, send)

    return state


def _dependencies(
    parts: ServerParts, known: dict[str, object], authenticator: Authenticator
) -> dict[str, Provide]:
    readiness = Readiness(database=parts.database, key=parts.key, older_keys=parts.older_keys, log=parts.log)
    values: dict[str, object] = {
        **known,
        "tokens": TokenRows(parts.database),
        "workers": WorkerRows(parts.database),
        "federation": parts.federation,
        "authenticator": authenticator,
        "readiness": readiness,
        "webhooks": WebhookRows(parts.database),
        "repositories": RepositoryRows(parts.database),
        "signals": AlertSignals(parts.database),
        "drift": DriftRows(parts.database),
        "outgoing": OutgoingWebhookRows(parts.database),
        "addresses": AddressRules(parts.settings.webhooks.private_addresses),
    }
    provided = {name: Provide(_constant(value), sync_to_thread=False) for name, value in values.items()}
    return {**provided, "principal": Provide(_principal, sync_to_thread=False)}


def _constant(value: object) -> Any:
    def provide() -> Any:
        return value

    return provide


def _principal(request: Request[Any, Any, Any]) -> Principal:
    """The one that the guard found."""
    principal: Principal = request.scope["user"]
    return principal


async def _require_valid(request: Request[Any, Any, Any]) -> None:
    """The parameters of a route that needs a token, and its body: JSON, and without NUL, which PostgreSQL
    does not store.
    """
    fields = request.route_handler.parsed_fn_signature.parameters
    if "permission" in request.route_handler.opt:
        types = {
            field.kwarg_definition.name or name: field.annotation
            for name, field in fields.items()
            if isinstance(field.kwarg_definition, QueryParameter)
        }
        _refuse(tuple(parameter_problems(types, request.query_params.multi_items())))
    if "data" not in fields:
        return
    if request.content_type[0] != "application/json":
        raise HTTPException(status_code=HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    body = await request.body()
    if not body:
        _refuse((FieldProblem(path="", message="the request has no body"),))
    try:
        document = None if b"\\u0000" in body else await request.json()
    except (SerializationException, RecursionError):  # Nested too deeply.
        document = None
    if document is None:
        raise HTTPException(status_code=HTTPStatus.BAD_REQUEST)
    _refuse(body_problems(fields["data"].annotation, document))


def _refuse(errors: tuple[FieldProblem, ...]) -> None:
    if errors:
        raise problem(standard_denial(HTTPStatus.UNPROCESSABLE_ENTITY, errors=errors))


def _rate_limit(per_minute: int) -> RateLimitConfig:
    return RateLimitConfig(rate_limit=("minute", per_minute))
