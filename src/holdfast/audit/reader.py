"""Reads the audit log: the newest lines, all lines, and whether any were changed, added or removed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, structs

from holdfast.audit.anchors import Anchor, all_anchors
from holdfast.audit.break_glass import open_acts, open_break_glass
from holdfast.audit.chain import End, Piece, documents_of, hash_of, read, start_of
from holdfast.audit.entry import ACCEPT_LOSS, PLAN_ACTS
from holdfast.audit.layout import HEAD, head_from, piece_seqs, read_piece, read_pieces
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.text import plural
from holdfast.store.run_store import RunStore


class Break(Struct, frozen=True, kw_only=True):
    """A place where the log is not what was written."""

    seq: int
    kind: str
    """changed, missing, unreadable, unsigned, extra, head, mark."""
    message: str
    expected: str | None = None
    found: str | None = None


class Verification(Struct, frozen=True, kw_only=True):
    lines: int
    """How many are readable."""
    end: End
    breaks: tuple[Break, ...]
    notes: tuple[str, ...]

    @property
    def whole(self) -> bool:
        return not self.breaks


def check(
    pieces: Iterable[Piece],
    *,
    head: End | None,
    unreadable_head: str | None = None,
    start: End,
    anchors: Sequence[Anchor] = (),
) -> Verification:
    """Every break, with its line. `pieces` are in the order of their names."""
    walk = _Walk(start, head, anchors)
    for piece in pieces:
        walk.take(piece)
    walk.compare_with_head(unreadable_head)
    walk.compare_with_anchors()
    return Verification(
        lines=walk.lines,
        end=End(seq=walk.last, hash=walk.hash or ""),
        breaks=tuple(sorted(walk.breaks, key=lambda break_: break_.seq)),
        notes=tuple(walk.notes),
    )


class _Walk:
    """Follows the chain. After a break it continues with what is there, to find further breaks."""

    def __init__(self, start: End, head: End | None, anchors: Sequence[Anchor]) -> None:
        self.breaks: list[Break] = []
        self.notes: list[str] = []
        self.lines = 0
        self.last = 0
        self.hash: str | None = start.hash
        """Of the last line; None if unknown."""
        self._head = head
        self._anchors = {anchor.end.seq: anchor for anchor in reversed(anchors)}
        """One for each entry that an anchor names."""
        self._at_anchors: dict[int, str] = {}
        """The hashes of these entries, as far as they are readable."""
        self._open = False
        """The last piece is unreadable: the number of its lines is unknown."""
        self._at_head: str | None = start.hash if head is not None and head.seq == 0 else None

    def take(self, piece: Piece) -> None:
        expected = self.last + 1
        if piece.seq < expected:
            self._add(piece.seq, "extra", f"entry {piece.seq} is in the log twice")
            return
        if piece.seq > expected and not self._open:
            self._add(expected, "missing", f"{_lines(expected, piece.seq - 1)} missing")
        if piece.seq > expected:
            self.last, self.hash = piece.seq - 1, None
        self._open = piece.lines is None
        if piece.lines is None:
            self._add(piece.seq, "unreadable", f"entry {piece.seq} cannot be decrypted: {piece.why}")
            self.last, self.hash = piece.seq, None
            return
        if not piece.lines:
            self._add(piece.seq, "missing", f"entry {piece.seq} is missing: its blob is empty")
        for line in piece.lines:
            self._take_line(line, signed=piece.signed)

    def _take_line(self, line: bytes, *, signed: bool) -> None:
        number = self.last + 1
        document = read(line)
        if document is None:
            self._add(number, "changed", f"entry {number} is not a JSON object")
        else:
            self._check_line(number, document)
            what = document.get("what")
            if not signed and what not in PLAN_ACTS:
                message = (
                    f"entry {number} ({what}) was not signed by the apply key: a plan job can have written it"
                )
                self._add(number, "unsigned", message)
        self.lines += 1
        self.last, self.hash = number, hash_of(line)
        if self._head is not None and self._head.seq == number:
            self._at_head = self.hash
        if number in self._anchors:
            self._at_anchors[number] = self.hash

    def _check_line(self, number: int, document: Mapping[str, object]) -> None:
        before = str(document.get("before") or "none")
        if document.get("seq") != number:
            seq = str(document.get("seq") or "none")
            self._add(
                number, "changed", f"entry {number} has a wrong number", expected=str(number), found=seq
            )
        if self.hash is not None and before != self.hash:
            changed = f"entry {number - 1} was changed: entry {number} has a different hash for it"
            other = "entry 1 does not belong to the log of this run store"
            at, message = (number - 1, changed) if number > 1 else (1, other)
            self._add(at, "changed", message, expected=before, found=self.hash)
        if document.get("what") == ACCEPT_LOSS:
            self._add(
                number, "missing", f"entry {number} was written although entries before it were missing"
            )

    def compare_with_head(self, unreadable: str | None) -> None:
        head = self._head
        if unreadable is not None:
            self._add(self.last, "head", f"the head cannot be decrypted: {unreadable}")
        elif head is None:
            if self.last or self._anchors:
                self._add(self.last, "head", "the head is missing: the end may have been cut off")
        elif head.seq > self.last and not self._open:
            message = f"{_lines(self.last + 1, head.seq)} missing: the end was cut off"
            self._add(
                self.last + 1,
                "missing",
                message,
                expected=plural(head.seq, "entry", "entries"),
                found=plural(self.last, "entry", "entries"),
            )
        elif self._at_head is not None and self._at_head != head.hash:
            message = f"entry {head.seq} was changed: the head has a different hash for it"
            self._add(head.seq, "changed", message, expected=head.hash, found=self._at_head)
        elif head.seq < self.last:
            newer = _lines(head.seq + 1, self.last)
            self.notes.append(f"{newer} newer than the head: a command was killed before it moved the head")

    def compare_with_anchors(self) -> None:
        newest = self._anchors.get(max(self._anchors, default=0))
        known = max(self.last, self._head.seq if self._head is not None else 0)
        if newest is not None and newest.end.seq > known and not self._open:
            missing = _lines(self.last + 1, newest.end.seq)
            message = f"{missing} missing: {newest.where} names entry {newest.end.seq}"
            self._add(self.last + 1, "missing", message)
        changed = {break_.seq for break_ in self.breaks if break_.kind == "changed"}
        for seq, found in self._at_anchors.items():
            anchor = self._anchors[seq]
            if found != anchor.end.hash and seq not in changed:
                message = f"entry {seq} was changed: {anchor.where} has a different hash for it"
                self._add(seq, "changed", message, expected=anchor.end.hash, found=found)

    def _add(
        self, seq: int, kind: str, message: str, *, expected: str | None = None, found: str | None = None
    ) -> None:
        self.breaks.append(Break(seq=seq, kind=kind, message=message, expected=expected, found=found))


def _lines(first: int, last: int) -> str:
    return f"entry {first} is" if first == last else f"entries {first} to {last} are"


Line = Mapping[str, object]
_NOTHING: Final = Verification(lines=0, end=End(seq=0, hash=""), breaks=(), notes=("the audit log is empty",))


def newest(
    store: RunStore,
    *,
    limit: int,
    wanted: Callable[[Line], bool] = lambda _: True,
    on_unreadable: Callable[[Piece], None] = lambda _: None,
) -> tuple[Line, ...]:
    """Newest first; reads no more pieces than needed. `on_unreadable` gets undecryptable pieces."""
    result: list[Line] = []
    for seq in reversed(() if store.empty else piece_seqs(store)):
        piece = read_piece(store, seq)
        if piece is None:
            continue
        if piece.lines is None:
            on_unreadable(piece)
        result += filter(wanted, documents_of(reversed(piece.lines or ())))
        if len(result) >= limit:
            break
    return tuple(result[:limit])


def all_lines(store: RunStore, on_unreadable: Callable[[Piece], None] = lambda _: None) -> Iterator[bytes]:
    """The bytes that were hashed, oldest first."""
    for piece in read_pieces(store, () if store.empty else piece_seqs(store)):
        if piece.lines is None:
            on_unreadable(piece)
        yield from piece.lines or ()


def verify(store: RunStore) -> Verification:
    """Checks the whole log, from its first line to its head, and the marks."""
    if store.empty:
        return _NOTHING
    # Anchors and head first: lines that are written meanwhile are then newer.
    anchors = all_anchors(store)
    head, unreadable = _head(store)
    pieces = tuple(read_pieces(store, piece_seqs(store)))
    if not pieces and head is None and unreadable is None and not anchors:
        return _NOTHING
    verdict = check(
        pieces, head=head, unreadable_head=unreadable, start=start_of(store.id()), anchors=anchors
    )
    breaks, notes = _marks(store, documents_of(line for piece in pieces for line in piece.lines or ()), head)
    return structs.replace(
        verdict,
        breaks=tuple(sorted((*verdict.breaks, *breaks), key=lambda break_: break_.seq)),
        notes=(*verdict.notes, *notes),
    )


def _head(store: RunStore) -> tuple[End | None, str | None]:
    """The head, or why it is unreadable."""
    try:
        blob = store.encrypted.read(HEAD)
        return (head_from(blob), None) if blob is not None else (None, None)
    except HoldfastError as error:
        return None, error.problem.message


def _marks(store: RunStore, lines: list[Line], head: End | None) -> tuple[list[Break], list[str]]:
    """Only a normal apply removes a mark. One that is missing without it was tampered with."""
    breaks: list[Break] = []
    notes: list[str] = []
    expected = open_acts(lines)
    try:
        marked = open_break_glass(store)
    except HoldfastError as error:
        return [
            Break(seq=0, kind="mark", message=f"a break-glass mark cannot be read: {error.problem.message}")
        ], notes
    for stack, acts in expected.items():
        seen = {act.seq for act in marked.get(stack, ())}
        for act in acts:
            if act.seq in seen:
                continue
            if head is not None and act.seq <= head.seq:
                message = (
                    f"entry {act.seq} ({act.what} of {stack}) has no mark, although no apply followed it"
                )
                breaks.append(Break(seq=act.seq, kind="mark", message=message))
            else:
                notes.append(f"entry {act.seq} ({act.what} of {stack}) is not marked yet")
    notes += [
        f"{stack} is still marked; the next normal apply removes the mark"
        for stack in marked
        if stack not in expected
    ]
    return breaks, notes
