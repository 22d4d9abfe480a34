"""What the supervisor does beside Terraform: the journal of a run, and the local state backend."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from ciphers import CIPHER, encrypted_on
from memory_backend import state
from memory_blobs import MemoryBlobs

from holdfast.store import shipping
from holdfast.store.blobs import BlobStore, EncryptedBlobs
from holdfast.store.journal import Journal, read_journal
from holdfast.store.place import FolderBlobs
from holdfast.store.run_records import Claims, RunRecords, StoredClaim, journal_name
from holdfast.store.states import ManagedStates
from holdfast.supervisor import services
from holdfast.supervisor.services import JournalRecorder, ManagedStateBackend, RunObserver
from holdfast.terraform.argv import UNSAVED_FILE
from holdfast.terraform.backend.rules import read_header
from holdfast.terraform.backend.server import Refusal, StateServer
from holdfast.terraform.engine.worker import NOT_STARTED

LONG = 30.0


class Deaf(MemoryBlobs):
    """Nothing arrives, until it is open."""

    def __init__(self) -> None:
        super().__init__()
        self.open = threading.Event()

    def create(self, name: str, data: bytes) -> bool:
        self.open.wait(LONG)
        return super().create(name, data)


@pytest.fixture(autouse=True)
def _words_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Terraform says lies in the test's own folder."""
    monkeypatch.setattr(services, "buffer_path", lambda run: str(tmp_path / f"holdfast-0-{run}"))


def journalled(folder: Path, blobs: BlobStore | None = None) -> JournalRecorder:
    wanted = {"run": "r1", "spool": str(folder / "spool")}
    journal = JournalRecorder(encrypted_on(blobs or FolderBlobs(folder / "store")), wanted, folder)
    assert journal.output_buffer is not None
    Path(journal.output_buffer).write_bytes(b"said\n")
    return journal


def spooled(folder: Path) -> Path:
    return folder / "spool" / journal_name("r1")


def read(path: Path) -> Journal:
    return read_journal(CIPHER, "r1", path.read_bytes())


def test_a_journal_has_a_beginning_words_and_an_end(tmp_path: Path) -> None:
    """What Terraform said is in the journal, and then no longer in memory."""
    journal = journalled(tmp_path)
    assert journal.begin() is None
    assert journal.record(b"one\ntwo\n")
    assert journal.end(0) == {}
    found = read(tmp_path / "store" / journal_name("r1"))
    assert found.lines == (b"one", b"two")
    assert found.ended is not None
    assert (found.ended["code"], found.ended["unsaved"], found.ended["forced"]) == (0, False, False)
    assert journal.output_buffer is not None
    assert not Path(journal.output_buffer).exists()


def test_a_state_that_could_not_be_saved_is_part_of_the_end(tmp_path: Path) -> None:
    """A run that left one must never pass for applied."""
    journal = journalled(tmp_path)
    assert journal.begin() is None
    (tmp_path / UNSAVED_FILE).write_bytes(state(1))
    journal.end(0, forced=True)
    ended = read(tmp_path / "store" / journal_name("r1")).ended
    assert ended is not None
    assert (ended["unsaved"], ended["forced"]) == (True, True)


def test_without_room_in_memory_terraform_is_stopped_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words that Terraform cannot write are lost: it is asked to stop before, and what it said stays."""

    def full(buffer: str) -> None:
        raise OSError(28, "no room", buffer)

    journal = journalled(tmp_path)
    assert journal.begin() is None
    monkeypatch.setattr(services, "require_space", full)
    assert not journal.record(b"one\n")
    assert journal.record(b"two\n")
    assert "no room" in str(journal.end(1)["journal_failed"])
    assert read(tmp_path / "store" / journal_name("r1")).ended is None
    assert journal.output_buffer is not None
    assert Path(journal.output_buffer).exists()


def test_terraform_is_not_begun_before_its_start_is_known_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever finds no word of a start believes that there was none; the journal here says the same."""
    monkeypatch.setattr(services, "_SHIP_SECONDS", 0.0)
    blobs = Deaf()
    why = journalled(tmp_path, blobs).begin()
    blobs.open.set()
    assert why is not None
    assert "does not respond" in why
    ended = read(spooled(tmp_path)).ended
    assert ended is not None
    assert ended["code"] == NOT_STARTED


