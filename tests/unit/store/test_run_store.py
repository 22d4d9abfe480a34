"""The run store on a shelf in memory: whose it is, and what counts as absent."""

from __future__ import annotations

import json

import pytest
from memory_shelf import MemoryShelf

from holdfast.kernel.errors import Exit, HoldfastError, UnknownOutcome, UsageError
from holdfast.secrets.keys import Key
from holdfast.store.run_store import RunStore, StateRecord

KEY = Key.of(b"k" * 32)
OTHER = Key.of(b"o" * 32)
SEEN = StateRecord(place="kept:a", lineage="l", serial=3, resources=2, seen="2026-01-02T03:04:05+00:00")


def store(shelf: MemoryShelf, key: Key = KEY) -> RunStore:
    return RunStore(shelf, lambda: key)


@pytest.fixture
def shelf() -> MemoryShelf:
    return MemoryShelf()


def everything(shelf: MemoryShelf) -> dict[str, bytes]:
    """All that lies there, by name."""
    return dict(shelf._held)


def fill(one: RunStore) -> None:
    one.mark_used("d1", run="r1", stack="a/b", who="ann")
    one.record("a/b", SEEN)
    one.keep_errored("a/b", b"unsaved")
    one.runs.finish("r1", {"status": "applied"})


def test_reading_writes_nothing(shelf: MemoryShelf) -> None:
    """Who only looks leaves no store behind, and needs no key."""

    def no_key() -> Key:
        raise AssertionError

    one = RunStore(shelf, no_key)
    assert one.empty
    assert one.used("d1") is None
    assert one.last_seen("a") is None
    assert one.errored("a") is None
    assert one.claims.of("a") is None
    assert one.claims.all() == ()
    assert one.states.current("a") is None
    assert one.backups.last("a") is None
    assert one.runs.ids() == ()
    assert one.runs.outcome("r") is None
    assert everything(shelf) == {}


def test_the_store_names_its_key(shelf: MemoryShelf) -> None:
    """The id of the key is written down with the first word, and the key itself is not."""
    one = store(shelf)
    one.mark_used("d1", run="r1", stack="a", who="ann")
    identity = json.loads(everything(shelf)["store.json"])
    assert identity["key"] == KEY.id
    assert identity["id"] == one.id() == store(shelf).id()
    assert not one.empty


def test_another_key_is_refused_by_name(shelf: MemoryShelf) -> None:
    """With another key nothing is read, nothing is written, and both keys are named."""
    fill(store(shelf))
    before = everything(shelf)
    stranger = store(shelf, OTHER)
    for use in (
        lambda: stranger.used("d1"),
        lambda: stranger.mark_used("d2", run="r2", stack="a", who="bob"),
        lambda: stranger.last_seen("a/b"),
        lambda: stranger.keep_errored("a/b", b"x"),
        lambda: stranger.runs.outcome("r1"),
        stranger.id,
    ):
        with pytest.raises(UsageError) as caught:
            use()
        assert caught.value.problem.code == "HF-STORE-3"
        assert KEY.id in caught.value.problem.message
        assert OTHER.id in caught.value.problem.message
    assert everything(shelf) == before


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'"x"', b"\xff"])
def test_an_unreadable_identity_stops_everything(shelf: MemoryShelf, content: bytes) -> None:
    """A store whose own record is damaged is not taken for a new one."""
    shelf.write("store.json", content)
    with pytest.raises(UnknownOutcome) as caught:
        store(shelf).mark_used("d1", run="r", stack="a", who="ann")
    assert caught.value.problem.code == "HF-STORE-2"
    assert everything(shelf) == {"store.json": content}


@pytest.mark.parametrize("version", [0, 1, 3, "2", None])
def test_an_unknown_format_is_refused(shelf: MemoryShelf, version: object) -> None:
    """A newer Holdfast may have written it; guessing would damage it."""
    shelf.write("store.json", json.dumps({"version": version, "id": "x", "key": KEY.id}).encode())
    with pytest.raises(UnknownOutcome) as caught:
        store(shelf).used("d1") or store(shelf).id()
    assert caught.value.problem.code == "HF-STORE-2"


