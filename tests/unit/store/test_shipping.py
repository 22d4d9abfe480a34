"""A journal on its way to a store that is elsewhere."""

from __future__ import annotations

import threading
import time

import pytest
from memory_blobs import MemoryBlobs

from holdfast.kernel.errors import UsageError
from holdfast.store import shipping
from holdfast.store.blobs import LOST_LEASE
from holdfast.store.run_records import journal_name
from holdfast.store.shipping import Shipper, ship_rest

LONG = 30.0


class Troubled(MemoryBlobs):
    """Each create goes as it is told: done, not done, or done and the answer lost."""

    def __init__(self, *troubles: str) -> None:
        super().__init__()
        self.troubles = list(troubles)
        self.open = threading.Event()
        self.open.set()

    def create(self, name: str, data: bytes) -> bool:
        self.open.wait(LONG)
        trouble = self.troubles.pop(0) if self.troubles else "done"
        made = super().create(name, data) if trouble != "not done" else False
        if trouble != "done":
            raise OSError(trouble)
        return made


def arrived(blobs: MemoryBlobs, run: str = "r") -> bytes:
    """All pieces in their order."""
    pieces = [blobs.read(name) for name in blobs.names(f"runs/{run}")]
    return b"".join(piece.data for piece in pieces if piece is not None)


@pytest.mark.parametrize(
    "troubles", [(), ("not done",), ("done, and the answer lost",), ("not done", "done, and the answer lost")]
)
def test_everything_arrives_once_and_in_order(troubles: tuple[str, ...]) -> None:
    """Whatever is lost on the way: no byte is missing, none comes twice."""
    said: list[str] = []
    blobs = Troubled(*troubles)
    shipper = Shipper(blobs, "r", on_failure=said.append)
    for number in range(20):
        shipper.append(f"<{number}>".encode())
        if number % 7 == 0:
            shipper.flush()
    assert shipper.finish(LONG)
    assert arrived(blobs) == b"".join(f"<{number}>".encode() for number in range(20))
    assert len(said) == len(troubles)


def test_what_grows_is_shipped_without_being_urged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has to ask: another machine sees an apply go on while it goes on."""
    monkeypatch.setattr(shipping, "_DELAY", 0.0)
    came = threading.Event()

    class Tells(MemoryBlobs):
        def create(self, name: str, data: bytes) -> bool:
            created = super().create(name, data)
            came.set()
            return created

    shipper = Shipper(Tells(), "r")
    shipper.append(b"started")
    assert came.wait(LONG)
    assert shipper.finish(LONG)


def test_what_is_urged_arrives_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits until all has arrived finds it there, however long others may be behind."""
    monkeypatch.setattr(shipping, "_DELAY", 3600.0)
    blobs = Troubled()
    shipper = Shipper(blobs, "r")
    shipper.append(b"started")
    assert shipper.wait_until_shipped(LONG)
    assert arrived(blobs) == b"started"
    shipper.finish(LONG)


def test_a_store_that_does_not_answer_holds_nothing_up() -> None:
    """The one who writes goes on; the end says that it has not arrived, and it arrives when it can."""
    blobs = Troubled()
    blobs.open.clear()
    shipper = Shipper(blobs, "r")
    shipper.append(b"one")
    assert not shipper.wait_until_shipped(0.05)
    shipper.append(b"two")
    assert not shipper.finish(0.05)
    assert arrived(blobs) == b""
    blobs.open.set()
    assert shipper.finish(LONG)
    assert arrived(blobs) == b"onetwo"


class Fenced(MemoryBlobs):
    def create(self, name: str, data: bytes) -> bool:
        del name, data
        raise UsageError(LOST_LEASE, "the stack is another run's")


def test_a_run_that_lost_its_stack_does_not_wait_at_its_end() -> None:
    """Its unsaved state is collected then, which must not be held up by a journal that cannot arrive."""
    shipper = Shipper(Fenced(), "r")
    shipper.append(b"one")
    before = time.monotonic()
    assert not shipper.finish(LONG)
    assert time.monotonic() - before < LONG / 2


def test_a_journal_of_another_is_not_added_to() -> None:
    """If the run was prevented from starting, nothing arrives, and nothing is reported as shipped."""
    blobs = Troubled()
    blobs.create(journal_name("r"), b"")
    shipper = Shipper(blobs, "r")
    shipper.append(b"started")
    assert not shipper.wait_until_shipped(0.05)
    assert arrived(blobs) == b""


@pytest.mark.parametrize("there", [0, 3, 7])
def test_what_a_dead_process_left_is_brought_after_it(there: int) -> None:
    """What had arrived stays, the rest follows, and a second time brings nothing more."""
    blobs, written = MemoryBlobs(), b"0123456"
    if there:
        blobs.create(journal_name("r", 1), written[:there])
    for _ in range(2):
        ship_rest(blobs, "r", written)
    assert arrived(blobs) == written


def test_what_a_dead_process_left_follows_every_piece_and_nothing_else() -> None:
    """Several pieces had arrived, and the run's folder holds other records beside its journal."""
    blobs, written = MemoryBlobs(), b"0123456"
    for piece, data in enumerate((b"01", b"2", b"34"), start=1):
        blobs.create(journal_name("r", piece), data)
    blobs.create("runs/r/pulse", b"a moment ago")
    ship_rest(blobs, "r", written)
    assert blobs.remove("runs/r/pulse")
    assert arrived(blobs) == written


def test_nothing_is_brought_after_a_journal_of_another() -> None:
    """What does not go on where the store ends is not added: a mixed journal could never be read."""
    blobs = MemoryBlobs()
    blobs.create(journal_name("r", 1), b"abc")
    ship_rest(blobs, "r", b"0123456")
    assert arrived(blobs) == b"abc"
