"""One PostgreSQL for all tests of a worker, with a fresh database for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from psycopg import sql

from holdfast.database.database import Database, DatabaseAddress
from holdfast.database.migrations import migrate
from holdfast.database.postgres import Cluster, hold_cluster

FAST = {"fsync": "off", "full_page_writes": "off", "max_connections": "300", "autovacuum": "off"}
"""What only a crash of the machine would need. A database that is being vacuumed cannot be dropped."""
_TEMPLATE = "migrated"


class MadePostgres:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._number = 0
        self._admin = Database.open(cluster.address("postgres"), size=2)
        self._create(_TEMPLATE, "template0")
        with Database.open(cluster.address(_TEMPLATE), size=1) as database:
            migrate(database)

    def close(self) -> None:
        self._admin.close()

    @contextmanager
    def new_database(self, *, migrated: bool = True) -> Iterator[DatabaseAddress]:
        """A database of its own, removed at the end."""
        self._number += 1
        name = f"test_{self._number}"
        self._create(name, _TEMPLATE if migrated else "template0")
        try:
            yield self.cluster.address(name)
        finally:
            self._admin.administer(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))

    def _create(self, name: str, template: str) -> None:
        statement = sql.SQL("create database {} template {}")
        self._admin.administer(statement.format(sql.Identifier(name), sql.Identifier(template)))


@contextmanager
def made_postgres(folder: Path) -> Iterator[MadePostgres]:
    with hold_cluster(folder, "tests", settings=FAST) as cluster:
        postgres = MadePostgres(cluster)
        try:
            yield postgres
        finally:
            postgres.close()
