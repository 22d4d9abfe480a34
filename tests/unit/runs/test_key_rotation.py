"""A store whose key is replaced: everything is readable afterwards, however often it was interrupted."""

from __future__ import annotations

import functools
import json

import pytest
from ciphers import KEY
from context_made import DEAD, ELSEWHERE, claim, take
from memory_blobs import MemoryBlobs
from plan_job import forged_blob

from holdfast.audit.entry import Entry
from holdfast.kernel.errors import Busy, UsageError
from holdfast.plans.status import Status
from holdfast.runs.key_rotation import RotationResult, rotate_key
from holdfast.runs.run import read_run
from holdfast.secrets.key_rotation import RotationKeys
from holdfast.secrets.keys import Key
from holdfast.store.approvals import Approval, ApprovalKind
from holdfast.store.blob_cipher import BlobCipher
from holdfast.store.blobs import StoredBlob
from holdfast.store.journal import ENDED, LINES, STARTED, FrameEncoder
from holdfast.store.leases import Holder, Lease
from holdfast.store.rotation import count_keys
from holdfast.store.run_records import journal_name
from holdfast.store.run_store import RunStore, StateRecord
from holdfast.store.states import StateSnapshot

NEW = Key.of(b"n" * 32)
KEYS = RotationKeys(KEY, NEW, None)
RECORD = StateRecord(place="p", lineage="l", serial=3, resources=2, seen="now")


class Killed(BaseException):
    pass


