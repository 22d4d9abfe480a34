"""Whether a chain is what was written: which lines were changed, cut off, swapped, removed, added. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from holdfast.audit.chain import End, Piece, hash_of, read
from holdfast.audit.entry import HEAD_LOST


class Break(Struct, frozen=True, kw_only=True):
    """A place where the record is not what was written."""

    seq: int
    kind: str
    """changed, missing, unreadable, extra, head, mark."""
    message: str
    expected: str | None = None
    found: str | None = None


class Verdict(Struct, frozen=True, kw_only=True):
    lines: int
    """How many could be read."""
    end: End
    breaks: tuple[Break, ...]
    notes: tuple[str, ...]

    @property
    def whole(self) -> bool:
        return not self.breaks


def check(
    pieces: Iterable[Piece], *, head: End | None, unreadable_head: str | None = None, begins: End
) -> Verdict:
    """Everything that is wrong, each with its place. `pieces` come in the order of their names."""
    walk = _Walk(begins, head)
    for piece in pieces:
        walk.take(piece)
    walk.compare_with_head(unreadable_head)
    return Verdict(
        lines=walk.lines,
        end=End(seq=walk.last, hash=walk.hash or ""),
        breaks=tuple(sorted(walk.breaks, key=lambda one: one.seq)),
        notes=tuple(walk.notes),
    )


class _Walk:
    """From line to line. After a break it goes on with what is there: a second break is found too."""

    def __init__(self, begins: End, head: End | None) -> None:
        self.breaks: list[Break] = []
        self.notes: list[str] = []
        self.lines = 0
        self.last = 0
        self.hash: str | None = begins.hash
        """Of the last line; None where it is not known."""
        self._begins = begins
        self._head = head
        self._open = False
        """The last piece could not be opened: nobody knows how many lines it has."""
        self._at_head: str | None = begins.hash if head is not None and head.seq == 0 else None

    def take(self, piece: Piece) -> None:
        expected = self.last + 1
        if piece.seq < expected:
            self._broken(piece.seq, "extra", f"line {piece.seq} stands in the log a second time")
            return
        if piece.seq > expected and not self._open:
            self._broken(expected, "missing", f"{_lines(expected, piece.seq - 1)} not there")
        if piece.seq > expected:
            self.last, self.hash = piece.seq - 1, None
        self._open = piece.lines is None
        if piece.lines is None:
            self._broken(piece.seq, "unreadable", f"line {piece.seq} cannot be opened: {piece.why}")
            self.last, self.hash = piece.seq, None
            return
        if not piece.lines:
            self._broken(piece.seq, "missing", f"line {piece.seq} is not there: its piece is empty")
        for line in piece.lines:
            self._take_line(line)

    def _take_line(self, line: bytes) -> None:
        number = self.last + 1
        document = read(line)
        if document is None:
            self._broken(number, "changed", f"line {number} is not a record")
        else:
            self._look_at(number, document)
        self.lines += 1
        self.last, self.hash = number, hash_of(line)
        if self._head is not None and self._head.seq == number:
            self._at_head = self.hash

    def _look_at(self, number: int, document: Mapping[str, object]) -> None:
        before = str(document.get("before"))
        if document.get("seq") != number:
            says = str(document.get("seq"))
            message = f"where line {number} belongs stands one that calls itself {says}"
            self._broken(number, "changed", message, expected=str(number), found=says)
        if self.hash is not None and before != self.hash:
            changed = f"line {number - 1} is not the one that line {number} was written after"
            other = "line 1 is not the beginning of this store's log"
            at, message = (number - 1, changed) if number > 1 else (1, other)
            self._broken(at, "changed", message, expected=before, found=self.hash)
        if document.get("what") == HEAD_LOST:
            message = f"the head was gone when line {number} was written: what stood after line {number - 1}"
            self._broken(number, "head", f"{message} then, nobody knows")

    def compare_with_head(self, unreadable: str | None) -> None:
        head = self._head
        if unreadable is not None:
            self._broken(self.last, "head", f"the head cannot be opened: {unreadable}")
        elif head is None:
            if self.last:
                self._broken(self.last, "head", "the head is not there: an end may have been cut off")
        elif head.seq > self.last and not self._open:
            message = f"{_lines(self.last + 1, head.seq)} not there: the end was cut off"
            self._broken(
                self.last + 1, "missing", message, expected=f"{head.seq} lines", found=f"{self.last} lines"
            )
        elif self._at_head is not None and self._at_head != head.hash:
            message = f"line {head.seq} is not the one that the head names"
            self._broken(head.seq, "changed", message, expected=head.hash, found=self._at_head)
        elif head.seq < self.last:
            newer = _lines(head.seq + 1, self.last)
            self.notes.append(f"{newer} newer than the head: the writer was stopped before it moved the head")

    def _broken(
        self, seq: int, kind: str, message: str, *, expected: str | None = None, found: str | None = None
    ) -> None:
        self.breaks.append(Break(seq=seq, kind=kind, message=message, expected=expected, found=found))


def _lines(first: int, last: int) -> str:
    return f"line {first} is" if first == last else f"lines {first} to {last} are"
