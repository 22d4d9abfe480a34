"""Where the log lies in the run store, and how its things are read. All of it is encrypted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.audit.chain import End, Piece, lines_in
from holdfast.kernel.errors import HoldfastError, UnknownOutcome
from holdfast.store.encrypted_blobs import Opened, to_json
from holdfast.store.folder_blobs import FolderBlobs
from holdfast.store.run_store import RunStore

LINES: Final = "audit/lines"
HEAD: Final = "audit/head"
MARKS: Final = "audit/marks"
SHIPPED: Final = "audit/shipped"
_AT_ONCE: Final = 16


def piece_name(seq: int) -> str:
    return f"{LINES}/{seq:012d}"


def piece_seqs(store: RunStore) -> tuple[int, ...]:
    """The numbers that pieces have by their names, in order. A name that is none is nobody's."""
    words = (name.rpartition("/")[2] for name in store.encrypted.names(LINES))
    return tuple(sorted(int(word) for word in words if word.isascii() and word.isdigit()))


def read_piece(store: RunStore, seq: int) -> Piece | None:
    """None when it is not there. What cannot be opened is a piece that says why."""
    try:
        found = store.encrypted.read(piece_name(seq))
    except UnknownOutcome as error:
        return Piece(seq=seq, lines=None, why=error.problem.message)
    except HoldfastError as error:
        if error.problem.code != "HF-KEY-7":
            raise
        return Piece(seq=seq, lines=None, why=error.problem.message)
    return Piece(seq=seq, lines=lines_in(found.data)) if found is not None else None


def read_pieces(store: RunStore, seqs: tuple[int, ...]) -> Iterator[Piece]:
    """In their order. Behind a network several are asked for at a time."""
    if isinstance(store.blobs, FolderBlobs) or len(seqs) < _AT_ONCE:
        found = (read_piece(store, seq) for seq in seqs)
        yield from (piece for piece in found if piece is not None)
        return
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - only for a log behind a network

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for piece in pool.map(lambda seq: read_piece(store, seq), seqs):
            if piece is not None:
                yield piece


def head_in(opened: Opened) -> End:
    """The head that was kept; an error where it is none: nobody knows then where the log ends."""
    try:
        document = opened.document()
        return End(seq=int(str(document["seq"])), hash=str(document["hash"]))
    except (ValueError, KeyError):
        raise unreadable(HEAD) from None


def head_data(end: End) -> bytes:
    return to_json({"seq": end.seq, "hash": end.hash})


def unreadable(name: str) -> UnknownOutcome:
    return UnknownOutcome(
        "HF-AUDIT-2",
        f"{name} in the run store is not what the audit log keeps there",
        hint="See what is wrong with it: holdfast audit verify. A newer Holdfast may have written it.",
    )
