"""One server for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from postgres_made import MadePostgres
from server_made import MadeServer, made_server

from holdfast.database.database import Database


@pytest.fixture(scope="module")
def shared(postgres: MadePostgres) -> Iterator[MadeServer]:
    with (
        postgres.new_database() as address,
        Database.open(address, size=20) as database,
        made_server(database) as server,
    ):
        yield server
