"""PostgreSQL under load: killed, and on a full disk."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from program import eventually
from small_disk import fill, small_disk

from holdfast.database.database import Database
from holdfast.database.migrations import migrate
from holdfast.database.postgres import Cluster, hold_cluster
from holdfast.kernel.errors import HoldfastError
from holdfast.store.database_blobs import DatabaseBlobs
from holdfast.system.process_table import session_members

pytestmark = pytest.mark.faults
_KILLS = max(2, int(os.environ.get("FAULTS", "0")) // 20)


class Writer(threading.Thread):
    """Creates new names and replaces one of its own, as fast as it can, and notes every answer."""

    def __init__(self, number: int, database: Database, stop: threading.Event) -> None:
        super().__init__()
        self.blobs = DatabaseBlobs(database, "default")
        self.name = f"w{number}"
        self.stop = stop
        self.created: set[int] = set()
        self.tried = 0
        self.replaced = 0
        """The last number that was acknowledged in `last`."""
        self.replacing = 0

    def content(self, number: int) -> bytes:
        return f"{self.name} {number} ".encode() * 3_000

    def run(self) -> None:
        while not self.stop.is_set():
            self.tried += 1
            try:
                if self.blobs.create(f"{self.name}/{self.tried}", self.content(self.tried)):
                    self.created.add(self.tried)
                self.replace_last()
            except HoldfastError:
                continue

    def replace_last(self) -> None:
        current = self.blobs.read(f"{self.name}-last")
        self.replacing += 1
        if current is None:
            done = self.blobs.create(f"{self.name}-last", self.content(self.replacing))
        else:
            done = (
                self.blobs.replace(f"{self.name}-last", self.content(self.replacing), tag=current.tag)
                is not None
            )
        assert done, "nothing else writes this name"
        self.replaced = self.replacing

    def check(self) -> None:
        """Every acknowledged write is present, and what is present is whole."""
        present = {name: self.blobs.read(name) for name in self.blobs.names(self.name)}
        numbers = {int(name.partition("/")[2]) for name in present}
        assert self.created <= numbers <= set(range(1, self.tried + 1))
        for name, blob in present.items():
            assert blob is not None
            assert blob.data == self.content(int(name.partition("/")[2]))
        last = self.blobs.read(f"{self.name}-last")
        assert last is not None
        number = int(last.data.split()[1])
        assert self.replaced <= number <= self.replacing
        assert last.data == self.content(number)


@contextmanager
def writers(cluster: Cluster, count: int) -> Iterator[list[Writer]]:
    """Under load inside the block; afterwards everything is compared."""
    with Database.open(cluster.address(), size=count + 1, wait_seconds=20) as database:
        migrate(database)
        stop = threading.Event()
        load = [Writer(number, database, stop) for number in range(count)]
        for writer in load:
            writer.start()
        try:
            yield load
        finally:
            stop.set()
            for writer in load:
                writer.join(60)
        for writer in load:
            writer.check()
            assert len(writer.created) > 5


def _wait_for(load: list[Writer], writes: int) -> None:
    """Until so many more writes are acknowledged."""

    def count() -> int:
        return sum(len(writer.created) for writer in load)

    wanted = count() + writes
    eventually(lambda: count() >= wanted, what=f"{writes} more writes")


def test_every_acknowledged_write_survives_a_kill(tmp_path: Path) -> None:
    """Kill -9 of the postmaster, or of a backend, which makes PostgreSQL recover as after a crash."""
    chosen = random.Random(os.environ.get("SEED", "1"))  # noqa: S311 - a repeatable choice
    with hold_cluster(tmp_path / "data", "tests") as cluster, writers(cluster, 4) as load:
        for kill in range(_KILLS):
            _wait_for(load, chosen.randint(10, 60))
            pid = cluster.running_pid()
            assert pid is not None
            victims = [member for member in session_members(pid) if member != pid] if kill % 2 else [pid]
            os.kill(chosen.choice(victims or [pid]), signal.SIGKILL)
        _wait_for(load, 20)


def test_a_full_disk_is_an_error_and_no_loss(workplace: Path) -> None:
    """Writes are refused while there is no space; then it goes on with everything that was acknowledged."""
    with (
        small_disk(workplace / "database-disk") as place,
        hold_cluster(place / "data", "tests") as cluster,
        writers(cluster, 2) as load,
    ):
        _wait_for(load, 20)
        fill(place)
        database = load[0].blobs
        with pytest.raises(HoldfastError) as raised:
            all(database.create(f"filling/{number}", os.urandom(100_000)) for number in range(2_000))
        assert raised.value.problem.code in {"HF-DB-1", "HF-DB-5"}
        (place / "filler").unlink()
        _wait_for(load, 10)