def test_what_is_damaged_is_never_absent(shelf: MemoryShelf) -> None:
    """Changed, cut, emptied, swapped, in clear, or sealed by another key: an error that says what it is."""
    fill(store(shelf))
    names = [name for name in everything(shelf) if name != "store.json"]
    assert len(names) == 4
    readers = {
        "used": lambda one: one.used("d1"),
        "records": lambda one: one.last_seen("a/b"),
        "errored": lambda one: one.errored("a/b"),
        "runs": lambda one: one.runs.outcome("r1"),
    }
    for name in names:
        good = everything(shelf)[name]
        other = next(everything(shelf)[one] for one in names if one != name)
        for bad in (b"", good[:-1], good[:20], good[:-1] + bytes([good[-1] ^ 1]), other, b'{"run":"r1"}'):
            shelf.write(name, bad)
            with pytest.raises(HoldfastError) as caught:
                readers[name.split("/")[0]](store(shelf))
            assert caught.value.problem.code == "HF-STORE-2"
            assert caught.value.exit is Exit.UNKNOWN
            assert name in caught.value.problem.message
            assert caught.value.problem.message.isprintable()
        shelf.write(name, good)


def test_a_thing_of_another_key_is_named(shelf: MemoryShelf) -> None:
    """A file that was copied here from another store is neither believed nor passed over."""
    elsewhere = MemoryShelf()
    fill(store(elsewhere, OTHER))
    one = store(shelf)
    one.mark_used("d0", run="r0", stack="a", who="ann")
    shelf.write("used/d1", everything(elsewhere)["used/d1"])
    with pytest.raises(UsageError) as caught:
        one.used("d1")
    assert caught.value.problem.code == "HF-KEY-7"
    assert OTHER.id in caught.value.problem.message
    assert caught.value.problem.message.isprintable()


def test_a_damaged_mark_is_still_a_mark(shelf: MemoryShelf) -> None:
    """A plan whose mark cannot be read was used: it is not used again."""
    one = store(shelf)
    assert one.mark_used("d1", run="r1", stack="a", who="ann")
    shelf.write("used/d1", b"")
    assert not one.mark_used("d1", run="r2", stack="a", who="bob")


def test_records_come_back_as_they_were(shelf: MemoryShelf) -> None:
    """What was last seen of a state, of stacks of any name, until it is forgotten."""
    one = store(shelf)
    for stack in ("a/b", ".hidden", "x@y+z"):
        one.record(stack, SEEN)
    assert store(shelf).last_seen(".hidden") == SEEN
    assert store(shelf).recorded_stacks() == (".hidden", "a/b", "x@y+z")
    one.forget("a/b")
    assert one.last_seen("a/b") is None


def test_an_unsaved_state_is_never_overwritten(shelf: MemoryShelf) -> None:
    """The newest is the one that is given; the older ones stay, and so does what was pushed."""
    one = store(shelf)
    for state in (b"one", b"two", b"three"):
        one.keep_errored("a", state)
    assert one.errored("a") == b"three"
    one.settle_errored("a")
    assert one.errored("a") is None
    one.settle_errored("a")
    kept = {one.sealed.read(name).data for name in one.sealed.names("errored/a")}  # type: ignore[union-attr]
    assert kept == {b"one", b"two", b"three"}


class Interfering(MemoryShelf):
    """Somebody else does something just before a name is replaced, removed or written."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: list[object] = []

    def _interfere(self, name: str) -> None:
        if self.meanwhile and name.startswith("errored/"):
            self.meanwhile.pop()()  # type: ignore[operator]

    def write(self, name: str, data: bytes, *, durable: bool = True) -> None:
        self._interfere(name)
        super().write(name, data, durable=durable)


def test_of_two_who_keep_an_unsaved_state_both_are_kept() -> None:
    """One that comes between is set aside as well, not lost."""
    shelf = Interfering()
    one = store(shelf)
    one.keep_errored("a", b"first")
    shelf.meanwhile = [lambda: store(shelf).keep_errored("a", b"between")]
    one.keep_errored("a", b"last")
    kept = {one.sealed.read(name).data for name in one.sealed.names("errored/a")}  # type: ignore[union-attr]
    assert kept == {b"first", b"between", b"last"}
    assert one.errored("a") == b"last"


def test_settling_takes_only_what_was_pushed() -> None:
    """A state that could not be saved meanwhile still stops the stack."""
    shelf = Interfering()
    one = store(shelf)
    one.keep_errored("a", b"pushed")
    shelf.meanwhile = [lambda: store(shelf).keep_errored("a", b"newer")]
    one.settle_errored("a")
    assert one.errored("a") == b"newer"
