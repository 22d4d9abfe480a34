"""The chain of lines: how it is made and read. Pure.

A line is one JSON object with its number (`seq`, from 1, without a gap) and the SHA-256 of the line before it
(`before`); the first one follows a value made of the store's id. The end is kept apart, as the head: so lines
that are cut off are missed too. Lines are kept in pieces, as many as were written at once; a piece has the
number of its first line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from holdfast.kernel.values import MaskedStruct


class End(Struct, frozen=True, kw_only=True):
    """The last line of a chain, or of its beginning: its number and its SHA-256."""

    seq: int
    hash: str


class Piece(MaskedStruct, frozen=True, kw_only=True):
    seq: int
    """As its name says: the number of its first line."""
    lines: tuple[bytes, ...] | None
    """None where it cannot be opened; `why` says why."""
    why: str = ""


def hash_of(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def beginning(store: str) -> End:
    """What the first line of a store's log follows: a log of another store does not fit."""
    return End(seq=0, hash=hash_of(f"holdfast audit {store}".encode()))


def linked(end: End, documents: Iterable[Mapping[str, object]]) -> tuple[tuple[bytes, ...], End]:
    """The lines that these become behind `end`, and the new end."""
    lines: list[bytes] = []
    for document in documents:
        placed = {"seq": end.seq + 1, "before": end.hash, **document}
        line = json.dumps(placed, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
        lines.append(line)
        end = End(seq=end.seq + 1, hash=hash_of(line))
    return tuple(lines), end


def content_of(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def lines_in(content: bytes) -> tuple[bytes, ...]:
    """A last line without its end is a line too: whatever it is, it is looked at."""
    return tuple(line for line in content.split(b"\n") if line)


def read(line: bytes) -> dict[str, object] | None:
    """The line as a document; None where it is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def documents_in(pieces: Sequence[Piece]) -> tuple[dict[str, object], ...]:
    """Every line that can be read, in its order."""
    found = (read(line) for piece in pieces for line in piece.lines or ())
    return tuple(document for document in found if document is not None)
