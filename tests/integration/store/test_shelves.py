"""What every shelf promises: the folder, S3, and the one in memory that other tests stand on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TypeVar

import pytest
from flaky_s3 import FlakyS3
from memory_shelf import MemoryShelf

from holdfast.store.aws import AwsCaller, Patience
from holdfast.store.blobs import Shelf
from holdfast.store.folder_blobs import FolderShelf
from holdfast.store.s3_blobs import S3Shelf

RACERS = 16
T = TypeVar("T")


@pytest.fixture(scope="module")
def s3() -> Iterator[FlakyS3]:
    with FlakyS3() as server:
        server.make_bucket("acme")
        yield server


@pytest.fixture(scope="module")
def caller(s3: FlakyS3) -> AwsCaller:
    """One client for every shelf of this module."""
    return AwsCaller(s3.variables, shown="s3://acme", patience=Patience())


@pytest.fixture(params=["folder", "s3", "memory"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path, caller: AwsCaller) -> Shelf:
    match request.param:
        case "folder":
            return FolderShelf(tmp_path / "store")
        case "memory":
            return MemoryShelf()
        case _:
            return S3Shelf("acme", f"{tmp_path.name}/deep", caller, Patience())


def test_what_was_never_written_is_absent(shelf: Shelf) -> None:
    """Reading, replacing, removing or listing what is not there says so, and makes nothing."""
    assert shelf.read("used/a") is None
    assert shelf.replace("used/a", b"1", tag="x") is None
    assert not shelf.remove("used/a")
    assert not shelf.remove("used/a", tag="x")
    assert shelf.names("used") == ()


def test_a_name_is_created_once(shelf: Shelf) -> None:
    """The second one is told that somebody was first, though it brings the same bytes."""
    assert shelf.create("used/a", b"first")
    assert not shelf.create("used/a", b"second")
    assert not shelf.create("used/a", b"first")
    item = shelf.read("used/a")
    assert item is not None
    assert item.data == b"first"


def test_of_many_who_create_at_once_one_was_first(shelf: Shelf) -> None:
    """Two who both believe that they were first would apply one plan twice."""
    results = _at_once(lambda number: shelf.create("used/a", f"by {number}".encode()))
    item = shelf.read("used/a")
    assert item is not None
    assert [number for number, won in enumerate(results) if won] == [int(item.data.split()[1])]


def test_of_many_who_replace_at_once_one_does(shelf: Shelf) -> None:
    """Everybody has seen the same; only one may put something in its place."""
    shelf.create("leases/a", b"free")
    seen = shelf.read("leases/a")
    assert seen is not None
    results = _at_once(lambda number: shelf.replace("leases/a", f"by {number}".encode(), tag=seen.tag))
    item = shelf.read("leases/a")
    assert item is not None
    winners = {number: tag for number, tag in enumerate(results) if tag is not None}
    assert winners == {int(item.data.split()[1]): item.tag}


def test_what_changed_meanwhile_is_not_replaced(shelf: Shelf) -> None:
    """A tag names one content; the tag that a replacing gives is the next one's."""
    shelf.create("a/b", b"1")
    first = shelf.read("a/b")
    assert first is not None
    second = shelf.replace("a/b", b"2", tag=first.tag)
    assert second is not None
    assert shelf.replace("a/b", b"3", tag=first.tag) is None
    item = shelf.read("a/b")
    assert item is not None
    assert (item.data, item.tag) == (b"2", second)
    assert shelf.replace("a/b", b"3", tag=second) is not None


def test_writing_asks_nothing(shelf: Shelf) -> None:
    """What was there, or not, goes."""
    for data in (b"1", b"2", b""):
        shelf.write("a/b", data)
        item = shelf.read("a/b")
        assert item is not None
        assert item.data == data


def test_only_what_is_named_is_removed(shelf: Shelf) -> None:
    """A removing that comes late must not take what somebody put there meanwhile."""
    shelf.write("a/b", b"1")
    old = shelf.read("a/b")
    assert old is not None
    shelf.write("a/b", b"2")
    assert not shelf.remove("a/b", tag=old.tag)
    assert shelf.read("a/b") is not None
    new = shelf.read("a/b")
    assert new is not None
    assert shelf.remove("a/b", tag=new.tag)
    assert shelf.read("a/b") is None
    shelf.write("a/b", b"3")
    assert shelf.remove("a/b")
    assert not shelf.remove("a/b")


def test_names_are_whole_sorted_and_of_this_folder_only(shelf: Shelf) -> None:
    """A neighbour whose name begins the same is not inside."""
    for name in ("runs/b/1", "runs/a%2Fx", "runs/b/0", "runsx/c", "run/d", "top"):
        shelf.write(name, name.encode())
    assert shelf.names("runs") == ("runs/a%2Fx", "runs/b/0", "runs/b/1")
    assert shelf.names("runs/b") == ("runs/b/0", "runs/b/1")


def test_what_is_large_comes_back_to_the_byte(shelf: Shelf) -> None:
    """States are large."""
    data = bytes(range(256)) * 40_000
    assert shelf.create("states/a/1", data)
    item = shelf.read("states/a/1")
    assert item is not None
    assert item.data == data


def _at_once(do: Callable[[int], T]) -> list[T]:
    start = Barrier(RACERS)

    def one(number: int) -> T:
        start.wait(30)
        return do(number)

    with ThreadPoolExecutor(RACERS) as pool:
        return list(pool.map(one, range(RACERS)))
