"""Anchors: the end of the audit log as recorded outside of it. They reveal that it was removed or cut back.

The store has one, which is moved after the head, and the record of each run has one: the end of the log when
the run began. An anchor never names an entry that was not written.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from holdfast.audit.chain import End, hash_of
from holdfast.audit.layout import Head, end_data, end_from, in_parallel, read_piece
from holdfast.kernel.errors import UnknownOutcome
from holdfast.store.run_store import RunStore

_ANCHOR: Final = "anchors/audit"
_RUNS_AT_ONCE: Final = 50


class Anchor(Struct, frozen=True, kw_only=True):
    end: End
    where: str
    """For messages."""


class Loss(Struct, frozen=True, kw_only=True):
    """Entries that were written and are not in the log any more."""

    message: str

    def error(self) -> UnknownOutcome:
        return UnknownOutcome(
            "HF-AUDIT-8",
            f"the audit log was changed: {self.message}",
            hint="For details: holdfast audit verify. Restore the log from a backup of the run store. "
            "To continue without the missing entries: holdfast audit accept-loss --reason TEXT",
        )


def newest_anchor(store: RunStore) -> Anchor | None:
    """That of the store; where it is missing, that of the newest runs that have one.

    Runs of plan jobs have none that counts, and there may be many of them.
    """
    anchors = _store_anchor(store)
    ids = iter(store.runs.ids() if not anchors else ())
    while not anchors and (runs := tuple(itertools.islice(ids, _RUNS_AT_ONCE))):
        anchors = tuple(_anchors_of(store, runs))
    return max(anchors, key=lambda anchor: anchor.end.seq, default=None)


def all_anchors(store: RunStore) -> tuple[Anchor, ...]:
    return (*_store_anchor(store), *_anchors_of(store, store.runs.ids()))


def _store_anchor(store: RunStore) -> tuple[Anchor, ...]:
    blob = store.encrypted.read(_ANCHOR)
    return (Anchor(end=end_from(blob, _ANCHOR), where="the anchor in the run store"),) if blob else ()


def move_anchor(store: RunStore, end: End) -> None:
    """Forward only: another command may move it at the same time. A plan job cannot move it."""
    while store.can_apply:
        blob = store.encrypted.read(_ANCHOR)
        if blob is None:
            moved = store.encrypted.create(_ANCHOR, end_data(end))
        elif end_from(blob, _ANCHOR).seq >= end.seq:
            return
        else:
            moved = store.encrypted.replace(_ANCHOR, end_data(end), tag=blob.tag) is not None
        if moved:
            return


def _anchors_of(store: RunStore, runs: tuple[str, ...]) -> Iterator[Anchor]:
    for run, blob in in_parallel(store, lambda run: (run, store.runs.outcome_blob(run)), runs):
        # What a plan job wrote does not count: it could name an entry that does not exist.
        match blob.document() if blob is not None and blob.signed else None:
            case {"audit": {"seq": int(seq), "hash": str(digest)}}:
                yield Anchor(end=End(seq=seq, hash=digest), where=f"the record of run {run}")


def find_loss(store: RunStore, head: Head | None, newest: Anchor | None, *, lines: bool) -> Loss | None:
    """Whether the end of the log is where head and anchor say. Reads few blobs; `audit verify` reads all.

    `lines`: without a head, whether there are any.
    """
    if head is None:
        named = f", and {newest.where} names entry {newest.end.seq}" if newest is not None else ""
        return Loss(message=f"its head is missing{named}") if newest is not None or lines else None
    if head.seq and hash_of(_line(store, head) or b"") != head.hash:
        return Loss(message=f"entry {head.seq}, the last one, is missing or was changed")
    if newest is None or newest.end.seq < head.seq or _reaches(store, head, newest.end):
        return None
    return Loss(message=f"it ends with entry {head.seq}, but {newest.where} names entry {newest.end.seq}")


def _line(store: RunStore, head: Head) -> bytes | None:
    piece = read_piece(store, head.piece)
    lines = (piece.lines if piece is not None else None) or ()
    at = head.seq - head.piece
    return lines[at] if 0 <= at < len(lines) else None


def _reaches(store: RunStore, head: End, end: End) -> bool:
    """Whether the log has this end: a head that was moved back alone is harmless."""
    seq, digest = head.seq, head.hash
    while seq < end.seq:
        piece = read_piece(store, seq + 1)
        if piece is None or not piece.lines:
            return False
        digests = [hash_of(line) for line in piece.lines]
        if seq + len(digests) >= end.seq:
            return digests[end.seq - seq - 1] == end.hash
        seq += len(digests)
    return digest == end.hash
