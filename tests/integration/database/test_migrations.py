"""The schema: each migration once, in order, by one of many servers; a mismatch is reported."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from postgres_made import MadePostgres

from holdfast.database.database import Database
from holdfast.database.errors import DatabaseBusy, DatabaseRefused
from holdfast.database.migrations import (
    Migration,
    known_migrations,
    migrate,
    require_current_schema,
    schema_status,
)
from holdfast.kernel.errors import UsageError

FIRST = Migration(number=1, name="0001_first", sql="create table first (id integer)")
SECOND = Migration(number=2, name="0002_second", sql="alter table first add column name text; select 1")
REMOVES = re.compile(r"\b(drop|rename|truncate|delete|set not null|alter column \w+ type)\b", re.IGNORECASE)


def test_the_files_are_numbered_from_one_and_only_add() -> None:
    """A server of the version before keeps working; a file that removes something says `-- contract`."""
    known = known_migrations()
    assert [migration.number for migration in known] == list(range(1, len(known) + 1))
    for migration in known:
        assert re.fullmatch(r"\d{4}_[a-z0-9_]+", migration.name)
        code = re.sub(r"--[^\n]*", "", migration.sql)
        assert migration.sql.startswith("-- contract") or not REMOVES.search(code), migration.name
        assert "concurrently" not in code.lower(), "a migration is one transaction"


def test_many_servers_migrate_once(postgres: MadePostgres) -> None:
    """Started together, one of them applies each migration, and all of them go on."""
    start = Barrier(6)
    with postgres.new_database(migrated=False) as address, Database.open(address) as database:

        def begin(_: int) -> int:
            start.wait(30)
            return len(migrate(database, (FIRST, SECOND)))

        with ThreadPoolExecutor(6) as pool:
            assert sum(pool.map(begin, range(6))) == 2
        status = schema_status(database, (FIRST, SECOND))
        assert (status.current, status.wanted, status.pending) == (2, 2, ())


def test_a_failed_migration_leaves_nothing(postgres: MadePostgres) -> None:
    """Its statements and its record are one transaction; what came before it stays."""
    broken = Migration(number=2, name="0002_broken", sql="create table half (id integer); select 1/0")
    with postgres.new_database(migrated=False) as address, Database.open(address) as database:
        with pytest.raises(DatabaseRefused):
            migrate(database, (FIRST, broken))
        assert schema_status(database, (FIRST,)).current == 1
        with database.transaction() as connection:
            assert connection.execute("select to_regclass('half')").fetchone() == (None,)
        assert [migration.number for migration in migrate(database, (FIRST, SECOND))] == [2]


def test_an_older_program_reports_a_newer_schema(postgres: MadePostgres) -> None:
    """It changes nothing and names both versions."""
    with postgres.new_database(migrated=False) as address, Database.open(address) as database:
        migrate(database, (FIRST, SECOND))
        with pytest.raises(UsageError, match=r"HF-DB-7 .*has schema 2, from Holdfast .*knows schema 1"):
            migrate(database, (FIRST,))


def test_a_changed_or_forgotten_migration_is_reported(postgres: MadePostgres) -> None:
    changed = Migration(number=1, name="0001_first", sql="create table first (id bigint)")
    late = Migration(number=3, name="0003_third", sql="select 1")
    with postgres.new_database(migrated=False) as address, Database.open(address) as database:
        migrate(database, (FIRST, late))
        with pytest.raises(UsageError, match=r"HF-DB-8 .*0001_first"):
            migrate(database, (changed, late))
        with pytest.raises(UsageError, match=r"HF-DB-8 .*0002_second is older"):
            migrate(database, (FIRST, SECOND, late))


def test_a_server_does_not_start_on_an_old_schema(postgres: MadePostgres, database: Database) -> None:
    require_current_schema(database)
    with postgres.new_database(migrated=False) as address, Database.open(address) as empty:
        with pytest.raises(UsageError, match="HF-DB-9") as raised:
            require_current_schema(empty)
        assert raised.value.problem.hint == "Update it: holdfast db migrate"


def test_a_table_in_use_is_not_waited_for_long(postgres: MadePostgres) -> None:
    """A migration that waited for a lock would hold up every query behind it."""
    quick = Migration(
        number=2, name="0002_second", sql=f"set local lock_timeout = '20ms'; {SECOND.sql.partition(';')[0]}"
    )
    with postgres.new_database(migrated=False) as address, Database.open(address) as database:
        migrate(database, (FIRST,))
        with database.transaction() as reader:
            reader.execute("select * from first")
            with pytest.raises(DatabaseBusy, match="HF-DB-6") as raised:
                migrate(database, (FIRST, quick))
        assert "holdfast db migrate" in str(raised.value.problem.hint)
        assert len(migrate(database, (FIRST, quick))) == 1
