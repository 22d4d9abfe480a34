"""Ships the audit log to S3: redacted lines, unencrypted, by day and run.

Shipping never harms a run: it happens at the end, in a thread, within a time limit, and the next command
ships the rest. An object is created once and never replaced, so the bucket may forbid that.

A sink receives nothing until it is accepted (`changes.audit_sink` says by what); the store remembers that.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.audit.chain import Piece, content_of, read
from holdfast.audit.layout import HEAD, SHIPPED, head_from, read_piece
from holdfast.kernel.errors import Failed, HoldfastError
from holdfast.kernel.text import plural
from holdfast.store.blobs import BlobStore, encode_name, to_json
from holdfast.store.place import open_blobs
from holdfast.store.run_store import RunStore

_ACCEPTED: Final = "sinks"
"""Not below `audit/`: it counts only with the key that may apply."""
SECONDS: Final = 10.0
_PARALLEL: Final = 8
_DAY: Final = 10
"""The length of the date in a time."""


class Shipped(Struct, frozen=True, kw_only=True):
    waiting: int
    """Lines that have not been shipped."""
    why: str | None = None
    """The reason."""

    @property
    def warning(self) -> str | None:
        """None if everything was shipped."""
        if not self.waiting:
            return None
        entries = plural(self.waiting, "entry", "entries")
        return f"{entries} of the audit log could not be shipped ({self.why}); the next command tries again"


def is_accepted(store: RunStore, address: str) -> bool:
    return not store.empty and store.encrypted.read(_accepted(address)) is not None


def accept(store: RunStore, address: str) -> None:
    """Durable. Accepting it again changes nothing."""
    store.encrypted.create(_accepted(address), to_json({"sink": address}))


def not_accepted(address: str) -> str:
    return (
        f"nothing was sent to {address}, a new destination of the audit log: "
        "an apply outside of a pull request must accept it first"
    )


def ship(store: RunStore, address: str, variables: Mapping[str, str], *, seconds: float = SECONDS) -> Shipped:
    """As much as possible within the time. Raises nothing."""
    return ship_to(store, address, _open(address, variables), seconds=seconds)


def ship_to(store: RunStore, address: str, sink: BlobStore | str, *, seconds: float = SECONDS) -> Shipped:
    """`sink` is a blob store, or the reason why there is none."""
    shipper = _LogShipper(store, address, sink)
    thread = threading.Thread(target=shipper.run, name="holdfast-audit-sink", daemon=True)
    thread.start()
    thread.join(seconds)
    shipper.stop.set()
    why = shipper.why or (
        f"{address} did not respond within {seconds:g} seconds" if thread.is_alive() else None
    )
    try:
        return Shipped(waiting=waiting(store, address), why=why)
    except (HoldfastError, OSError) as error:
        return Shipped(waiting=0, why=_reason(error, address))


def waiting(store: RunStore, address: str) -> int:
    """How many lines have not been shipped to this address."""
    if store.empty or (head := store.encrypted.read(HEAD)) is None:
        return 0
    return max(0, head_from(head).seq - _position(store, address)[0])


def objects_of(piece: Piece) -> Iterator[tuple[str, bytes]]:
    """The objects of a piece: the same in every attempt. Pure."""
    groups: dict[tuple[str, str], list[tuple[int, bytes]]] = {}
    for number, line in enumerate(piece.lines or (), start=piece.seq):
        document = read(line) or {}
        day = str(document.get("at") or "")[:_DAY] or "undated"
        run = document.get("run") or document.get("change") or "no-run"
        groups.setdefault((day, str(run)), []).append((number, line))
    for (day, run), lines in groups.items():
        yield (
            f"{encode_name(day)}/{encode_name(run)}/{lines[0][0]:012d}.jsonl",
            content_of(line for _, line in lines),
        )


class _LogShipper:
    def __init__(self, store: RunStore, address: str, sink: BlobStore | str) -> None:
        self.stop = threading.Event()
        self.why: str | None = None
        self._store = store
        self._address = address
        self._sink = sink

    def run(self) -> None:
        try:
            self._ship()
        except Exception as error:  # noqa: BLE001 - it must not harm the run
            self.why = _reason(error, self._address)

    def _ship(self) -> None:
        if isinstance(self._sink, str):
            self.why = self._sink
            return
        if self._store.empty:
            return
        at, _ = _position(self._store, self._address)
        while not self.stop.is_set() and (piece := read_piece(self._store, at + 1)) is not None:
            if not piece.lines:
                self.why = f"entry {at + 1} is unreadable"
                return
            _put_all(self._sink, tuple(objects_of(piece)), self.stop)
            if self.stop.is_set():
                return
            at += len(piece.lines)
            self._move_to(at)
        if not self.stop.is_set() and waiting(self._store, self._address):
            self.why = f"entry {at + 1} is missing"

    def _move_to(self, seq: int) -> None:
        """Forward only: another command may ship at the same time."""
        name = _name(self._address)
        while True:
            now, tag = _position(self._store, self._address)
            if now >= seq:
                return
            data = to_json({"seq": seq})
            encrypted = self._store.encrypted
            if (
                encrypted.create(name, data)
                if tag is None
                else encrypted.replace(name, data, tag=tag) is not None
            ):
                return


def _put_all(sink: BlobStore, objects: Sequence[tuple[str, bytes]], stop: threading.Event) -> None:
    """Several at a time; raises the first error when all threads have ended."""
    left = list(reversed(objects))
    errors: list[Exception] = []

    def work() -> None:
        while not errors and not stop.is_set():
            try:
                name, data = left.pop()
            except IndexError:
                return
            try:
                _put(sink, name, data)
            except Exception as error:  # noqa: BLE001 - raised below, in the calling thread
                errors.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(_PARALLEL, len(objects)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def _put(sink: BlobStore, name: str, data: bytes) -> None:
    """An existing object must be identical, from an earlier attempt; otherwise one of the two was changed."""
    if sink.create(name, data):
        return
    existing = sink.read(name)
    if existing is None or existing.data != data:
        raise Failed(
            "HF-AUDIT-5",
            f"{sink.shown}/{name} differs from the audit log: one of them was changed",
            hint="Compare it with the output of holdfast audit export, and check who can write to either.",
        )


def _open(address: str, variables: Mapping[str, str]) -> BlobStore | str:
    try:
        return open_blobs(address, Path("/"), variables)
    except HoldfastError as error:
        return _reason(error, address)


def _position(store: RunStore, address: str) -> tuple[int, str | None]:
    """The last shipped line, and the tag of its blob."""
    blob = store.encrypted.read(_name(address))
    if blob is None:
        return 0, None
    return int(str(blob.document().get("seq") or 0)), blob.tag


def _accepted(address: str) -> str:
    return f"{_ACCEPTED}/{encode_name(address)}"


def _name(address: str) -> str:
    return f"{SHIPPED}/{encode_name(address)}"


def _reason(error: Exception, address: str) -> str:
    """The message of the blob store, which calls every S3 address a run store."""
    if isinstance(error, HoldfastError):
        return error.problem.message.replace(f"the run store {address}", address).replace(
            "the run store", "the S3 copy of the audit log"
        )
    return f"{address}: {error}"
