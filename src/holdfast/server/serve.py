"""`holdfast serve`: the server as a process, from its data folder to its end.

It is ready when it listens, its database has the schema of this version and the key opens what is stored.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import socket
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

import structlog
import uvicorn
from msgspec import Struct
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from holdfast import __version__
from holdfast.audit.actor import current_actor
from holdfast.config.server import ServerSettings
from holdfast.database.database import Database
from holdfast.database.migrations import migrate, schema_status
from holdfast.database.place import hold_database
from holdfast.identity.federation import Federation, FederationRule
from holdfast.identity.issuer_keys import read_issuer_keys
from holdfast.identity.principal import ALL_TENANTS, DEFAULT_TENANT, Principal, limits
from holdfast.identity.roles import Role
from holdfast.identity.token_rows import TokenRows
from holdfast.identity.tokens import NewToken, new_token, read_token
from holdfast.kernel.errors import Busy, UsageError
from holdfast.secrets.keys import KEY_SIZE, Key, read_private
from holdfast.secrets.server_key import load_older_keys, load_server_key, write_server_key
from holdfast.server.app import ServerParts, create_app
from holdfast.server.edge import CLIENT, Application, Log, TimedConnection
from holdfast.server.key_rotation import ServerRotation
from holdfast.server.routes.health import Readiness
from holdfast.server.upkeep import Upkeep, hold_upkeep
from holdfast.server.waiting import wait_for_key
from holdfast.store.database_blobs import DatabaseBlobs
from holdfast.store.run_store import RunStore, read_identity
from holdfast.store.server_states.cipher import StateCipher
from holdfast.store.server_states.rows import StateRows
from holdfast.system import clock, files
from holdfast.system.environment import Environment

TOKEN_FILE: Final = "admin-token"  # noqa: S105 - the name of a file
_STOP_SECONDS: Final = 10
"""For requests that are being served; PostgreSQL stops afterwards. Together less than 30 seconds."""
_BACKLOG: Final = 2048


class ListenAddress(NamedTuple):
    host: str
    port: int

    @property
    def is_local(self) -> bool:
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False


class ReadyServer(Struct, frozen=True, kw_only=True):
    url: str
    data: Path
    admin_token_file: Path


Notice = Callable[[str], None]


def serve(
    environment: Environment,
    data: Path,
    settings: ServerSettings,
    *,
    listen: str | None,
    notice: Notice,
    ready: Callable[[ReadyServer], None],
) -> None:
    """Until SIGTERM or SIGINT. `ready` is called once, when requests are served."""
    address = listen_address(listen or settings.listen)
    _require_protected(address, settings)
    with _listening(address) as listening, hold_database(environment, data, "holdfast serve") as database:
        migrate(database)
        log = _configure_log()
        key, older_keys = wait_for_key(
            lambda: (_key(environment, data, database, notice), load_older_keys(environment, data)),
            listening,
            lambda app: _uvicorn_config(app, settings),
            log,
        )
        rotation = ServerRotation(
            database=database, key=key, older=older_keys, who=current_actor(environment), log=log
        )
        rotation.begin()
        # Records the id of the key with the first start.
        RunStore(DatabaseBlobs(database, DEFAULT_TENANT), lambda: key, older_keys=older_keys).id()
        token_file = _admin_token(data, TokenRows(database), notice)
        parts = ServerParts(
            database=database,
            key=key,
            older_keys=older_keys,
            settings=settings,
            federation=Federation(_rules(settings), lambda issuer: read_issuer_keys(issuer, environment)),
            log=log,
            https_only=not address.is_local and settings.tls is None,
        )
        Readiness(database=database, key=key, older_keys=older_keys, log=log).require()
        started = ReadyServer(url=url_of(listening, settings), data=data, admin_token_file=token_file)

        def on_ready() -> None:
            schema = schema_status(database).current
            address = "{}:{}".format(*listening.getsockname()[:2])
            log.info("started", version=__version__, url=started.url, listen=address, schema=schema)
            ready(started)

        server = _Server(server_config(parts), on_ready=on_ready)
        upkeep = Upkeep(
            rows=StateRows(database, StateCipher([key, *older_keys])),
            tokens=TokenRows(database),
            backups=settings.backups,
            log=log,
            rotation=rotation,
        )
        with hold_upkeep(upkeep):
            server.run(sockets=[listening])
        log.info("stopped")


def url_of(listening: socket.socket, settings: ServerSettings) -> str:
    """One that clients can use: for all addresses, a name of the certificate or of this machine."""
    scheme = "https" if settings.tls is not None else "http"
    host, port = listening.getsockname()[:2]
    if ip_address(host).is_unspecified:
        host = _certificate_name(settings) or socket.gethostname()
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _certificate_name(settings: ServerSettings) -> str | None:
    """The first DNS name without a wildcard."""
    from cryptography import x509  # noqa: PLC0415 - only for TLS on all addresses

    if settings.tls is None:
        return None
    try:
        certificate = x509.load_pem_x509_certificate(_tls_files(settings)[0].read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return None
    return next((name for name in names.get_values_for_type(x509.DNSName) if "*" not in name), None)


def listen_address(text: str) -> ListenAddress:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:  # noqa: PLR2004 - the largest port
        raise UsageError(
            "HF-SRV-1",
            f"{text} is not an address to listen on",
            hint="Write HOST:PORT, such as 127.0.0.1:8420 or [::1]:8420; port 0 picks a free one.",
        )
    return ListenAddress(host.strip("[]"), int(port))


class _Server(uvicorn.Server):
    """Ends with exit code 0 after a signal; a second one does not wait for open requests."""

    def __init__(self, config: uvicorn.Config, *, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's signature
        self.force_exit = self.should_exit
        self.should_exit = True


def server_config(parts: ServerParts) -> uvicorn.Config:
    return _uvicorn_config(create_app(parts), parts.settings)


def _uvicorn_config(app: Application, settings: ServerSettings) -> uvicorn.Config:
    if settings.trusted_proxies:
        app = ProxyHeadersMiddleware(app, trusted_hosts=list(settings.trusted_proxies))
    tls: dict[str, Any] = {}
    if settings.tls is not None:
        files_ = _tls_files(settings)
        tls = {"ssl_certfile": files_[0], "ssl_keyfile": files_[1]}
    connection: Any = functools.partial(TimedConnection, header_seconds=settings.limits.header_time)
    return uvicorn.Config(
        app,
        http=connection,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_STOP_SECONDS,
        **tls,
    )


def _require_protected(address: ListenAddress, settings: ServerSettings) -> None:
    if settings.tls is not None:
        _tls_files(settings)
    elif not address.is_local and not settings.trusted_proxies:
        raise UsageError(
            "HF-SRV-2",
            f"{address.host} can be reached by other machines, and tokens would be sent unencrypted",
            hint="Name `tls` files, or `trusted_proxies` that terminate TLS, in server.yaml; "
            "docs/server.md shows both. Or listen on 127.0.0.1.",
        )


def _tls_files(settings: ServerSettings) -> tuple[Path, Path]:
    """Checked, so that a mistake is reported before anything starts."""
    tls = settings.tls
    assert tls is not None  # noqa: S101 - the callers checked
    certificate, key = (
        settings.folder / Path(str(name)).expanduser() for name in (tls.certificate, tls.key_file)
    )
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
    except OSError as error:  # `ssl.SSLError` is one.
        raise UsageError(
            "HF-SRV-3",
            f"the TLS files {certificate} and {key} cannot be used: {_tls_reason(certificate, key, error)}",
            hint="Both are PEM files, the key belongs to the certificate, and this user can read them.",
        ) from None
    read_private(key)
    return certificate, key


def _tls_reason(certificate: Path, key: Path, error: OSError) -> str:
    for file, mark in ((certificate, b"CERTIFICATE-----"), (key, b"PRIVATE KEY-----")):
        try:
            if mark not in file.read_bytes():
                return f"{file.name} contains no {mark.decode().lower().strip('-')} in PEM format"
        except OSError as unreadable:
            return f"{file.name}: {unreadable.strerror}"
    mismatch = isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH"
    return "the key is not that of the certificate" if mismatch else error.strerror or type(error).__name__


@contextmanager
def _listening(address: ListenAddress) -> Iterator[socket.socket]:
    """Bound first: a used port is reported before the database starts."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit it: a response is sent in two parts, and the second would wait 40 ms otherwise.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            listening.bind(address)
        except OSError as error:
            raise Busy(
                "HF-SRV-4",
                f"cannot listen on {address.host}:{address.port}: {error.strerror or error}",
                hint="Usually this server already runs: holdfast db status. Otherwise another program uses "
                "the port: --listen 127.0.0.1:0 picks a free one.",
            ) from None
        yield listening


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
        f"{file} is not a file of this user that nobody else can read or write",
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
            lifetime=rule.lifetime,
        )
        for rule in settings.oidc
        for stacks, states in [limits(rule.stacks, rule.states)]
    )


def _configure_log() -> Log:
    """JSON lines on standard error; on a terminal, lines for people."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    people = [_without_control_characters, structlog.dev.ConsoleRenderer()]
    structlog.configure(
        processors=[*shared, *(people if sys.stderr.isatty() else [structlog.processors.JSONRenderer()])],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    log: Log = structlog.get_logger()
    uvicorn_log = logging.getLogger("uvicorn")
    uvicorn_log.handlers = [_ForwardedLog(log)]
    uvicorn_log.setLevel(logging.WARNING)
    uvicorn_log.propagate = False
    return log


def _without_control_characters(_: object, __: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """A terminal would obey those in a path or a name."""
    return {
        name: value if not isinstance(value, str) or value.isprintable() else ascii(value)[1:-1]
        for name, value in event.items()
    }


class _ForwardedLog(logging.Handler):
    """Uvicorn's messages. Of an exception only its type is logged: its text may contain what it is about."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[0] if record.exc_info else None
        if error is not None and issubclass(error, asyncio.CancelledError):
            return
        message = record.getMessage().strip().partition("\n")[0]
        client = {"client": CLIENT.get()} if CLIENT.get() else {}
        self._log.error(
            "uvicorn", message=message, error=error.__name__ if error is not None else None, **client
        )
