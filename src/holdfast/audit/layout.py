"""The blobs of the audit log in the run store, and how to read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from msgspec import structs

from holdfast.audit.chain import End, Piece, lines_in
from holdfast.kernel.errors import HoldfastError, UnknownOutcome
from holdfast.secrets.encryption import WrongKey
from holdfast.store.blobs import StoredBlob, to_json
from holdfast.store.place import FolderBlobs
from holdfast.store.run_store import RunStore

LINES: Final = "audit/lines"
HEAD: Final = "audit/head"
MARKS: Final = "audit/marks"
SHIPPED: Final = "shipped"
"""Not below `audit/`: a plan job could claim there that entries arrived."""
_PARALLEL: Final = 16
_T = TypeVar("_T")
_R = TypeVar("_R")


class Head(End, frozen=True, kw_only=True):
    piece: int = 0
    """The number of the first line in the piece of the last one."""


def piece_name(seq: int) -> str:
    return f"{LINES}/{seq:012d}"


def piece_seqs(store: RunStore) -> tuple[int, ...]:
    """The numbers in the names of pieces, in order. Other names are ignored."""
    names = (name.rpartition("/")[2] for name in store.encrypted.names(LINES))
    return tuple(sorted(int(name) for name in names if name.isascii() and name.isdigit()))


def read_piece(store: RunStore, seq: int) -> Piece | None:
    """None if it does not exist. One that cannot be decrypted has the reason."""
    try:
        blob = store.encrypted.read(piece_name(seq))
    except HoldfastError as error:
        if not isinstance(error, UnknownOutcome | WrongKey):
            raise
        return Piece(seq=seq, lines=None, why=error.problem.message)
    return Piece(seq=seq, lines=lines_in(blob.data), signed=blob.signed) if blob is not None else None


def read_pieces(store: RunStore, seqs: tuple[int, ...]) -> Iterator[Piece]:
    """In order."""
    pieces = in_parallel(store, lambda seq: read_piece(store, seq), seqs)
    return (piece for piece in pieces if piece is not None)


def in_parallel(store: RunStore, read: Callable[[_T], _R], items: Sequence[_T]) -> Iterator[_R]:
    """In order; several at a time from a remote store."""
    if isinstance(store.blobs, FolderBlobs) or len(items) < _PARALLEL:
        yield from map(read, items)
        return
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - only for a remote store

    with ThreadPoolExecutor(_PARALLEL) as pool:
        yield from pool.map(read, items)


def head_from(blob: StoredBlob) -> Head:
    end = end_from(blob, HEAD)
    return Head(seq=end.seq, hash=end.hash, piece=int(str(blob.document().get("piece") or 0)))


def end_from(blob: StoredBlob, name: str) -> End:
    """An invalid one is an error: the end of the log is unknown then."""
    try:
        document = blob.document()
        return End(seq=int(str(document["seq"])), hash=str(document["hash"]))
    except (ValueError, KeyError):
        raise unreadable(name) from None


def end_data(end: End) -> bytes:
    return to_json(structs.asdict(end))


def unreadable(name: str) -> UnknownOutcome:
    return UnknownOutcome(
        "HF-AUDIT-2",
        f"{name} in the run store is not part of a valid audit log",
        hint="For details: holdfast audit verify. A newer version of Holdfast may have written it.",
    )
