"""Writing the record: lines go into one chain, whoever writes them, from wherever, at the same time.

A piece of the log is created under the number of its first line, and of several who want that number one gets
it; the others read what was written and go on behind it. What is written at once is one piece. A piece
appears whole or not at all (a folder: written aside, flushed and linked; S3: one object), so a crash leaves a
chain that can be verified. Then the marks are brought up to it, and then the head. Lines that are newer than
the head had a writer that was stopped in between, and the next one does for them what is left.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.audit.actor import Who
from holdfast.audit.chain import End, Piece, beginning, content_of, hash_of, linked, read
from holdfast.audit.entry import HEAD_LOST, Entry, document_of
from holdfast.audit.layout import HEAD, head_data, head_in, piece_name, piece_seqs, read_piece, unreadable
from holdfast.audit.marks import keep_marks
from holdfast.kernel.errors import Busy, HoldfastError, UnknownOutcome
from holdfast.secrets.redact import Redactor
from holdfast.store.run_store import RunStore
from holdfast.system import clock

Document = dict[str, object]

_ROUNDS: Final = 1000
"""So often somebody else can be first before that is called a fault of the store."""
_SOON: Final = 0.2
"""Seconds that what was noted may wait for more to be written with it."""
_PAUSE_AFTER: Final = 3
_PAUSE: Final = 0.01


class Audit:
    """The record of one command. Safe to use from several threads; what waits is written together.

    An error of the run store is raised, and what could not be written waits for the next try.
    """

    def __init__(self, store: RunStore, who: Who, *, redactor: Redactor, change: str | None = None) -> None:
        self.who = who
        self._store = store
        self._redactor = redactor
        self._change = change
        self._chain = _Chain(store)
        self._waiting: list[Document] = []
        self._guard = threading.Lock()
        self._writing = threading.Lock()
        self._writer: threading.Thread | None = None
        self._urged = threading.Event()

    def record(self, entry: Entry) -> None:
        """Durably, before this returns."""
        self.record_all((entry,))

    def record_all(self, entries: Sequence[Entry]) -> None:
        """All of them in one piece, durably, before this returns."""
        self._take(entries)
        self.flush()

    def note(self, *entries: Entry) -> None:
        """Soon, in a thread of its own: nobody waits for the disk here. `flush` says whether it was done."""
        self._take(entries)
        with self._guard:
            if self._writer is None and self._waiting:
                self._urged.clear()
                self._writer = threading.Thread(target=self._write_soon, name="holdfast-audit", daemon=True)
                self._writer.start()

    def flush(self) -> None:
        """Everything that was noted is written when this returns; raises what kept it from that."""
        self._urged.set()
        with self._writing:
            self._write()
            self._chain.settle()

    def _write(self) -> None:
        while documents := self._taken():
            try:
                self._chain.append(documents)
            except BaseException:
                with self._guard:
                    self._waiting[:0] = documents
                raise

    def _take(self, entries: Sequence[Entry]) -> None:
        if entries:
            _ = self._store.key  # Asked for here: it may have something to say to the person.
        at = clock.now().isoformat()
        documents = [
            document_of(entry, who=self.who, at=at, change=self._change, redactor=self._redactor)
            for entry in entries
        ]
        with self._guard:
            self._waiting += documents

    def _taken(self) -> list[Document]:
        with self._guard:
            documents, self._waiting = self._waiting, []
        return documents

    def _write_soon(self) -> None:
        """What comes in a moment is written together. The head is moved at the end: `flush` does that.

        What fails here waits, and fails again where somebody hears it.
        """
        going_on = True
        while going_on:
            self._urged.wait(_SOON)
            failed = False
            try:
                with self._writing:
                    self._write()
            except Exception:  # noqa: BLE001 - `flush` raises it again for the one who asks
                failed = True
            with self._guard:
                going_on = bool(self._waiting) and not failed
                if not going_on:
                    self._writer = None


class _Chain:
    """The end of the log as far as it is known here. One thread at a time."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._end: End | None = None
        self._head: End | None = None
        self._head_tag = ""
        self._lost: list[Document] = []
        """A line of the log's own, where its head was not there."""
        self._unmarked: list[Mapping[str, object]] = []
        """Lines since the head that marks may have to follow, in their order."""

    def append(self, documents: Sequence[Document]) -> None:
        """In one piece, unless a try that seemed to fail had written some of them."""
        end = self._end or self._found()
        waiting = [*self._lost, *documents]
        for turn in range(_ROUNDS):
            lines, new = linked(end, waiting)
            created = self._store.encrypted.create(piece_name(end.seq + 1), content_of(lines))
            there = lines if created else _lines_of(read_piece(self._store, end.seq + 1), end.seq + 1)
            self._unmarked += _read_all(there)
            end = self._end = new if created else End(seq=end.seq + len(there), hash=hash_of(there[-1]))
            if there == lines[: len(there)]:
                # Ours: created now, or by a try whose answer was lost.
                waiting = waiting[len(there) :]
            if not waiting:
                self._lost = []
                return
            if turn >= _PAUSE_AFTER:
                clock.pause(_PAUSE * clock.chance())
        raise Busy(
            "HF-AUDIT-3",
            "no line can be added to the audit log: somebody else was first each time",
            hint="Many commands write at once, or the run store does not keep what it is told. Try again.",
        )

    def settle(self) -> None:
        """The marks, then the head. That the head is behind harms nothing: the next writer moves it."""
        if self._end is None:
            return
        keep_marks(self._store, self._unmarked)
        self._unmarked = []
        with contextlib.suppress(HoldfastError, OSError):
            self._move_head(self._end)

    def _move_head(self, end: End) -> None:
        if self._head is None and self._store.encrypted.create(HEAD, head_data(end)):
            self._read_head()
        while self._head is None or self._head.seq < end.seq:
            tag = self._store.encrypted.replace(HEAD, head_data(end), tag=self._head_tag)
            if tag is not None:
                self._head, self._head_tag = end, tag
            elif not self._read_head():
                return

    def _found(self) -> End:
        """Where the head says, or behind that. A log begins with its head: lines without one have lost it."""
        if not self._read_head():
            seqs = piece_seqs(self._store)
            if not seqs:
                self._store.encrypted.create(HEAD, head_data(beginning(self._store.id())))
            if not self._read_head():
                return self._without_head(seqs)
        if self._head is None:
            raise unreadable(HEAD)
        return self._head

    def _without_head(self, seqs: tuple[int, ...]) -> End:
        if not seqs:
            raise unreadable(HEAD)
        lines = _lines_of(read_piece(self._store, seqs[-1]), seqs[-1])
        self._lost = [{"at": clock.now().isoformat(), "what": HEAD_LOST, "stack": None, "break_glass": False}]
        return End(seq=seqs[-1] + len(lines) - 1, hash=hash_of(lines[-1]))

    def _read_head(self) -> bool:
        opened = self._store.encrypted.read(HEAD)
        if opened is None:
            return False
        self._head, self._head_tag = head_in(opened), opened.tag
        return True


def _lines_of(piece: Piece | None, seq: int) -> tuple[bytes, ...]:
    if piece is not None and piece.lines:
        return piece.lines
    why = f": {piece.why}" if piece is not None and piece.why else ""
    raise UnknownOutcome(
        "HF-AUDIT-4",
        f"nothing can be added to the audit log: its line {seq} cannot be read{why}",
        hint="See what is wrong: holdfast audit verify. Restore it from a backup of the run store.",
    )


def _read_all(lines: Sequence[bytes]) -> list[Mapping[str, object]]:
    return [document for line in lines if (document := read(line)) is not None]
