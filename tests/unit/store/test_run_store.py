"""The run store on a blob store in memory: whose it is, and what counts as absent."""

from __future__ import annotations

import json

import pytest
from memory_blobs import MemoryBlobs

from holdfast.kernel.errors import Exit, HoldfastError, UnknownOutcome, UsageError
from holdfast.secrets.keys import Key
from holdfast.store.run_store import RunStore, StateRecord

KEY = Key.of(b"k" * 32)
OTHER = Key.of(b"o" * 32)
SEEN = StateRecord(place="kept:a", lineage="l", serial=3, resources=2, seen="2026-01-02T03:04:05+00:00")


def store(blobs: MemoryBlobs, key: Key = KEY) -> RunStore:
    return RunStore(blobs, lambda: key)


@pytest.fixture
def blobs() -> MemoryBlobs:
    return MemoryBlobs()


def everything(blobs: MemoryBlobs) -> dict[str, bytes]:
    """All that lies there, by name."""
    return dict(blobs._held)


def fill(one: RunStore) -> None:
    one.mark_used("d1", run="r1", stack="a/b", who="ann")
    one.record("a/b", SEEN)
    one.keep_errored("a/b", b"unsaved")
    one.runs.finish("r1", {"status": "applied"})


def test_reading_writes_nothing(blobs: MemoryBlobs) -> None:
    """Who only looks leaves no store behind, and needs no key."""

    def no_key() -> Key:
        raise AssertionError

    one = RunStore(blobs, no_key)
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
    assert everything(blobs) == {}


def test_the_store_names_its_key(blobs: MemoryBlobs) -> None:
    """The id of the key is written down with the first word, and the key itself is not."""
    one = store(blobs)
    one.mark_used("d1", run="r1", stack="a", who="ann")
    identity = json.loads(everything(blobs)["store.json"])
    assert identity["key"] == KEY.id
    assert identity["id"] == one.id() == store(blobs).id()
    assert not one.empty


def test_another_key_is_refused_by_name(blobs: MemoryBlobs) -> None:
    """With another key nothing is read, nothing is written, and both keys are named."""
    fill(store(blobs))
    before = everything(blobs)
    stranger = store(blobs, OTHER)
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
    assert everything(blobs) == before


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'"x"', b"\xff"])
def test_an_unreadable_identity_stops_everything(blobs: MemoryBlobs, content: bytes) -> None:
    """A store whose own record is damaged is not taken for a new one."""
    blobs.write("store.json", content)
    with pytest.raises(UnknownOutcome) as caught:
        store(blobs).mark_used("d1", run="r", stack="a", who="ann")
    assert caught.value.problem.code == "HF-STORE-2"
    assert everything(blobs) == {"store.json": content}


@pytest.mark.parametrize("version", [0, 2, 4, "3", None])
def test_an_unknown_format_is_refused(blobs: MemoryBlobs, version: object) -> None:
    """A newer Holdfast may have written it; guessing would damage it."""
    blobs.write("store.json", json.dumps({"version": version, "id": "x", "key": KEY.id}).encode())
    with pytest.raises(UnknownOutcome) as caught:
        store(blobs).used("d1") or store(blobs).id()
    assert caught.value.problem.code == "HF-STORE-2"


def test_what_is_damaged_is_never_absent(blobs: MemoryBlobs) -> None:
    """Changed, cut, emptied, swapped, not encrypted, or under another key: an error that says what it is."""
    fill(store(blobs))
    names = [name for name in everything(blobs) if name != "store.json"]
    assert len(names) == 4
    readers = {
        "used": lambda one: one.used("d1"),
        "records": lambda one: one.last_seen("a/b"),
        "errored": lambda one: one.errored("a/b"),
        "runs": lambda one: one.runs.outcome("r1"),
    }
    for name in names:
        good = everything(blobs)[name]
        other = next(everything(blobs)[one] for one in names if one != name)
        for bad in (b"", good[:-1], good[:20], good[:-1] + bytes([good[-1] ^ 1]), other, b'{"run":"r1"}'):
            blobs.write(name, bad)
            with pytest.raises(HoldfastError) as caught:
                readers[name.split("/")[0]](store(blobs))
            assert caught.value.problem.code == "HF-STORE-2"
            assert caught.value.exit is Exit.UNKNOWN
            assert name in caught.value.problem.message
            assert caught.value.problem.message.isprintable()
        blobs.write(name, good)


