"""Reads the audit log: the newest lines, all lines, and whether it is intact."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec import structs

from holdfast.audit.break_glass import open_acts
from holdfast.audit.chain import End, Piece, documents_of, start_of
from holdfast.audit.layout import HEAD, head_from, piece_seqs, read_piece, read_pieces
from holdfast.audit.marks import open_break_glass
from holdfast.audit.verify import Break, Verification, check
from holdfast.kernel.errors import HoldfastError
from holdfast.store.run_store import RunStore

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
    # The head first: lines that are written meanwhile are then newer than it.
    head, unreadable = _head(store)
    pieces = tuple(read_pieces(store, piece_seqs(store)))
    if not pieces and head is None and unreadable is None:
        return _NOTHING
    verdict = check(pieces, head=head, unreadable_head=unreadable, start=start_of(store.id()))
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
        return [Break(seq=0, kind="mark", message=f"a break-glass mark: {error.problem.message}")], notes
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
