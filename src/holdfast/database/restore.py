"""Restoring a backup: verified first, beside the current content, which it then replaces in one step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.database.backup import BackupHeader, count_rows, restore_backup, verify_backup
from holdfast.database.database import SCHEMA, Database
from holdfast.database.place import external_address
from holdfast.database.postgres import NAME, Cluster, hold_cluster, own_data_folder
from holdfast.kernel.errors import Refused
from holdfast.kernel.text import plural
from holdfast.secrets.keys import Key
from holdfast.system import clock
from holdfast.system.environment import Environment

if TYPE_CHECKING:
    from psycopg.sql import Composed

_NEW = f"{NAME}_restore"
_BEFORE = f"{NAME}_before_"


class Restored(Struct, frozen=True, kw_only=True):
    header: BackupHeader
    previous: str | None
    """The database with the content before, if there was any. The next restore drops it."""


def restore_database(environment: Environment, data: Path, file: Path, key: Key, *, force: bool) -> Restored:
    """No server may run meanwhile."""
    header = verify_backup(file, key)
    purpose = "holdfast db restore"
    if (address := external_address(environment)) is None:
        with hold_cluster(data, purpose) as cluster:
            return Restored(header=header, previous=_replace(cluster, file, key, force=force))
    with own_data_folder(data, purpose), Database.open(address, size=2, purpose=purpose) as database:
        if rows := _content(database):
            raise _not_empty(database.shown, rows, "Set HOLDFAST_DATABASE_URL to an empty database.")
        database.administer(_sql("drop schema if exists {} cascade", SCHEMA))
        restore_backup(file, key, database)
    return Restored(header=header, previous=None)


def _replace(cluster: Cluster, file: Path, key: Key, *, force: bool) -> str | None:
    """Restore to a new database, and swap the names in one transaction."""
    with Database.open(cluster.address(), size=2) as current:
        rows = _content(current)
    if rows and not force:
        raise _not_empty(f"in {cluster.data}", rows, "To replace its content: add --force.")
    with Database.open(cluster.address("postgres"), size=2) as server:
        with server.transaction() as connection:
            found = connection.execute(
                "select datname from pg_database where datname = %s or starts_with(datname, %s)",
                (_NEW, _BEFORE),
            ).fetchall()
        for (name,) in found:
            server.administer(_sql("drop database {} with (force)", name))
        server.administer(_sql("create database {} template template0", _NEW))
        with Database.open(cluster.address(_NEW), size=2) as new:
            restore_backup(file, key, new)
        before = f"{_BEFORE}{clock.now():%Y%m%dT%H%M%S}"
        with server.transaction() as connection:
            connection.execute(_sql("alter database {} rename to {}", NAME, before))
            connection.execute(_sql("alter database {} rename to {}", _NEW, NAME))
        if not rows:
            server.administer(_sql("drop database {} with (force)", before))
    return before if rows else None


def _content(database: Database) -> int:
    """Rows, without the record of the schema itself."""
    with database.transaction() as connection:
        counts = count_rows(connection)
    return sum(rows for table, rows in counts.items() if table != "schema_migrations")


def _not_empty(shown: str, rows: int, hint: str) -> Refused:
    return Refused("HF-DB-14", f"the database {shown} is not empty: {plural(rows, 'row')}", hint=hint)


def _sql(statement: str, *names: str) -> Composed:
    from psycopg import sql  # noqa: PLC0415 - an extra

    return sql.SQL(statement).format(*map(sql.Identifier, names))
