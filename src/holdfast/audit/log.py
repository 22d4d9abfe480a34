"""Writes the audit log: one chain for all commands on all machines.

Lines that are written together are one piece, created under the number of its first line. If several writers
want the same number, one gets it; the others read its piece and continue after it. A piece appears whole or
not at all, so a crash leaves a valid chain. The marks follow, then the head, then the anchor. If a writer is
killed in between, the next one updates them.

Nothing is written to a log whose end is missing, until a person accepts the loss.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import asdict

from holdfast.audit.actor import Actor
from holdfast.audit.anchors import Loss, all_anchors, find_loss, move_anchor, newest_anchor
from holdfast.audit.break_glass import update_marks
from holdfast.audit.chain import End, Piece, content_of, documents_of, hash_of, link, start_of
from holdfast.audit.entry import ACCEPT_LOSS, PLAN_ACTS, Entry, document_of
from holdfast.audit.layout import (
    HEAD,
    Head,
    end_data,
    head_from,
    piece_name,
    piece_seqs,
    read_piece,
    unreadable,
)
from holdfast.kernel.errors import Busy, HoldfastError, UnknownOutcome, UsageError
from holdfast.secrets.encryption import apply_key_needed
from holdfast.secrets.redact import Redactor
from holdfast.store.run_store import RunStore
from holdfast.system import clock

if TYPE_CHECKING:
    from holdfast.store.server_store import ServerRunStore

Document = dict[str, object]

_ATTEMPTS: Final = 1000
"""So many conflicts in a row are a fault of the store."""
_DELAY: Final = 0.2
"""Seconds that a noted line waits for others, to be written with them."""
_PAUSE_AFTER: Final = 3
_PAUSE: Final = 0.01


class Audit:
    """The audit log of one command. Thread-safe; pending lines are written together.

    Errors of the run store are raised, and the lines stay pending.
    """

    def __init__(self, store: RunStore, who: Actor, *, redactor: Redactor, change: str | None = None) -> None:
        self.who = who
        self._store = store
        self._redactor = redactor
        self._change = change
        self._chain = _ServerChain(store) if store.on_server else _Chain(store)
        self._pending: list[Document] = []
        self._guard = threading.Lock()
        self._writing = threading.Lock()
        self._writer: threading.Thread | None = None
        self._hurry = threading.Event()

    @property
    def end(self) -> End | None:
        """The last entry known to this command, for anchors."""
        return self._chain.end

    def require_whole(self) -> None:
        """Raises if entries are missing at the end of the log. Writes nothing."""
        unknown = self._chain.end is None and not self._store.empty
        # A server checks it with every entry.
        if unknown and not self._store.on_server and (loss := self._chain.check()) is not None:
            raise loss.error()

    def accept_loss(self, reason: str) -> str:
        """Continue a log whose end is missing. Returns what was missing."""
        loss = None if self._store.empty else self._chain.check()
        if loss is None:
            raise UsageError(
                "HF-AUDIT-9",
                "no entries are missing at the end of the audit log",
                hint="To check all of it: holdfast audit verify",
            )
        self._chain.continue_after_loss()
        self.record(Entry(what=ACCEPT_LOSS, reason=reason, details={"missing": loss.message}))
        return loss.message

    def record(self, entry: Entry) -> None:
        """Durable when this returns."""
        self.record_all((entry,))

    def record_all(self, entries: Sequence[Entry]) -> None:
        """In one piece, durable when this returns."""
        self._add(entries)
        self.flush()

    def note(self, *entries: Entry) -> None:
        """In a background thread; `flush` raises if it fails."""
        self._add(entries)
        with self._guard:
            if self._writer is None and self._pending:
                self._hurry.clear()
                self._writer = threading.Thread(target=self._write_soon, name="holdfast-audit", daemon=True)
                self._writer.start()

    def flush(self) -> None:
        """Everything noted is durable when this returns."""
        self._hurry.set()
        with self._writing:
            self._write()
            self._chain.finish()

    def _write(self) -> None:
        while self._pending:
            with self._guard:
                documents, self._pending = self._pending, []
            try:
                self._chain.append(documents)
            except BaseException:
                with self._guard:
                    self._pending[:0] = documents
                raise

    def _add(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            # The key is loaded here, because it may have to tell the user something. A server decides itself.
            if not self._store.on_server and not self._store.can_apply and entry.what not in PLAN_ACTS:
                raise apply_key_needed(entry.what)
        at = clock.now().isoformat()
        documents = [
            document_of(entry, who=self.who, at=at, change=self._change, redactor=self._redactor)
            for entry in entries
        ]
        with self._guard:
            self._pending += documents

    def _write_soon(self) -> None:
        """Lines that arrive within a moment are written together; `flush` moves the head.

        After a failure the lines stay pending, and `flush` raises the error again.
        """
        more = True
        while more:
            self._hurry.wait(_DELAY)
            failed = False
            try:
                with self._writing:
                    self._write()
            except Exception:  # noqa: BLE001 - `flush` raises it again
                failed = True
            with self._guard:
                more = bool(self._pending) and not failed
                if not more:
                    self._writer = None


class _Chain:
    """The end of the log as known to this command. For one thread at a time."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self.end: End | None = None
        self._piece = 0
        """The number of the first line in the piece of the last one."""
        self._head: Head | None = None
        self._head_tag = ""
        self._unmarked: list[Mapping[str, object]] = []
        """Lines since the head that may change marks, in order."""

    def append(self, documents: Sequence[Document]) -> None:
        """In one piece, unless an attempt that seemed to fail wrote some of them."""
        end = self.end or self._find_end()
        pending = documents
        for attempt in range(_ATTEMPTS):
            lines, new = link(end, pending)
            self._piece = end.seq + 1
            created = self._store.encrypted.create(piece_name(self._piece), content_of(lines))
            written = lines if created else _lines_of(read_piece(self._store, self._piece), self._piece)
            self._unmarked += documents_of(written)
            end = self.end = new if created else End(seq=end.seq + len(written), hash=hash_of(written[-1]))
            if written == lines[: len(written)]:
                # This command's lines: created now, or by an attempt whose answer was lost.
                pending = pending[len(written) :]
            if not pending:
                return
            if attempt >= _PAUSE_AFTER:
                clock.pause(_PAUSE * clock.chance())
        raise Busy(
            "HF-AUDIT-3",
            "cannot add an entry to the audit log: other commands kept adding entries first",
            hint="Many commands write at the same time, or the run store loses writes. Try again.",
        )

    def finish(self) -> None:
        """Updates marks, head and anchor. Those that lag behind are harmless: the next writer moves them."""
        if self.end is None or not self._piece:
            return
        update_marks(self._store, self._unmarked)
        self._unmarked = []
        with contextlib.suppress(HoldfastError, OSError):
            if self._move_head(Head(seq=self.end.seq, hash=self.end.hash, piece=self._piece)):
                move_anchor(self._store, self.end)

    def _move_head(self, head: Head) -> bool:
        """Whether the head now names this line or a later one."""
        if self._head is None and self._store.encrypted.create(HEAD, end_data(head)):
            self._read_head()
        while self._head is None or self._head.seq < head.seq:
            tag = self._store.encrypted.replace(HEAD, end_data(head), tag=self._head_tag)
            if tag is not None:
                self._head, self._head_tag = head, tag
            elif not self._read_head():
                return False
        return True

    def check(self) -> Loss | None:
        """Finds the end of the log, unless there is none yet, and whether entries are missing."""
        # The anchor first, because writers move it last. A log starts with its head: if there are lines now,
        # there is a head, unless it was removed.
        newest = newest_anchor(self._store)
        lines = not self._read_head() and bool(piece_seqs(self._store))
        if lines:
            self._read_head()
        loss = find_loss(self._store, self._head, newest, lines=lines)
        if loss is None:
            self.end = self._head
        return loss

    def _find_end(self) -> End:
        """At the head or after it."""
        if (loss := self.check()) is not None:
            raise loss.error()
        if self._head is None:
            self._store.encrypted.create(HEAD, end_data(Head(**asdict(start_of(self._store.id())))))
            self._read_head()
        if self._head is None:
            raise unreadable(HEAD)
        return self._head

    def continue_after_loss(self) -> None:
        """After every entry that is known to have existed, so that the gap stays visible."""
        ends: list[End] = [anchor.end for anchor in all_anchors(self._store)]
        if self._head is not None:
            ends.append(self._head)
        if seqs := piece_seqs(self._store):
            piece = read_piece(self._store, seqs[-1])
            lines = (piece.lines if piece is not None else None) or (b"",)
            ends.append(End(seq=seqs[-1] + len(lines) - 1, hash=hash_of(lines[-1])))
        self.end = max(ends, key=lambda end: end.seq)

    def _read_head(self) -> bool:
        blob = self._store.encrypted.read(HEAD)
        if blob is None:
            return False
        self._head, self._head_tag = head_from(blob), blob.tag
        return True


