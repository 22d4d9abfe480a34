"""The schema of the database: SQL files in `schema/`, applied once each and in order.

Expand, then contract: a file adds to the schema, so that servers of the version before keep working while
it is applied; what no version uses any more is removed by a file of a later release, which begins with
`-- contract`. A file is never changed after a release: its checksum is recorded with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holdfast import __version__
from holdfast.database.database import SCHEMA, Database
from holdfast.database.errors import DatabaseBusy
from holdfast.kernel.errors import UsageError
from holdfast.kernel.text import plural

if TYPE_CHECKING:
    from psycopg import Connection

_ADVISORY_LOCK = 7_276_454_121_339
"""Of all servers that share the database, one migrates."""
_TRIES = 5
_BEGIN = """
set local lock_timeout = '60s';
select pg_advisory_xact_lock({lock});
set local lock_timeout = '5s';
set local statement_timeout = '10min';
create schema if not exists {schema};
create table if not exists {schema}.schema_migrations (
  number integer primary key,
  name text not null,
  checksum text not null,
  program text not null,
  applied timestamptz not null default now()
)
"""


class Migration(Struct, frozen=True, kw_only=True):
    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


class AppliedMigration(Struct, frozen=True, kw_only=True):
    number: int
    name: str
    checksum: str
    program: str


class SchemaStatus(Struct, frozen=True, kw_only=True):
    """The schema of a database beside that of this program."""

    applied: tuple[AppliedMigration, ...]
    known: tuple[Migration, ...]

    @property
    def current(self) -> int:
        return max((migration.number for migration in self.applied), default=0)

    @property
    def wanted(self) -> int:
        return max((migration.number for migration in self.known), default=0)

    @property
    def pending(self) -> tuple[Migration, ...]:
        applied = {migration.number for migration in self.applied}
        return tuple(migration for migration in self.known if migration.number not in applied)

    @property
    def newer(self) -> tuple[AppliedMigration, ...]:
        """Applied by a newer program."""
        known = {migration.number for migration in self.known}
        return tuple(migration for migration in self.applied if migration.number not in known)

    @property
    def changed(self) -> tuple[str, ...]:
        """Files that differ from what was applied."""
        checksums = {migration.number: migration.checksum for migration in self.known}
        return tuple(
            migration.name
            for migration in self.applied
            if checksums.get(migration.number, migration.checksum) != migration.checksum
        )


def known_migrations() -> tuple[Migration, ...]:
    """The files `NNNN_name.sql` of this program, in order."""
    files = (file for file in resources.files("holdfast.database").joinpath("schema").iterdir())
    found = [
        Migration(
            number=int(file.name[:4]),
            name=file.name.removesuffix(".sql"),
            sql=file.read_text(encoding="utf-8"),
        )
        for file in files
        if file.name.endswith(".sql")
    ]
    return tuple(sorted(found, key=lambda migration: migration.number))


def schema_status(database: Database, known: Sequence[Migration] | None = None) -> SchemaStatus:
    with database.transaction() as connection:
        return SchemaStatus(
            applied=applied_migrations(connection),
            known=tuple(known_migrations() if known is None else known),
        )


def require_current_schema(database: Database) -> None:
    """Refuses a schema that this program does not fit, instead of guessing."""
    status = schema_status(database)
    require_known(status, database.shown)
    if status.pending:
        raise UsageError(
            "HF-DB-9",
            f"the database {database.shown} has schema {status.current}; "
            f"Holdfast {__version__} needs {status.wanted}",
            hint="Update it: holdfast db migrate",
        )


def migrate(database: Database, known: Sequence[Migration] | None = None) -> tuple[Migration, ...]:
    """Apply what is missing; returns what this call applied. Each file is one transaction."""
    known = tuple(known_migrations() if known is None else known)
    done: list[Migration] = []
    # The first round creates the table of migrations, even if no file is known.
    while (migration := _migrate_next(database, known)) is not None:
        done.append(migration)
    return tuple(done)


def _migrate_next(database: Database, known: tuple[Migration, ...]) -> Migration | None:
    """A long transaction may hold a table: nothing is changed then, and it is tried again."""
    for attempt in range(1, _TRIES + 1):
        try:
            return _apply_next(database, known)
        except DatabaseBusy as error:
            if attempt == _TRIES:
                raise DatabaseBusy(
                    "HF-DB-6",
                    f"the schema of {database.shown} could not be updated: {error.problem.message}",
                    hint="End the long transaction that holds the table, then run: holdfast db migrate",
                ) from error
    raise AssertionError


def _apply_next(database: Database, known: tuple[Migration, ...]) -> Migration | None:
    with database.transaction() as connection:
        connection.execute(_BEGIN.format(lock=_ADVISORY_LOCK, schema=SCHEMA).encode())
        status = SchemaStatus(applied=applied_migrations(connection), known=known)
        require_known(status, database.shown)
        if not status.pending:
            return None
        migration = status.pending[0]
        if migration.number < status.current:
            raise UsageError(
                "HF-DB-8",
                f"the migration {migration.name} is older than the schema of {database.shown}, "
                "and was never applied",
                hint="Install a released version of Holdfast: its migrations are applied in order.",
            )
        connection.execute(migration.sql.encode())
        connection.execute(
            "insert into schema_migrations (number, name, checksum, program) values (%s, %s, %s, %s)",
            (migration.number, migration.name, migration.checksum, __version__),
        )
        return migration


def require_known(status: SchemaStatus, shown: str) -> None:
    if status.newer:
        last = max(status.newer, key=lambda migration: migration.number)
        raise UsageError(
            "HF-DB-7",
            f"the database {shown} has schema {last.number}, from Holdfast {last.program}; this is Holdfast "
            f"{__version__}, which knows schema {status.wanted}",
            hint="Upgrade this program to the version that the other servers have.",
        )
    if status.changed:
        raise UsageError(
            "HF-DB-8",
            f"{plural(len(status.changed), 'migration')} differ from what was applied to {shown}: "
            f"{', '.join(status.changed)}",
            hint="Install a released version of Holdfast; a migration is never changed after its release.",
        )


def applied_migrations(connection: Connection[tuple[Any, ...]]) -> tuple[AppliedMigration, ...]:
    if connection.execute("select to_regclass(%s)", (f"{SCHEMA}.schema_migrations",)).fetchone() == (None,):
        return ()
    rows = connection.execute(
        "select number, name, checksum, program from schema_migrations order by number"
    ).fetchall()
    return tuple(
        AppliedMigration(number=number, name=name, checksum=checksum, program=program)
        for number, name, checksum, program in rows
    )
