"""Versions of a kept state, and copies of states that lie elsewhere."""

from __future__ import annotations

import pytest
from ciphers import encrypted_on
from memory_blobs import MemoryBlobs
from recovery_made import LINEAGE, body
from recovery_made import state as state_file

from holdfast.kernel.errors import UnknownOutcome
from holdfast.store.states import Backups, ManagedStates, StateSnapshot
from holdfast.terraform.statefile.model import State, read_state


@pytest.fixture
def blobs() -> MemoryBlobs:
    return MemoryBlobs()


@pytest.fixture
def states(blobs: MemoryBlobs) -> ManagedStates:
    return ManagedStates(encrypted_on(blobs))


@pytest.fixture
def backups(blobs: MemoryBlobs) -> Backups:
    return Backups(encrypted_on(blobs))


def new(serial: int, state: bytes = b"{}") -> StateSnapshot:
    return StateSnapshot(
        serial=serial, lineage="l", resources=1, run="r", who="ann", why="apply", state=state
    )


def added(states: ManagedStates, serial: int, *, after: int, state: bytes = b"{}") -> StateSnapshot:
    version = states.add("a/b", new(serial, state), after=after)
    assert version is not None
    return version


def test_a_version_comes_back_to_the_byte(states: ManagedStates) -> None:
    """Whatever bytes a state is of: line ends, nothing at all, no text."""
    for number, state in enumerate((b'{\n  "a": 1\n}\n', b"", b"\n\n", bytes(range(256)))):
        version = added(states, number, after=number, state=state)
        assert version.number == number + 1
        assert states.version("a/b", number + 1) == version
        assert states.current("a/b") == version
        assert version.state == state
    assert states.stacks() == ("a/b",)
    assert states.numbers("a") == ()


def test_of_two_writers_one_is_refused(states: ManagedStates) -> None:
    """Who has not seen the last version adds none."""
    added(states, 1, after=0)
    assert states.add("a/b", new(2, b"other"), after=0) is None
    added(states, 2, after=1)
    assert states.add("a/b", new(3), after=5) is None
    assert states.numbers("a/b") == (1, 2)


class Overtaken(MemoryBlobs):
    """Another writer's version is there just before ours is created."""

    def create(self, name: str, data: bytes) -> bool:
        super().create(name, b"the other one")
        return super().create(name, data)


def test_a_writer_who_is_overtaken_writes_over_nothing() -> None:
    """Both saw the same last version: the one who is second is told, and the first one's stays."""
    blobs = Overtaken()
    states = ManagedStates(encrypted_on(blobs))
    assert states.add("a/b", new(1), after=0) is None
    item = blobs.read("states/a%2Fb/0000000001")
    assert item is not None
    assert item.data == b"the other one"


def test_a_dropped_number_is_not_given_again(states: ManagedStates) -> None:
    """A writer that slept while versions came and went is not told that its state was saved."""
    for number in range(4):
        added(states, number, after=number)
    for number in (1, 2, 3):
        states.drop("a/b", number)
    assert states.add("a/b", new(9, b"late"), after=1) is None
    assert states.numbers("a/b") == (4,)


def test_the_current_version_is_never_dropped(states: ManagedStates) -> None:
    """Not even if the caller takes it for an old one."""
    added(states, 1, after=0)
    states.drop("a/b", 1)
    assert states.numbers("a/b") == (1,)
    added(states, 2, after=1)
    states.drop("a/b", 2)
    states.drop("a/b", 7)
    assert states.numbers("a/b") == (1, 2)


class Withdrawn(MemoryBlobs):
    """The newest version is withdrawn between listing the names and reading it."""

    def __init__(self) -> None:
        super().__init__()
        self.withdraws: str | None = None

    def names(self, folder: str) -> tuple[str, ...]:
        found = super().names(folder)
        if self.withdraws is not None:
            self.remove(self.withdraws)
            self.withdraws = None
        return found