def test_a_thing_of_another_key_is_named(blobs: MemoryBlobs) -> None:
    """A file that was copied here from another store is neither believed nor passed over."""
    elsewhere = MemoryBlobs()
    fill(store(elsewhere, OTHER))
    one = store(blobs)
    one.mark_used("d0", run="r0", stack="a", who="ann")
    blobs.write("used/d1", everything(elsewhere)["used/d1"])
    with pytest.raises(UsageError) as caught:
        one.used("d1")
    assert caught.value.problem.code == "HF-KEY-7"
    assert OTHER.id in caught.value.problem.message
    assert caught.value.problem.message.isprintable()


def test_a_damaged_mark_is_still_a_mark(blobs: MemoryBlobs) -> None:
    """A plan whose mark cannot be read was used: it is not used again."""
    one = store(blobs)
    assert one.mark_used("d1", run="r1", stack="a", who="ann")
    blobs.write("used/d1", b"")
    assert not one.mark_used("d1", run="r2", stack="a", who="bob")


def test_records_come_back_as_they_were(blobs: MemoryBlobs) -> None:
    """What was last seen of a state, of stacks of any name, until it is forgotten."""
    one = store(blobs)
    for stack in ("a/b", ".hidden", "x@y+z"):
        one.record(stack, SEEN)
    assert store(blobs).last_seen(".hidden") == SEEN
    one.forget("a/b")
    assert one.last_seen("a/b") is None


def test_an_unsaved_state_is_never_overwritten(blobs: MemoryBlobs) -> None:
    """The newest is the one that is given; the older ones stay, and so does what was pushed."""
    one = store(blobs)
    for state in (b"one", b"two", b"three"):
        one.keep_errored("a", state)
    assert one.errored("a") == b"three"
    one.resolve_errored("a")
    assert one.errored("a") is None
    one.resolve_errored("a")
    kept = {one.encrypted.read(name).data for name in one.encrypted.names("errored/a")}  # type: ignore[union-attr]
    assert kept == {b"one", b"two", b"three"}


class Interfering(MemoryBlobs):
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
    blobs = Interfering()
    one = store(blobs)
    one.keep_errored("a", b"first")
    blobs.meanwhile = [lambda: store(blobs).keep_errored("a", b"between")]
    one.keep_errored("a", b"last")
    kept = {one.encrypted.read(name).data for name in one.encrypted.names("errored/a")}  # type: ignore[union-attr]
    assert kept == {b"first", b"between", b"last"}
    assert one.errored("a") == b"last"


def test_settling_takes_only_what_was_pushed() -> None:
    """A state that could not be saved meanwhile still stops the stack."""
    blobs = Interfering()
    one = store(blobs)
    one.keep_errored("a", b"pushed")
    blobs.meanwhile = [lambda: store(blobs).keep_errored("a", b"newer")]
    one.resolve_errored("a")
    assert one.errored("a") == b"newer"


class Notes(MemoryBlobs):
    """A store that notes whether each write had to be on disk."""

    def __init__(self) -> None:
        super().__init__()
        self.durable: dict[str, bool] = {}

    def write(self, name: str, data: bytes, *, durable: bool = True) -> None:
        self.durable[name] = durable
        super().write(name, data)


def test_writes_are_durable_by_default() -> None:
    """An outcome outlives a crash of the machine; one that can be told again need not."""
    blobs = Notes()
    runs = store(blobs).runs
    runs.finish("r1", {"status": "applied"})
    runs.finish("r2", {"status": "planned"}, durable=False)
    assert (blobs.durable["runs/r1/outcome"], blobs.durable["runs/r2/outcome"]) == (True, False)


@pytest.mark.parametrize("data", [b"[]", b"null", b'"applied"'])
def test_a_record_that_is_no_document_is_an_error(blobs: MemoryBlobs, data: bytes) -> None:
    """It is neither absent nor taken for what it is not."""
    one = store(blobs)
    one.encrypted.write("runs/r1/outcome", data)
    with pytest.raises(UnknownOutcome) as caught:
        one.runs.outcome("r1")
    assert caught.value.problem.code == "HF-STORE-2"
