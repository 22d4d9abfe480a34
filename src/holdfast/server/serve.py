"""`holdfast serve`: the server as a process, from its data folder to its end.

It is ready when it listens, its database has the schema of this version and the key opens what is stored.
"""

from __future__ import annotations

import functools
import os
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any, Final, Literal

import uvicorn
from msgspec import Struct
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from holdfast import __version__
from holdfast.audit.actor import current_actor
from holdfast.audit.log import Audit
from holdfast.config.server import ServerSettings
from holdfast.database.database import Database
from holdfast.database.migrations import migrate, schema_status
from holdfast.database.place import hold_database
from holdfast.fleet.blueprint import load_blueprints
from holdfast.fleet.offer import offer_blueprints
from holdfast.identity.federation import Federation, FederationRule
from holdfast.identity.issuer_keys import read_issuer_keys
from holdfast.identity.principal import ALL_TENANTS, DEFAULT_TENANT, Principal, limits
from holdfast.identity.roles import Role
from holdfast.identity.token_rows import TokenRows
from holdfast.identity.tokens import NewToken, new_token, read_token
from holdfast.kernel.errors import UsageError
from holdfast.secrets.keys import KEY_SIZE, Key
from holdfast.secrets.redact import Redactor
from holdfast.secrets.server_key import load_older_keys, load_server_key, write_server_key
from holdfast.server.alert_sources import AlertSources
from holdfast.server.app import ServerParts, create_app
from holdfast.server.audit_log import TenantStores
from holdfast.server.drift.keeper import DriftKeeper, raise_alerts
from holdfast.server.edge import Application, TimedConnection
from holdfast.server.fleet.documents import event_documents
from holdfast.server.fleet.drift import FleetDrift
from holdfast.server.fleet.keeper import FleetKeeper, hold_keeper
from holdfast.server.key_rotation import ServerRotation
from holdfast.server.listening import hold_socket, listen_address, require_protected, tls_files, url_of
from holdfast.server.log import configure_log
from holdfast.server.notifications import NotificationWork, ServerChannels, hold_notifications
from holdfast.server.outgoing_webhooks import OutgoingWork, hold_outgoing_webhooks
from holdfast.server.routes.health import Readiness
from holdfast.server.run_events import RunEvents
from holdfast.server.upkeep import Upkeep, hold_upkeep
from holdfast.server.waiting import wait_for_key
from holdfast.server.webhooks import WebhookWork, hold_webhooks
from holdfast.server.worker_processes import hold_workers
from holdfast.store.alert_signals import AlertSignals
from holdfast.store.approval_rules import rules_from_settings, write_rules
from holdfast.store.database_blobs import DatabaseBlobs
from holdfast.store.fleet.rows import FleetRows
from holdfast.store.outgoing_webhooks import OutgoingWebhookRows
from holdfast.store.run_store import RunStore, read_identity
from holdfast.store.server_runs.rows import ChangeRows
from holdfast.store.server_runs.sources import SourceRows
from holdfast.store.server_runs.webhooks import WebhookRows
from holdfast.store.server_states.cipher import StateCipher
from holdfast.store.server_states.rows import StateRows
from holdfast.system import clock, files
from holdfast.system.addresses import AddressRules
from holdfast.system.environment import Environment

TOKEN_FILE: Final = "admin-token"  # noqa: S105 - the name of a file
_STOP_SECONDS: Final = 10
"""For requests that are being served; PostgreSQL stops afterwards. Together less than 30 seconds."""
_BACKLOG: Final = 2048


class ReadyServer(Struct, frozen=True, kw_only=True):
    url: str
    data: Path
    admin_token_file: Path


Notice = Callable[[str], None]
Beside = Callable[[Environment, ServerParts], AbstractContextManager[None]]


