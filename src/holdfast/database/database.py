"""`Database`: a pool of connections to PostgreSQL, transactions with time limits, and its address.

Everything that talks to PostgreSQL goes through `transaction`. The SQL is next to its noun.
"""

from __future__ import annotations

import logging
import select
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from holdfast import __version__
from holdfast.database.errors import extra_missing, translate_errors
from holdfast.kernel.errors import UsageError
from holdfast.kernel.values import MaskedStruct
from holdfast.system import clock

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection
    from psycopg.sql import Composed
    from psycopg_pool import ConnectionPool

URL_VARIABLE = "HOLDFAST_DATABASE_URL"
SCHEMA = "holdfast"
CONNECT_SECONDS = 5
_ASK_AFTER = 5.0
"""Seconds after which a connection is asked whether it works, before it is used again."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SETTINGS: Mapping[str, str] = {
    "search_path": SCHEMA,
    "statement_timeout": "60s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
    # The default of a server, a database or a role may give up durability.
    "synchronous_commit": "on",
    "timezone": "UTC",
}


class DatabaseAddress(MaskedStruct, frozen=True, kw_only=True):
    parameters: dict[str, str]
    """Those of libpq, with the password."""
    shown: str
    """For messages: without the password."""


def address_from_url(url: str) -> DatabaseAddress:
    """From `HOLDFAST_DATABASE_URL`. Another machine is reached with TLS unless the URL says otherwise."""
    try:
        import psycopg  # noqa: PLC0415 - an extra
        from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        raise extra_missing("psycopg") from None
    try:
        read = conninfo_to_dict(url) if url.startswith(("postgresql://", "postgres://")) else {}
    except psycopg.ProgrammingError:
        read = {}
    if not read:
        raise UsageError(
            "HF-DB-10",
            f"{URL_VARIABLE} is not the address of a PostgreSQL database",
            hint="Write it as postgresql://USER:PASSWORD@HOST:5432/DATABASE; "
            "encode special characters of the password, such as %40 for @.",
        )
    parameters = {name: str(value) for name, value in read.items() if value is not None}
    host = parameters.get("host", "")
    if host and not host.startswith("/") and host not in _LOOPBACK:
        parameters.setdefault("sslmode", "require")
    user = f"{parameters['user']}@" if "user" in parameters else ""
    port = f":{parameters['port']}" if "port" in parameters else ""
    name = parameters.get("dbname", "")
    return DatabaseAddress(parameters=parameters, shown=f"postgresql://{user}{host}{port}/{name}")


class Database:
    """Thread-safe. A connection that broke is replaced; a transaction is never repeated here."""

    def __init__(self, pool: ConnectionPool[Connection[tuple[Any, ...]]], address: DatabaseAddress) -> None:
        self._pool = pool
        self.address = address
        self.shown = address.shown

    @classmethod
    def open(
        cls, address: DatabaseAddress, *, size: int = 10, wait_seconds: float = 10.0, purpose: str = "server"
    ) -> Self:
        """Connects once, so that a wrong address or password is reported with its reason."""
        try:
            import psycopg  # noqa: PLC0415 - an extra
            from psycopg_pool import ConnectionPool  # noqa: PLC0415 - an extra
        except ModuleNotFoundError as error:
            raise extra_missing(str(error.name)) from None
        # Without a handler of the program, the pool would write to standard error.
        logging.getLogger("psycopg").addHandler(logging.NullHandler())
        parameters = _parameters(address, purpose)
        with translate_errors(address.shown):
            psycopg.connect(**parameters).close()
        pool = ConnectionPool(
            kwargs=parameters,
            min_size=1,
            max_size=size,
            timeout=wait_seconds,
            configure=_configure,
            check=_ConnectionCheck(ConnectionPool.check_connection),
            open=True,
        )
        return cls(pool, address)

    @contextmanager
    def transaction(
        self, *, durable: bool = True, single: bool = False
    ) -> Iterator[Connection[tuple[Any, ...]]]:
        """Committed at the end of the block, rolled back by an exception.

        `durable=False` is for what can be lost in a crash of the machine: the commit does not wait for the
        disk. `single`: the block has one statement. PostgreSQL commits it with its answer, which saves two
        exchanges.
        """
        with translate_errors(self.shown), self._pool.connection() as connection:
            if connection.autocommit != (single and durable):
                connection.autocommit = single and durable
            if not durable:
                connection.execute("set local synchronous_commit = off")
            yield connection

    def administer(self, statement: Composed) -> None:
        """Outside of a transaction, as creating and dropping a database needs it."""
        with translate_errors(self.shown), self._pool.connection() as connection:
            connection.autocommit = True
            try:
                connection.execute("set statement_timeout = 0")
                connection.execute(statement)
                connection.execute(f"set statement_timeout = '{_SETTINGS['statement_timeout']}'")
            finally:
                connection.autocommit = False

    async def connect_for_notifications(self) -> AsyncConnection[tuple[Any, ...]]:
        """A connection of its own, which the caller closes: one that listens is not shared."""
        from psycopg import AsyncConnection  # noqa: PLC0415 - an extra

        return await AsyncConnection.connect(**_parameters(self.address, "listener"), autocommit=True)

    def close(self) -> None:
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _ConnectionCheck:
    """Finds connections that broke while they were not used.

    A connection whose other end is closed can be read from: this is seen without asking PostgreSQL. One that
    was not used for a while is asked, as the network may have lost it.
    """

    def __init__(self, ask: Callable[[Connection[Any]], None]) -> None:
        self._ask = ask
        self._asked: WeakKeyDictionary[Connection[Any], float] = WeakKeyDictionary()

    def __call__(self, connection: Connection[Any]) -> None:
        now = clock.monotonic()
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        if now - self._asked.get(connection, -_ASK_AFTER) >= _ASK_AFTER or poll.poll(0):
            self._ask(connection)
            self._asked[connection] = now


def _parameters(address: DatabaseAddress, purpose: str) -> dict[str, Any]:
    return {
        "connect_timeout": CONNECT_SECONDS,
        "tcp_user_timeout": 30_000,
        **address.parameters,
        "application_name": f"holdfast {__version__} {purpose}",
    }


def _configure(connection: Connection[Any]) -> None:
    connection.execute(
        "select set_config(name, value, false) from unnest(%s::text[], %s::text[]) as wanted (name, value)",
        (list(_SETTINGS), list(_SETTINGS.values())),
    )
    connection.commit()
