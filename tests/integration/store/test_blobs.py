"""What every blob store promises: folder, S3, database, server, and the one in memory for other tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TypeVar

import pytest
from flaky_s3 import FlakyS3
from memory_blobs import MemoryBlobs
from server_made import MadeServer, made_server

from holdfast.database.database import Database
from holdfast.identity.roles import Role
from holdfast.store.blobs import BlobStore
from holdfast.store.database_blobs import DatabaseBlobs
from holdfast.store.place import FolderBlobs
from holdfast.store.s3_blobs import S3Blobs
from holdfast.store.server_blobs import ServerBlobs
from holdfast.system.aws import AwsCaller, S3Timeouts

RACERS = 16
T = TypeVar("T")


@pytest.fixture(scope="module")
def s3() -> Iterator[FlakyS3]:
    with FlakyS3() as server:
        server.make_bucket("acme")
        yield server


@pytest.fixture(scope="module")
def caller(s3: FlakyS3) -> AwsCaller:
    """One client for every blob store of this module."""
    return AwsCaller(s3.variables, timeouts=S3Timeouts())


@pytest.fixture
def server(database: Database) -> Iterator[MadeServer]:
    """A real one, on a port of this machine."""
    with made_server(database) as made:
        yield made


@pytest.fixture(params=["folder", "s3", "memory", "database", "server"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path, caller: AwsCaller) -> BlobStore:
    match request.param:
        case "database":
            return DatabaseBlobs(request.getfixturevalue("database"), "default")
        case "server":
            server = request.getfixturevalue("server")
            return ServerBlobs(server.url, lambda: server.token(Role.ADMIN), {})
        case "folder":
            return FolderBlobs(tmp_path / "store")
        case "memory":
            return MemoryBlobs()
        case _:
            return S3Blobs("acme", f"{tmp_path.name}/deep", caller, S3Timeouts())


def test_what_was_never_written_is_absent(blobs: BlobStore) -> None:
    """Reading, replacing, removing or listing what is not there says so, and makes nothing."""
    assert blobs.read("used/a") is None
    assert blobs.replace("used/a", b"1", tag="x") is None
    assert not blobs.remove("used/a")
    assert not blobs.remove("used/a", tag="x")
    assert blobs.names("used") == ()


def test_a_name_is_created_once(blobs: BlobStore) -> None:
    """The second one is refused, even with the same bytes."""
    assert blobs.create("used/a", b"first")
    assert not blobs.create("used/a", b"second")
    assert not blobs.create("used/a", b"first")
    item = blobs.read("used/a")
    assert item is not None
    assert item.data == b"first"


def test_of_many_who_create_at_once_one_was_first(blobs: BlobStore) -> None:
    """Two who both believe that they were first would apply one plan twice."""
    results = _at_once(lambda number: blobs.create("used/a", f"by {number}".encode()))
    item = blobs.read("used/a")
    assert item is not None
    assert [number for number, won in enumerate(results) if won] == [int(item.data.split()[1])]


def test_of_many_who_replace_at_once_one_does(blobs: BlobStore) -> None:
    """Everybody has seen the same; only one may put something in its place."""
    blobs.create("leases/a", b"free")
    seen = blobs.read("leases/a")
    assert seen is not None
    results = _at_once(lambda number: blobs.replace("leases/a", f"by {number}".encode(), tag=seen.tag))
    item = blobs.read("leases/a")
    assert item is not None
    winners = {number: tag for number, tag in enumerate(results) if tag is not None}
    assert winners == {int(item.data.split()[1]): item.tag}


def test_what_changed_meanwhile_is_not_replaced(blobs: BlobStore) -> None:
    """A tag names one content; the tag that a replacing gives is the next one's."""
    blobs.create("a/b", b"1")
    first = blobs.read("a/b")
    assert first is not None
    second = blobs.replace("a/b", b"2", tag=first.tag)
    assert second is not None
    assert blobs.replace("a/b", b"3", tag=first.tag) is None
    item = blobs.read("a/b")
    assert item is not None
    assert (item.data, item.tag) == (b"2", second)
    assert blobs.replace("a/b", b"3", tag=second) is not None


def test_writing_asks_nothing(blobs: BlobStore) -> None:
    """What was there, or not, goes."""
    for data in (b"1", b"2", b""):
        blobs.write("a/b", data)
        item = blobs.read("a/b")
        assert item is not None
        assert item.data == data


def test_only_what_is_named_is_removed(blobs: BlobStore) -> None:
    """A late removal must not remove what was written meanwhile."""
    blobs.write("a/b", b"1")
    old = blobs.read("a/b")
    assert old is not None
    blobs.write("a/b", b"2")
    assert not blobs.remove("a/b", tag=old.tag)
    assert blobs.read("a/b") is not None
    new = blobs.read("a/b")
    assert new is not None
    assert blobs.remove("a/b", tag=new.tag)
    assert blobs.read("a/b") is None
    blobs.write("a/b", b"3")
    assert blobs.remove("a/b")
    assert not blobs.remove("a/b")


def test_names_are_whole_sorted_and_of_this_folder_only(blobs: BlobStore) -> None:
    """A neighbour whose name begins the same is not inside."""
    for name in ("many/b/1", "many/a%2Fx", "many/b/0", "manyx/c", "man/d", "top"):
        blobs.write(name, name.encode())
    assert blobs.names("many") == ("many/a%2Fx", "many/b/0", "many/b/1")
    assert blobs.names("many/b") == ("many/b/0", "many/b/1")
    assert set(blobs.names("")) >= {"many/a%2Fx", "many/b/0", "many/b/1"}
    assert "top" in blobs.names("")


def test_what_is_large_comes_back_to_the_byte(blobs: BlobStore) -> None:
    """States are large."""
    data = bytes(range(256)) * 40_000
    assert blobs.create("backups/a/1", data)
    item = blobs.read("backups/a/1")
    assert item is not None
    assert item.data == data


def _at_once(do: Callable[[int], T]) -> list[T]:
    start = Barrier(RACERS)

    def one(number: int) -> T:
        start.wait(30)
        return do(number)

    with ThreadPoolExecutor(RACERS) as pool:
        return list(pool.map(one, range(RACERS)))