def serve(
    environment: Environment,
    data: Path,
    settings: ServerSettings,
    *,
    listen: str | None,
    workers: int = 0,
    blueprints: tuple[Path, ...] = (),
    config: Path | None = None,
    notice: Notice,
    ready: Callable[[ReadyServer], None],
    beside: Beside = lambda *_: nullcontext(),
) -> None:
    """Until SIGTERM or SIGINT. `ready` is called once, when requests are served.

    `workers`: how many are started beside it. `blueprints`: the folders of those that it offers.
    `config`: the file of the settings, for them.
    `beside`: what else runs as long.
    """
    address = listen_address(listen or settings.listen)
    require_protected(address, settings)
    offered = load_blueprints(blueprints, environment) if blueprints else {}
    with hold_socket(address) as listening, hold_database(environment, data, "holdfast serve") as database:
        migrate(database)
        log = configure_log()
        key, older_keys = wait_for_key(
            lambda: (_key(environment, data, database, notice), load_older_keys(environment, data)),
            listening,
            lambda app: uvicorn_config(app, settings),
            log,
        )
        who = current_actor(environment)
        rotation = ServerRotation(database=database, key=key, older=older_keys, who=who, log=log)
        rotation.begin()
        # Records the id of the key with the first start.
        store = RunStore(DatabaseBlobs(database, DEFAULT_TENANT), lambda: key, older_keys=older_keys)
        store.id()
        write_rules(store.encrypted, rules_from_settings(settings))
        offer_blueprints(database, store.encrypted, offered.values())
        token_file = _admin_token(data, TokenRows(database), notice)
        parts = ServerParts(
            database=database,
            key=key,
            older_keys=older_keys,
            settings=settings,
            environment=environment,
            federation=Federation(_rules(settings), lambda issuer: read_issuer_keys(issuer, environment)),
            log=log,
            https_only=not address.is_local and settings.tls is None,
            events=(events := RunEvents(database)),
        )
        Readiness(database=database, key=key, older_keys=older_keys, log=log).require()
        started = ReadyServer(url=url_of(listening, settings), data=data, admin_token_file=token_file)

        def on_ready() -> None:
            schema = schema_status(database).current
            address = "{}:{}".format(*listening.getsockname()[:2])
            log.info("started", version=__version__, url=started.url, listen=address, schema=schema)
            ready(started)

        stores = TenantStores(database, key, older_keys)
        server = _Server(server_config(parts), on_ready=on_ready)
        upkeep = Upkeep(
            rows=StateRows(database, StateCipher([key, *older_keys])),
            tokens=TokenRows(database),
            backups=settings.backups,
            log=log,
            rotation=rotation,
            waiting_limit=settings.runs.waiting_limit,
            event_max_age=settings.fleet.event_max_age,
            audit=lambda tenant: Audit(stores.of(tenant), who, redactor=Redactor()),
        )
        webhooks = WebhookWork(
            rows=WebhookRows(database),
            changes=ChangeRows(database),
            sources=SourceRows(database),
            stores=stores,
            environment=environment,
            log=log,
        )
        keeper = FleetKeeper(
            database=database,
            store=stores.of,
            log=log,
            drift=FleetDrift(database=database, stores=stores, settings=settings.fleet),
            stacks=DriftKeeper(
                database=database,
                stores=stores,
                settings=settings.drift,
                log=log,
                sink=functools.partial(raise_alerts, database, stores),
            ),
        )
        fleet = FleetRows(database)

        def event_body(tenant: str, id_: str) -> object | None:
            event = fleet.event(id_)
            blobs = stores.of(tenant).encrypted
            return (
                event_documents(blobs, (event,), plan=False, outputs=True)[0] if event is not None else None
            )

        outgoing = OutgoingWork(
            rows=OutgoingWebhookRows(database),
            stores=stores,
            rules=AddressRules(settings.webhooks.private_addresses),
            environment=environment,
            log=log,
            documents={"event": event_body},
        )
        channels = ServerChannels(
            stores=stores,
            settings=settings.notify,
            environment=environment,
            folder=settings.folder,
            log=log,
        )
        notifications = NotificationWork(
            signals=AlertSignals(database),
            channels=channels,
            sources=AlertSources(database=database, stores=stores, url=settings.url),
        )
        with (
            hold_upkeep(upkeep),
            hold_webhooks(webhooks),
            hold_outgoing_webhooks(outgoing),
            hold_notifications(notifications),
            hold_keeper(keeper),
            beside(environment, parts),
            hold_workers(workers, environment, data, config, log) as held,
        ):
            server.on_exit = (events.end, held.end)
            server.run(sockets=[listening])
        log.info("stopped")