class Mortal(MemoryBlobs):
    """The process dies before the write with this number; None: it lives."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None

    def _live(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed

    def create(self, name: str, data: bytes) -> bool:
        self._live()
        return super().create(name, data)

    def replace(self, name: str, data: bytes, *, tag: str) -> str | None:
        self._live()
        return super().replace(name, data, tag=tag)

    def remove(self, name: str, *, tag: str | None = None) -> bool:
        self._live()
        return super().remove(name, tag=tag)


def _same(key: Key) -> Key:
    return key


def filled(blobs: MemoryBlobs) -> RunStore:
    """A store with one of everything, a journal in three pieces among it, and what a plan job wrote."""
    store = RunStore(blobs, lambda: KEY)
    snapshot = StateSnapshot(serial=3, lineage="l", resources=2, run="r", who="ada", why="apply", state=b"{}")
    store.states.add("a", snapshot, after=0)
    store.backups.add("b", snapshot, name="r")
    store.record("a", RECORD)
    store.mark_used("d", run="r", stack="a", who="ada")
    store.runs.finish("r", {"operation": "apply", "status": "applied"})
    approval = Approval(
        kind=ApprovalKind.APPROVAL, digest="d", stack="a", run="p", who={"name": "ada"}, reason="x", at="now"
    )
    store.approvals.add(approval)
    frames = FrameEncoder(store.cipher, "r")
    for piece, (kind, data) in enumerate(
        ((STARTED, b'{"pid": 1}'), (LINES, b"a\nb"), (ENDED, b'{"code": 0}')), 1
    ):
        blobs.create(journal_name("r", piece), frames.frame(kind, data))
    store.runs.prevent_start("never")
    planner = BlobCipher.of(store.id(), KEY.without_private())
    planned = json.dumps({"operation": "plan", "status": "planned", "digest": "d"}).encode()
    blobs.create("runs/p/outcome", planner.encrypt("runs/p/outcome", planned))
    forged = json.dumps({"operation": "apply", "status": "applied"}).encode()
    blobs.create("runs/f/outcome", planner.encrypt("runs/f/outcome", forged))
    return store


def rotated(blobs: MemoryBlobs, *, seen: list[str] | None = None) -> RotationResult:
    def record(store: RunStore, entry: Entry) -> None:
        assert store.key.id == (KEY.id if entry.outcome == "begun" else NEW.id)
        if seen is not None:
            seen.append(f"{entry.what} {entry.outcome}")

    return rotate_key(blobs, KEYS, record)


def assert_same_with_new_key(blobs: MemoryBlobs) -> None:
    store = RunStore(blobs, lambda: NEW)
    version = store.states.current("a")
    assert version is not None
    assert (version.serial, version.state, version.who) == (3, b"{}", "ada")
    assert store.backups.last("b") is not None
    assert store.last_seen("a") == RECORD
    assert (store.used("d") or {})["run"] == "r"
    assert [given.reason for given in store.approvals.of("d")] == ["x"]
    journal = store.runs.journal("r")
    assert (journal.started, journal.lines, journal.ended, journal.whole) == (
        {"pid": 1}, (b"a", b"b"), {"code": 0}, True
    )  # fmt: skip
    statuses = {run: (read_run(store, run) or pytest.fail(run)).status for run in ("r", "p", "f")}
    assert statuses == {"r": Status.APPLIED, "p": Status.PLANNED, "f": Status.UNKNOWN}
    assert set(count_keys(blobs)) == {NEW.id}


def test_everything_has_the_new_key_and_the_old_one_is_refused() -> None:
    """States, backups, records, approvals, journals; what was not signed is not signed now either."""
    blobs = MemoryBlobs()
    filled(blobs)
    seen: list[str] = []
    result = rotated(blobs, seen=seen)
    assert seen == ["rotate begun", "rotate done"]
    assert result.replaced == 9
    assert (result.unreadable, result.resumed) == ((), False)
    assert_same_with_new_key(blobs)
    with pytest.raises(UsageError) as caught:
        RunStore(blobs, lambda: KEY).states.current("a")
    assert caught.value.problem.code == "HF-KEY-14"
    with pytest.raises(UsageError) as caught:
        rotate_key(blobs, RotationKeys(NEW, KEY, None), lambda *_: None)
    assert caught.value.problem.code == "HF-KEY-14"
    again = rotated(blobs)
    assert (again.replaced, again.resumed) == (0, True)


@pytest.mark.parametrize("writes", range(15))
def test_it_may_be_killed_before_any_write_and_repeated(writes: int) -> None:
    """In between every other command is refused, whichever key it has."""
    blobs = Mortal()
    filled(blobs)
    blobs.left = writes
    with pytest.raises(Killed):
        rotated(blobs)
    blobs.left = None
    if writes:
        for key in (KEY, NEW):
            with pytest.raises(Busy) as caught:
                RunStore(blobs, functools.partial(_same, key)).states.current("a")
            assert caught.value.problem.code == "HF-KEY-13"
    rotated(blobs)
    assert_same_with_new_key(blobs)


def test_a_claimed_stack_or_a_held_lane_stops_it_and_nothing_changed() -> None:
    """Also one whose outcome is unknown. A lane of a dead process stops nothing."""
    blobs = MemoryBlobs()
    store = filled(blobs)
    take(store, claim(DEAD))
    with pytest.raises(Busy) as caught:
        rotated(blobs)
    assert caught.value.problem.code == "HF-KEY-16"
    assert "stack a" in caught.value.problem.message
    store.claims.release("a", "01RUN")
    holder = Holder(change="c", who="ada", what="apply", process=ELSEWHERE, since="now")
    lease = store.leases.take("lanes/aws", holder)
    assert isinstance(lease, Lease)
    with pytest.raises(Busy, match="lane aws"):
        rotated(blobs)
    assert store.states.current("a") is not None
    store.leases.release(lease)
    dead = Holder(change="c", who="ada", what="apply", process=DEAD, since="now")
    assert isinstance(store.leases.take("lanes/aws", dead), Lease)
    rotated(blobs)
    assert_same_with_new_key(blobs)


def test_a_run_that_claims_its_stack_during_a_rotation_gives_up() -> None:
    """It read the store's identity before, so it looks again when it has claimed the stack."""
    blobs = MemoryBlobs()
    store = filled(blobs)
    assert store.key == KEY
    document = json.loads((blobs.read("store.json") or pytest.fail("missing")).data)
    blobs.write("store.json", json.dumps({**document, "next_key": NEW.id}).encode())
    with pytest.raises(Busy) as caught:
        store.require_unchanged_key()
    assert caught.value.problem.code == "HF-KEY-13"


