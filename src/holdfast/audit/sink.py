"""A second place for the record: objects in S3, by day and run, as lines in clear that were cleaned before.

Shipping never harms a run: it happens at the end, in a thread, for so many seconds. The log itself is what
waits: what is not there yet is shipped by the next command. An object is created once and never replaced, so
the bucket can be one that forbids that.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.audit.chain import Piece, content_of, read
from holdfast.audit.layout import HEAD, SHIPPED, head_in, read_piece
from holdfast.kernel.errors import Failed, HoldfastError
from holdfast.store.blobs import BlobStore, encode_name
from holdfast.store.encrypted_blobs import to_json
from holdfast.store.place import open_blobs
from holdfast.store.run_store import RunStore

SECONDS: Final = 10.0
_AT_ONCE: Final = 8
_DAY: Final = 10
"""Letters of a time that say the day."""


class Shipped(Struct, frozen=True, kw_only=True):
    waiting: int
    """Lines that are not there yet."""
    why: str | None = None
    """What kept them from it."""

    @property
    def warning(self) -> str | None:
        """For a person; None where everything arrived."""
        if not self.waiting:
            return None
        lines = "1 line" if self.waiting == 1 else f"{self.waiting} lines"
        return f"{lines} of the audit log wait to be shipped ({self.why}); the next command tries again"


def ship(store: RunStore, address: str, variables: Mapping[str, str], *, seconds: float = SECONDS) -> Shipped:
    """Everything that waits, as far as it goes in this time. Raises nothing."""
    return ship_to(store, address, _opened(address, variables), seconds=seconds)


def ship_to(store: RunStore, address: str, sink: BlobStore | str, *, seconds: float = SECONDS) -> Shipped:
    """`sink` is a blob store, or says why there is none."""
    work = _Shipping(store, address, sink)
    thread = threading.Thread(target=work.run, name="holdfast-audit-sink", daemon=True)
    thread.start()
    thread.join(seconds)
    work.over.set()
    why = work.why or (f"{address} takes longer than {seconds:g} seconds" if thread.is_alive() else None)
    try:
        return Shipped(waiting=waiting(store, address), why=why)
    except (HoldfastError, OSError) as error:
        return Shipped(waiting=0, why=_words(error, address))


def waiting(store: RunStore, address: str) -> int:
    """How many lines have not been shipped to this address."""
    if store.empty or (head := store.encrypted.read(HEAD)) is None:
        return 0
    return max(0, head_in(head).seq - _position(store, address)[0])


def objects_of(piece: Piece) -> Iterator[tuple[str, bytes]]:
    """What becomes of a piece: always the same objects, however often it is tried. Pure."""
    found: dict[tuple[str, str], list[tuple[int, bytes]]] = {}
    for number, line in enumerate(piece.lines or (), start=piece.seq):
        document = read(line) or {}
        day = str(document.get("at") or "")[:_DAY] or "undated"
        run = document.get("run") or document.get("change") or "no-run"
        found.setdefault((day, str(run)), []).append((number, line))
    for (day, run), lines in found.items():
        yield (
            f"{encode_name(day)}/{encode_name(run)}/{lines[0][0]:012d}.jsonl",
            content_of(line for _, line in lines),
        )


class _Shipping:
    def __init__(self, store: RunStore, address: str, sink: BlobStore | str) -> None:
        self.over = threading.Event()
        self.why: str | None = None
        self._store = store
        self._address = address
        self._sink = sink

    def run(self) -> None:
        try:
            self._ship()
        except Exception as error:  # noqa: BLE001 - whatever it is, no run is harmed by it
            self.why = _words(error, self._address)

    def _ship(self) -> None:
        if isinstance(self._sink, str):
            self.why = self._sink
            return
        if self._store.empty:
            return
        at, _ = _position(self._store, self._address)
        while not self.over.is_set() and (piece := read_piece(self._store, at + 1)) is not None:
            if not piece.lines:
                self.why = f"line {at + 1} cannot be read"
                return
            _put_all(self._sink, tuple(objects_of(piece)), self.over)
            if self.over.is_set():
                return
            at += len(piece.lines)
            self._move_to(at)

    def _move_to(self, seq: int) -> None:
        """Forward only: another command ships at the same time, perhaps."""
        name = _name(self._address)
        while True:
            now, tag = _position(self._store, self._address)
            if now >= seq:
                return
            data = to_json({"seq": seq})
            if self._store.encrypted.create(name, data) if tag is None else self._moved(name, data, tag):
                return

    def _moved(self, name: str, data: bytes, tag: str) -> bool:
        return self._store.encrypted.replace(name, data, tag=tag) is not None


def _put_all(sink: BlobStore, objects: Sequence[tuple[str, bytes]], over: threading.Event) -> None:
    """Several at a time; the first error is raised when all have ended."""
    left = list(reversed(objects))
    errors: list[Exception] = []

    def some() -> None:
        while not errors and not over.is_set():
            try:
                name, data = left.pop()
            except IndexError:
                return
            try:
                _put(sink, name, data)
            except Exception as error:  # noqa: BLE001 - raised below, in the thread that asked
                errors.append(error)

    threads = [threading.Thread(target=some, daemon=True) for _ in range(min(_AT_ONCE, len(objects)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def _put(sink: BlobStore, name: str, data: bytes) -> None:
    """What is there already is the same, shipped by somebody before; or one of the two was changed."""
    if sink.create(name, data):
        return
    there = sink.read(name)
    if there is None or there.data != data:
        raise Failed(
            "HF-AUDIT-5",
            f"{sink.shown}/{name} holds other lines than the audit log: one of them was changed",
            hint="Compare it with `holdfast audit export`, and ask who may write to either.",
        )


def _opened(address: str, variables: Mapping[str, str]) -> BlobStore | str:
    try:
        return open_blobs(address, Path("/"), variables)
    except HoldfastError as error:
        return _words(error, address)


def _position(store: RunStore, address: str) -> tuple[int, str | None]:
    """The last line that was shipped, and the tag of that word."""
    opened = store.encrypted.read(_name(address))
    if opened is None:
        return 0, None
    return int(str(opened.document().get("seq") or 0)), opened.tag


def _name(address: str) -> str:
    return f"{SHIPPED}/{encode_name(address)}"


def _words(error: Exception, address: str) -> str:
    """The store's own words, which call every place in S3 a run store."""
    if isinstance(error, HoldfastError):
        return error.problem.message.replace(f"the run store {address}", address).replace(
            "the run store", "the audit log's place"
        )
    return f"{address}: {error}"
