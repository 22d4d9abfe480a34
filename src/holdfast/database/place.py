"""Which database a command uses: the embedded one of a data folder, or `HOLDFAST_DATABASE_URL`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.database.database import URL_VARIABLE, Database, DatabaseAddress, address_from_url
from holdfast.database.migrations import migrate
from holdfast.database.postgres import Cluster, hold_cluster, own_data_folder
from holdfast.kernel.errors import UsageError
from holdfast.system.access_rules import record_server_folder
from holdfast.system.environment import Environment


def data_folder(environment: Environment, named: Path | None) -> Path:
    """Recorded if it is not the usual one: code in a plan must not read its secrets."""
    if named is None:
        return environment.home / "server"
    folder = named.expanduser().absolute()
    record_server_folder(environment, folder)
    return folder


def external_address(environment: Environment) -> DatabaseAddress | None:
    url = environment.get(URL_VARIABLE)
    return address_from_url(url) if url is not None else None


@contextmanager
def hold_database(environment: Environment, data: Path, purpose: str) -> Iterator[Database]:
    """As the owner of the data folder: for `holdfast serve`, and for what no server may run beside."""
    if (address := external_address(environment)) is not None:
        with own_data_folder(data, purpose), Database.open(address, purpose=purpose) as database:
            yield database
        return
    with (
        hold_cluster(data, purpose) as cluster,
        Database.open(cluster.address(), purpose=purpose) as database,
    ):
        yield database


@contextmanager
def open_database(environment: Environment, data: Path, purpose: str) -> Iterator[Database]:
    """Beside a running server, if there is one."""
    cluster = Cluster(data)
    if (address := external_address(environment)) is None and cluster.running_pid() is not None:
        address = cluster.address()
    if address is None:
        with hold_database(environment, data, purpose) as database:
            yield database
        return
    with Database.open(address, size=3, purpose=purpose) as database:
        yield database


@contextmanager
def open_running_database(environment: Environment, data: Path, purpose: str) -> Iterator[Database]:
    """Of a server that runs, here or elsewhere, with the schema of this version."""
    cluster = Cluster(data)
    address = external_address(environment)
    if address is None and cluster.running_pid() is None:
        raise UsageError(
            "HF-WKR-3",
            f"no server runs in {data}, and {URL_VARIABLE} is not set",
            hint="Start the server first: holdfast serve. On another machine, set "
            f"{URL_VARIABLE} to its database and HOLDFAST_KEY to its key.",
        )
    with Database.open(address or cluster.address(), size=20, purpose=purpose) as database:
        migrate(database)
        yield database