def test_what_the_old_key_cannot_read_is_named_and_stays() -> None:
    """Forged, damaged, of a third key or not a blob at all: the rotation goes on without it."""
    blobs = MemoryBlobs()
    store = filled(blobs)
    stray: dict[str, bytes] = {
        "approvals/d/forged": forged_blob(
            BlobCipher.of(store.id(), KEY.without_private()), "approvals/d/forged", b"{}"
        ),
        "used/other": BlobCipher.of(store.id(), Key.of(b"x" * 32)).encrypt("used/other", b"{}"),
        "states/a/0000000009": b"no blob",
        "runs/g/journal-000001": b"no journal",
    }
    for name, data in stray.items():
        blobs.write(name, data)
    result = rotated(blobs)
    assert set(result.unreadable) == set(stray)
    for name, data in stray.items():
        blob = blobs.read(name)
        assert isinstance(blob, StoredBlob)
        assert blob.data == data


def test_a_store_below_this_one_is_left_alone() -> None:
    """In S3 the prefix of one store may begin with that of another."""
    blobs = MemoryBlobs()
    filled(blobs)
    blobs.write("below/store.json", b"{}")
    blobs.write("below/states/a/0000000001", b"theirs")
    assert rotated(blobs).unreadable == ()
    assert (blobs.read("below/states/a/0000000001") or pytest.fail("missing")).data == b"theirs"
    assert_same_with_new_key(blobs)


def test_what_is_signed_with_a_retired_key_afterwards_is_not_signed_again() -> None:
    """Whoever has a leaked key can still write. The record of a late plan is converted, unsigned."""
    blobs = MemoryBlobs()
    store = filled(blobs)
    leaked = store.cipher
    rotated(blobs)
    approval, outcome = "approvals/d/forged", "runs/late/outcome"
    blobs.create(approval, leaked.encrypt(approval, b"{}"))
    blobs.create(outcome, leaked.encrypt(outcome, b'{"operation": "plan", "status": "planned"}'))
    blobs.create(journal_name("forged"), FrameEncoder(leaked, "forged").frame(ENDED, b'{"code": 0}'))
    again = rotated(blobs)
    assert again.unreadable == (approval, journal_name("forged"))
    assert again.replaced == 1
    late = RunStore(blobs, lambda: NEW).runs.outcome_blob("late")
    assert late is not None
    assert not late.signed


@pytest.mark.parametrize("stack", ["journal-app", "journal-000001"])
def test_a_stack_may_have_the_name_of_a_journal(stack: str) -> None:
    """Its state is no journal."""
    blobs = MemoryBlobs()
    store = filled(blobs)
    store.record(stack, RECORD)
    assert rotated(blobs).unreadable == ()
    assert RunStore(blobs, lambda: NEW).last_seen(stack) == RECORD


def test_pieces_of_a_journal_on_a_server_are_blobs_like_others() -> None:
    """Their client encrypted them for their run; the server encrypts that once more, and can only do so."""
    blobs = MemoryBlobs()
    store = RunStore(blobs, lambda: KEY)
    pieces = {journal_name("r", number): f"frame {number}".encode() for number in (1, 2)}
    for name, data in pieces.items():
        store.encrypted.create(name, data)
    assert count_keys(blobs) == {KEY.id: 2}
    assert (rotated(blobs).replaced, rotated(blobs).replaced) == (2, 0)
    again = RunStore(blobs, lambda: NEW).encrypted
    assert {name: blob.data for name in pieces if (blob := again.read(name)) is not None} == pieces
