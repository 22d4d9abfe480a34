"""Reading the record: the newest lines, all lines, and whether it is whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec import structs

from holdfast.audit.break_glass import open_acts
from holdfast.audit.chain import End, Piece, beginning, documents_in, read
from holdfast.audit.layout import HEAD, head_in, piece_seqs, read_piece, read_pieces
from holdfast.audit.marks import open_break_glass
from holdfast.audit.verify import Break, Verdict, check
from holdfast.kernel.errors import HoldfastError
from holdfast.store.run_store import RunStore

Line = Mapping[str, object]
_NOTHING: Final = Verdict(lines=0, end=End(seq=0, hash=""), breaks=(), notes=("nothing is recorded",))


def newest(
    store: RunStore,
    *,
    limit: int,
    wanted: Callable[[Line], bool] = lambda _: True,
    tell: Callable[[Piece], None] = lambda _: None,
) -> tuple[Line, ...]:
    """Newest first, and no more pieces read than that needs. `tell` hears of what cannot be opened."""
    found: list[Line] = []
    for seq in reversed(() if store.empty else piece_seqs(store)):
        piece = read_piece(store, seq)
        if piece is None:
            continue
        if piece.lines is None:
            tell(piece)
        lines = (read(line) for line in reversed(piece.lines or ()))
        found += [line for line in lines if line is not None and wanted(line)]
        if len(found) >= limit:
            break
    return tuple(found[:limit])


def all_lines(store: RunStore, tell: Callable[[Piece], None] = lambda _: None) -> Iterator[bytes]:
    """Byte for byte as they were hashed, oldest first. `tell` hears of what cannot be opened."""
    for piece in read_pieces(store, () if store.empty else piece_seqs(store)):
        if piece.lines is None:
            tell(piece)
        yield from piece.lines or ()


def verify(store: RunStore) -> Verdict:
    """The whole log, from its first line to its head, and the marks that follow from it."""
    if store.empty:
        return _NOTHING
    # The head first: what is written meanwhile is then newer than it, and not missed.
    head, unreadable = _head(store)
    pieces = tuple(read_pieces(store, piece_seqs(store)))
    if not pieces and head is None and unreadable is None:
        return _NOTHING
    verdict = check(pieces, head=head, unreadable_head=unreadable, begins=beginning(store.id()))
    breaks, notes = _marks(store, documents_in(pieces), head)
    return structs.replace(
        verdict,
        breaks=tuple(sorted((*verdict.breaks, *breaks), key=lambda one: one.seq)),
        notes=(*verdict.notes, *notes),
    )


def _head(store: RunStore) -> tuple[End | None, str | None]:
    """The head, or why it cannot be read."""
    try:
        opened = store.encrypted.read(HEAD)
        return (head_in(opened), None) if opened is not None else (None, None)
    except HoldfastError as error:
        return None, error.problem.message


def _marks(
    store: RunStore, lines: tuple[Mapping[str, object], ...], head: End | None
) -> tuple[list[Break], list[str]]:
    """A mark goes with a normal apply only. One that is gone without, up to the head, was taken away."""
    breaks: list[Break] = []
    notes: list[str] = []
    expected = open_acts(lines)
    try:
        marked = open_break_glass(store)
    except HoldfastError as error:
        return [Break(seq=0, kind="mark", message=f"a break-glass mark: {error.problem.message}")], notes
    for stack, acts in expected.items():
        seen = {act.seq for act in marked.get(stack, ())}
        for act in acts:
            if act.seq in seen:
                continue
            if head is not None and act.seq <= head.seq:
                message = (
                    f"line {act.seq} ({act.what} of {stack}) has lost its mark, and no apply followed it"
                )
                breaks.append(Break(seq=act.seq, kind="mark", message=message))
            else:
                notes.append(f"line {act.seq} ({act.what} of {stack}) is not marked yet")
    notes += [
        f"{stack} is still marked; the next normal apply takes the mark away"
        for stack in marked
        if stack not in expected
    ]
    return breaks, notes