def test_a_version_that_went_is_not_an_absent_state() -> None:
    """There is a state while one version is left: Terraform must never be told that there is none."""
    blobs = Withdrawn()
    states = ManagedStates(encrypted_on(blobs))
    added(states, 1, after=0, state=b"the one")
    added(states, 2, after=1)
    blobs.withdraws = "states/a%2Fb/0000000002"
    current = states.current("a/b")
    assert current is not None
    assert current.state == b"the one"


@pytest.mark.parametrize("name", ["notes.txt", "0000000001~", "-1", "latest", "\N{ARABIC-INDIC DIGIT ONE}"])
def test_a_stranger_among_the_versions_is_an_error(
    states: ManagedStates, blobs: MemoryBlobs, name: str
) -> None:
    """A foreign name is reported: it is neither a version nor a crash."""
    added(states, 1, after=0)
    blobs.write(f"states/a%2Fb/{name}", b"hello")
    with pytest.raises(UnknownOutcome) as caught:
        states.current("a/b")
    assert caught.value.problem.code == "HF-STORE-2"
    assert name in caught.value.problem.message


def test_a_damaged_version_is_an_error(states: ManagedStates, blobs: MemoryBlobs) -> None:
    """An emptied, cut or exchanged version is never "no state", nor the one before it."""
    added(states, 1, after=0, state=b"one")
    added(states, 2, after=1, state=b"two")
    first, second = (blobs.read(f"states/a%2Fb/000000000{one}") for one in (1, 2))
    assert first is not None
    assert second is not None
    for bad in (b"", second.data[:-3], first.data, b"{}"):
        blobs.write("states/a%2Fb/0000000002", bad)
        with pytest.raises(UnknownOutcome):
            states.current("a/b")


def test_a_copy_says_what_its_state_says() -> None:
    """Serial, lineage, and how many objects Terraform made: a lost state is known by them."""
    content = state_file(
        {"lab_object.a": [body("1"), body("2", key=1)], "lab_object.b": [body("3")]}, serial=5
    )
    found = read_state(content)
    assert isinstance(found, State)
    copy = StateSnapshot.of(content, found, run="r", who="ann", why="apply")
    assert (copy.serial, copy.lineage, copy.resources) == (5, LINEAGE, 3)
    assert copy.state == content


def test_a_copy_of_a_format_that_is_not_known_is_an_error(blobs: MemoryBlobs) -> None:
    """A newer Holdfast may have written it: what it says of the state is not guessed at."""
    encrypted = encrypted_on(blobs)
    assert encrypted.create("states/a%2Fb/0000000001", b'{"version": 2, "serial": 1}\n{}')
    with pytest.raises(UnknownOutcome, match="unknown format"):
        ManagedStates(encrypted).current("a/b")


def test_backups_come_back_oldest_first(backups: Backups) -> None:
    """Each as it was, by its name; the last one is the newest."""
    made = [
        backups.add("a", new(1, state), name=name)
        for name, state in (("01A", b"one"), ("01B", b"two\n"), ("01C", b""))
    ]
    assert backups.names("a") == tuple(one.name for one in made)
    assert [backups.read("a", one.name) for one in made] == made
    assert backups.last("a") == made[-1]
    assert backups.last("b") is None
    backups.drop("a", made[0].name)
    assert backups.read("a", made[0].name) is None
    assert len(backups.names("a")) == 2


def test_a_backup_is_never_overwritten(backups: Backups) -> None:
    """The copy from before a run stays that one; a copy that could not be made is not called made."""

    def add(state: bytes) -> bytes:
        return backups.add("a", new(1, state), name="r").state

    assert add(b"before") == b"before"
    assert add(b"before") == b"before"
    with pytest.raises(UnknownOutcome):
        add(b"after")
    kept = backups.read("a", "r")
    assert kept is not None
    assert kept.state == b"before"
