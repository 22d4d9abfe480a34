"""Connections of the pool: single statements, transactions, and connections that broke while idle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from postgres_made import MadePostgres

from holdfast.database.database import Database


@pytest.fixture
def database(postgres: MadePostgres) -> Iterator[Database]:
    """With one connection, so that every use gets the same one."""
    with postgres.new_database() as address, Database.open(address, size=1) as database:
        with database.transaction() as connection:
            connection.execute("create table numbers (value integer)")
        yield database


def test_a_single_statement_is_committed_and_a_transaction_stays_one(database: Database) -> None:
    for number in range(3):
        with database.transaction(single=True) as connection:
            connection.execute("insert into numbers values (%s)", (number,))
        with suppress(ZeroDivisionError), database.transaction() as connection:
            connection.execute("insert into numbers values (100)")
            raise ZeroDivisionError
        with suppress(ZeroDivisionError), database.transaction(durable=False, single=True) as connection:
            connection.execute("insert into numbers values (200)")
            raise ZeroDivisionError
    with database.transaction(single=True) as connection:
        rows = connection.execute("select value from numbers order by value").fetchall()
    assert rows == [(0,), (1,), (2,)]


def test_a_connection_that_postgresql_closed_is_replaced(postgres: MadePostgres) -> None:
    """Right after it was used, and without an error for who uses it next."""
    with postgres.new_database() as address, Database.open(address, size=1) as database:
        with database.transaction(single=True) as connection:
            before = connection.info.backend_pid
        with Database.open(address, size=1) as other, other.transaction() as connection:
            connection.execute("select pg_terminate_backend(%s, 5000)", (before,))
        for single in (True, False):
            with database.transaction(single=single) as connection:
                assert connection.execute("select 1").fetchone() == (1,)
                assert connection.info.backend_pid != before