def test_a_journal_stays_on_this_machine_until_all_of_it_has_arrived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next command ships the file."""
    blobs = Deaf()
    blobs.open.set()
    journal = journalled(tmp_path, blobs)
    assert journal.begin() is None
    blobs.open.clear()
    monkeypatch.setattr(services, "_SHIP_SECONDS", 0.0)
    told = journal.end(0)
    kept = read(spooled(tmp_path))
    blobs.open.set()
    assert told == {}
    assert kept.ended is not None


def test_a_journal_that_arrived_is_gone_from_this_machine(tmp_path: Path) -> None:
    """All of it is in the store."""
    blobs = MemoryBlobs()
    journal = journalled(tmp_path, blobs)
    assert journal.begin() is None
    journal.record(b"one\n")
    assert journal.end(0) == {}
    assert not spooled(tmp_path).exists()
    found = RunRecords(encrypted_on(blobs)).journal("r1")
    assert found.lines == (b"one",)
    assert found.ended is not None


def test_an_object_that_is_made_is_known_elsewhere_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should this machine be thrown away now, another one finds it in the journal."""
    monkeypatch.setattr(shipping, "_DELAY", 3600.0)
    came = threading.Event()

    class Tells(MemoryBlobs):
        def create(self, name: str, data: bytes) -> bool:
            created = super().create(name, data)
            if name == journal_name("r1", 2):
                came.set()
            return created

    journal = journalled(tmp_path, Tells())
    assert journal.begin() is None
    journal.record(json.dumps({"type": "apply_complete"}).encode())
    assert came.wait(LONG)
    journal.end(0)


# The state behind the server.


@pytest.fixture
def encrypted() -> EncryptedBlobs:
    return encrypted_on(MemoryBlobs())


@pytest.fixture
def states(encrypted: EncryptedBlobs) -> ManagedStates:
    return ManagedStates(encrypted)


def keeper(encrypted: EncryptedBlobs, *, run: str = "r1", write: bool = True) -> ManagedStateBackend:
    return ManagedStateBackend(encrypted, stack="s", run=run, who="ann", why="apply", write=write)


def test_a_state_is_saved_behind_the_one_that_was_read(
    encrypted: EncryptedBlobs, states: ManagedStates
) -> None:
    """One version after the other, each with who wrote it."""
    Claims(encrypted).take(StoredClaim(stack="s", run="r1", intent={}))
    ours = keeper(encrypted)
    assert ours.read() is None
    save(ours, state(1))
    save(ours, state(2))
    assert ours.read() == state(2)
    assert states.numbers("s") == (1, 2)
    version = states.current("s")
    assert version is not None
    assert (version.serial, version.run, version.who, version.why) == (2, "r1", "ann", "apply")


def save(ours: ManagedStateBackend, new: bytes) -> None:
    ours.write(new, read_header(new))


def test_one_command_reads_one_version(encrypted: EncryptedBlobs, states: ManagedStates) -> None:
    """A version of another run does not appear between two reads, and is never followed unread."""
    Claims(encrypted).take(StoredClaim(stack="s", run="r1", intent={}))
    save(keeper(encrypted), state(1))
    ours, other = keeper(encrypted), keeper(encrypted)
    assert ours.read() == other.read() == state(1)
    save(other, state(2))
    assert ours.read() == state(1)
    assert refused(ours, state(3)) == 409
    assert states.numbers("s") == (1, 2)


def refused(ours: ManagedStateBackend, new: bytes) -> int:
    with pytest.raises(Refusal) as caught:
        save(ours, new)
    return caught.value.status


def test_a_version_that_nobody_read_is_never_followed(
    encrypted: EncryptedBlobs, states: ManagedStates
) -> None:
    """What somebody else saved meanwhile is not buried under a state that knows nothing of it."""
    Claims(encrypted).take(StoredClaim(stack="s", run="r1", intent={}))
    ours, other = keeper(encrypted), keeper(encrypted)
    assert ours.read() is None
    save(other, state(1))
    assert refused(ours, state(5)) == 409
    assert states.numbers("s") == (1,)


def test_a_state_is_saved_only_by_the_run_that_has_the_stack(
    encrypted: EncryptedBlobs, states: ManagedStates
) -> None:
    """Not without a claim, nor under another's, nor by a command that only reads."""
    assert refused(keeper(encrypted), state(1)) == 409
    Claims(encrypted).take(StoredClaim(stack="s", run="r1", intent={}))
    assert refused(keeper(encrypted, run="r2"), state(1)) == 409
    assert refused(keeper(encrypted, write=False), state(1)) == 403
    assert states.numbers("s") == ()


@pytest.fixture
def door() -> Iterator[StateServer]:
    with socket.socket() as listening:
        yield StateServer(listening, user="u", password="p")


def stands_for_a_state(door: StateServer) -> bool:
    return door._rules is not None


def test_the_door_is_shut_where_nothing_is_begun(
    tmp_path: Path, encrypted: EncryptedBlobs, door: StateServer
) -> None:
    """A command whose journal cannot be written has no state to read or write."""
    blobs = FolderBlobs(tmp_path / "store")
    assert RunRecords(encrypted_on(blobs)).prevent_start("r1")
    attended = RunObserver(journalled(tmp_path, blobs), door, keeper(encrypted))
    assert attended.begin() is not None
    assert not stands_for_a_state(door)


def test_the_door_is_shut_after_each_command(encrypted: EncryptedBlobs, door: StateServer) -> None:
    """The next command of the same process finds neither the state nor the refusals of the one before."""
    attended = RunObserver(None, door, keeper(encrypted))
    assert attended.begin() is None
    assert stands_for_a_state(door)
    door.refusals.append("no")
    assert attended.end(0) == {"refusals": ["no"]}
    assert not stands_for_a_state(door)
    assert RunObserver(None, door, None).end(0) == {"refusals": []}