class _Server(uvicorn.Server):
    """Ends with exit code 0 after a signal; a second one does not wait for open requests."""

    def __init__(self, config: uvicorn.Config, *, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self.on_exit: tuple[Callable[[], None], ...] = ()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's signature
        self.force_exit = self.should_exit
        self.should_exit = True
        for end in self.on_exit:
            end()


def server_config(parts: ServerParts) -> uvicorn.Config:
    return uvicorn_config(create_app(parts), parts.settings)


def uvicorn_config(
    app: Application, settings: ServerSettings, *, lifespan: Literal["on", "off"] = "on"
) -> uvicorn.Config:
    if settings.trusted_proxies:
        app = ProxyHeadersMiddleware(app, trusted_hosts=list(settings.trusted_proxies))
    tls: dict[str, Any] = {}
    if settings.tls is not None:
        files_ = tls_files(settings)
        tls = {"ssl_certfile": files_[0], "ssl_keyfile": files_[1]}
    connection: Any = functools.partial(TimedConnection, header_seconds=settings.limits.header_time)
    return uvicorn.Config(
        app,
        http=connection,
        ws="none",
        lifespan=lifespan,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_STOP_SECONDS,
        **tls,
    )


def _key(environment: Environment, data: Path, database: Database, notice: Notice) -> Key:
    """The configured one. A database that was written with a key never gets another one."""
    key = load_server_key(environment, data)
    blobs = DatabaseBlobs(database, DEFAULT_TENANT)
    if key is None and (identity := read_identity(blobs)) is not None:
        raise UsageError(
            "HF-SRV-5",
            f"the database is encrypted with key {identity.key}, and this server has no key",
            hint=f"Set HOLDFAST_KEY to it, or restore {data / 'key'} from its copy. "
            "`holdfast db restore --identity` restores it from a backup with an escrow.",
        )
    if key is None:
        write_server_key(environment, data, clock.random_bytes(KEY_SIZE))
        key = load_server_key(environment, data)
        assert key is not None  # noqa: S101 - it was just written
        notice(
            f"Created the server's key in {key.source}. "
            "Back it up: states and backups cannot be read without it."
        )
    return key.key


def _admin_token(data: Path, tokens: TokenRows, notice: Notice) -> Path:
    """In the file first: a start that was killed in between continues with it."""
    file = data / TOKEN_FILE
    token: NewToken | None = None
    if os.path.lexists(file):
        token = read_token(_read_own(file).strip())
        if token is None:
            raise UsageError(
                "HF-SRV-6",
                f"{file} does not contain a token",
                hint="Remove the file: the next start creates a new admin token.",
            )
    else:
        token = new_token()
        files.create(file, f"{token.text}\n")
        notice(f"Created an admin token for all tenants in {file}.")
    principal = Principal(id="", name="admin", kind="token", role=Role.ADMIN, tenant=ALL_TENANTS)
    tokens.create(principal, created_by="holdfast serve", token=token)
    return file


def _read_own(file: Path) -> str:
    """A file that only this user can have written."""
    try:
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW), encoding="ascii") as stream:
            about = os.fstat(stream.fileno())
            if about.st_uid == os.geteuid() and not about.st_mode & 0o077:
                return stream.read()
    except (OSError, UnicodeDecodeError):
        pass
    raise UsageError(
        "HF-SRV-21",
        f"{file} does not belong to this user, or others can read or write it",
        hint="Who wrote it could have an admin token. Remove the file: the next start creates a new one.",
    )


def _rules(settings: ServerSettings) -> tuple[FederationRule, ...]:
    return tuple(
        FederationRule(
            issuer=rule.issuer,
            audience=rule.audience,
            claims=rule.claims,
            role=Role(rule.role),
            tenant=rule.tenant,
            stacks=stacks,
            states=states,
            groups=rule.member_of,
            groups_claim=rule.groups_claim,
            lifetime=rule.lifetime,
        )
        for rule in settings.oidc
        for stacks, states in [limits(rule.stacks, rule.states)]
    )
