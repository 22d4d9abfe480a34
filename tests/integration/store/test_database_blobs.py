"""The run store in PostgreSQL: tenants, lost answers, and what it leaves to the database."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from postgres_made import MadePostgres
from program import ROOT

from holdfast.database.database import Database
from holdfast.database.errors import DatabaseUnavailable
from holdfast.store.database_blobs import DatabaseBlobs

_RACE = """
import sys
from pathlib import Path
from holdfast.database.database import Database
from holdfast.database.postgres import Cluster
from holdfast.store.database_blobs import DatabaseBlobs
with Database.open(Cluster(Path(sys.argv[1])).address(sys.argv[3]), size=1) as database:
    blobs = DatabaseBlobs(database, "default")
    print("ready", flush=True)
    sys.stdin.readline()
    won = [number for number in range(100) if blobs.create(f"race/{number}", sys.argv[2].encode())]
    print(*won)
"""


class LosesAnswers(Database):
    """Commits, and then reports that the connection broke."""

    def __init__(self, database: Database) -> None:
        super().__init__(database._pool, database.address)
        self.left = 0

    @contextmanager
    def transaction(self, **options: bool) -> Iterator[Any]:
        with super().transaction(**options) as connection:
            yield connection
        if self.left:
            self.left -= 1
            raise DatabaseUnavailable("HF-DB-1", "the connection broke")


def test_each_tenant_has_names_of_its_own(database: Database) -> None:
    ours, theirs = DatabaseBlobs(database, "ours"), DatabaseBlobs(database, "theirs")
    assert ours.create("runs/1", b"ours")
    assert theirs.read("runs/1") is None
    assert theirs.names("") == ()
    assert not theirs.remove("runs/1")
    assert theirs.create("runs/1", b"theirs")
    blob = ours.read("runs/1")
    assert blob is not None
    assert blob.data == b"ours"
    assert theirs.replace("runs/1", b"x", tag=blob.tag) is None


def test_several_blobs_are_read_and_written_in_one_statement(database: Database) -> None:
    """With the same rules: of one tenant, created only where nothing is, and folders end at their slash."""
    own, other = DatabaseBlobs(database, "several"), DatabaseBlobs(database, "another")
    other.write("a/1", b"theirs")
    assert own.create_several({"a/1": b"one", "a/2": b"two"}) == {"a/1", "a/2"}
    assert own.create_several({"a/2": b"again", "ab/3": b"three"}) == {"ab/3"}
    own.write_several({"a/1": b"new", "a.b": b"four"})
    found = own.read_several(["a/1", "a/2", "ab/3", "none"])
    assert {name: blob.data for name, blob in found.items()} == {
        "a/1": b"new",
        "a/2": b"two",
        "ab/3": b"three",
    }
    assert own.read_several([]) == {}
    assert own.names_several(["a", "ab", "none"]) == {"a": ("a/1", "a/2"), "ab": ("ab/3",), "none": ()}
    blob = other.read("a/1")
    assert blob is not None
    assert blob.data == b"theirs"


def test_a_lost_answer_is_not_a_lost_race(database: Database) -> None:
    """The write succeeded, its answer did not arrive: the next try recognises its own write."""
    flaky = LosesAnswers(database)
    blobs = DatabaseBlobs(flaky, "default")
    flaky.left = 1
    assert blobs.create("used/a", b"1")
    blob = blobs.read("used/a")
    assert blob is not None
    flaky.left = 1
    tag = blobs.replace("used/a", b"2", tag=blob.tag)
    assert tag is not None
    flaky.left = 1
    assert blobs.replace("used/a", b"3", tag=blob.tag) is None
    flaky.left = 1
    assert not blobs.create("used/a", b"4")
    flaky.left = 1
    assert blobs.remove("used/a", tag=tag)
    flaky.left = 9
    with pytest.raises(DatabaseUnavailable):
        blobs.create("used/b", b"1")


def test_names_are_read_from_the_index(database: Database) -> None:
    """Also in a store with many blobs, and with letters that patterns and collations treat specially."""
    blobs = DatabaseBlobs(database, "default")
    names = [f"runs/a%2F{letter}" for letter in "_%Aaäé~"]
    for name in names:
        blobs.write(name, b"", durable=False)
    assert blobs.names("runs") == tuple(sorted(names))
    with database.transaction() as connection:
        connection.execute(
            "insert into blobs (tenant, name, data, tag) "
            "select 'default', 'other/' || number, '', '' from generate_series(1, 20000) as number"
        )
        connection.execute("analyze blobs")
        plan = connection.execute(
            "explain select name from blobs where tenant = 'default' and name >= 'runs/' and name < 'runs0'"
        ).fetchall()
    assert "Index Only Scan" in str(plan) or "Index Scan" in str(plan)


def test_of_two_processes_that_create_one_wins(database: Database, postgres: MadePostgres) -> None:
    """Two who both believe that they were first would apply one plan twice."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    name = database.address.parameters["dbname"]
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", _RACE, str(postgres.cluster.data), str(number), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for number in range(2)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    won = [set(map(int, racer.communicate()[0].split())) for racer in racers]
    assert not won[0] & won[1]
    assert won[0] | won[1] == set(range(100))
    blobs = DatabaseBlobs(database, "default")
    for number in range(100):
        blob = blobs.read(f"race/{number}")
        assert blob is not None
        assert number in won[int(blob.data)]
