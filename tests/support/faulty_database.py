"""A database whose client is killed at a chosen statement, or after the commit and before it knows of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.database.database import Database


class Crash(Exception):  # noqa: N818 - it stands for a kill
    pass


class FaultyDatabase:
    """Everything goes to the real one. `crash_at` counts statements of all transactions from zero."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.shown = database.shown
        self.address = database.address
        self.crash_at: int | None = None
        self.crash_after_commit = False
        self.statements = 0

    @contextmanager
    def transaction(self, **options: bool) -> Iterator[Any]:
        with self._database.transaction(**options) as connection:
            yield _Connection(connection, self)
        if self.crash_after_commit:
            raise Crash

    def next_statement(self) -> None:
        if self.crash_at is not None and self.statements >= self.crash_at:
            raise Crash
        self.statements += 1

    @contextmanager
    def crashing(self, point: int | None) -> Iterator[None]:
        """At statement `point`; -1: after the commit; None: never."""
        self.statements = 0
        self.crash_at, self.crash_after_commit = (None, True) if point == -1 else (point, False)
        try:
            yield
        finally:
            self.crash_at, self.crash_after_commit = None, False


class _Connection:
    def __init__(self, connection: Any, database: FaultyDatabase) -> None:
        self._connection = connection
        self._database = database

    def execute(self, *arguments: Any, **options: Any) -> Any:
        self._database.next_statement()
        return self._connection.execute(*arguments, **options)

    @contextmanager
    def cursor(self, **options: Any) -> Iterator[Any]:
        with self._connection.cursor(**options) as cursor:
            yield _Cursor(cursor, self._database)


class _Cursor:
    def __init__(self, cursor: Any, database: FaultyDatabase) -> None:
        self._cursor = cursor
        self._database = database

    def execute(self, *arguments: Any, **options: Any) -> Any:
        self._database.next_statement()
        return self._cursor.execute(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)
