"""Checks a chain for lines that were changed, swapped, added, removed or cut off. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from holdfast.audit.chain import End, Piece, hash_of, read
from holdfast.audit.entry import HEAD_LOST


class Break(Struct, frozen=True, kw_only=True):
    """A place where the log is not what was written."""

    seq: int
    kind: str
    """changed, missing, unreadable, extra, head, mark."""
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
    pieces: Iterable[Piece], *, head: End | None, unreadable_head: str | None = None, start: End
) -> Verification:
    """Every break, with its line. `pieces` are in the order of their names."""
    walk = _Walk(start, head)
    for piece in pieces:
        walk.take(piece)
    walk.compare_with_head(unreadable_head)
    return Verification(
        lines=walk.lines,
        end=End(seq=walk.last, hash=walk.hash or ""),
        breaks=tuple(sorted(walk.breaks, key=lambda break_: break_.seq)),
        notes=tuple(walk.notes),
    )


class _Walk:
    """Follows the chain. After a break it continues with what is there, to find further breaks."""

    def __init__(self, start: End, head: End | None) -> None:
        self.breaks: list[Break] = []
        self.notes: list[str] = []
        self.lines = 0
        self.last = 0
        self.hash: str | None = start.hash
        """Of the last line; None if unknown."""
        self._head = head
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
            self._add(piece.seq, "missing", f"entry {piece.seq} is missing: its piece is empty")
        for line in piece.lines:
            self._take_line(line)

    def _take_line(self, line: bytes) -> None:
        number = self.last + 1
        document = read(line)
        if document is None:
            self._add(number, "changed", f"entry {number} is not a JSON object")
        else:
            self._check_line(number, document)
        self.lines += 1
        self.last, self.hash = number, hash_of(line)
        if self._head is not None and self._head.seq == number:
            self._at_head = self.hash

    def _check_line(self, number: int, document: Mapping[str, object]) -> None:
        before = str(document.get("before"))
        if document.get("seq") != number:
            says = str(document.get("seq"))
            message = f"entry {number} has the number {says}"
            self._add(number, "changed", message, expected=str(number), found=says)
        if self.hash is not None and before != self.hash:
            changed = f"entry {number - 1} is not the one that entry {number} follows"
            other = "entry 1 is not the start of this store's log"
            at, message = (number - 1, changed) if number > 1 else (1, other)
            self._add(at, "changed", message, expected=before, found=self.hash)
        if document.get("what") == HEAD_LOST:
            message = f"the head was missing when entry {number} was written: entries before it may be lost"
            self._add(number, "head", message)

    def compare_with_head(self, unreadable: str | None) -> None:
        head = self._head
        if unreadable is not None:
            self._add(self.last, "head", f"the head cannot be decrypted: {unreadable}")
        elif head is None:
            if self.last:
                self._add(self.last, "head", "the head is missing: the end may have been cut off")
        elif head.seq > self.last and not self._open:
            message = f"{_lines(self.last + 1, head.seq)} missing: the end was cut off"
            self._add(
                self.last + 1,
                "missing",
                message,
                expected=f"{head.seq} entries",
                found=f"{self.last} entries",
            )
        elif self._at_head is not None and self._at_head != head.hash:
            message = f"entry {head.seq} is not the one that the head names"
            self._add(head.seq, "changed", message, expected=head.hash, found=self._at_head)
        elif head.seq < self.last:
            newer = _lines(head.seq + 1, self.last)
            self.notes.append(f"{newer} newer than the head: the writer was killed before it moved the head")

    def _add(
        self, seq: int, kind: str, message: str, *, expected: str | None = None, found: str | None = None
    ) -> None:
        self.breaks.append(Break(seq=seq, kind=kind, message=message, expected=expected, found=found))


def _lines(first: int, last: int) -> str:
    return f"entry {first} is" if first == last else f"entries {first} to {last} are"