class _ServerChain(_Chain):
    """The server writes the log: it adds who acts and when, and checks that nothing is missing."""

    _store: ServerRunStore

    def append(self, documents: Sequence[Document]) -> None:
        answer = self._store.append_audit(documents)
        self.end = End(seq=answer["seq"], hash=answer["hash"])

    def finish(self) -> None:
        """Nothing is left to do."""


def append_lines(store: RunStore, documents: Sequence[Document]) -> End:
    """On a server, for a client. Durable when this returns. Without lines: the end of the log as it is."""
    chain = _Chain(store)
    if any(document["what"] == ACCEPT_LOSS for document in documents) and chain.check() is not None:
        chain.continue_after_loss()
    if documents:
        chain.append(documents)
        chain.finish()
    else:
        chain.check()
    if chain.end is None:
        raise unreadable(HEAD)
    return chain.end


def _lines_of(piece: Piece | None, seq: int) -> tuple[bytes, ...]:
    if piece is not None and piece.lines:
        return piece.lines
    why = f": {piece.why}" if piece is not None and piece.why else ""
    raise UnknownOutcome(
        "HF-AUDIT-4",
        f"cannot add an entry to the audit log: entry {seq} is unreadable{why}",
        hint="For details: holdfast audit verify. Restore the entry from a backup of the run store.",
    )
