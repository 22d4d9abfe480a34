"""The hash chain of the audit log. Pure.

A line is a JSON object with its number (`seq`, from 1, without gaps) and the SHA-256 of the previous line
(`before`); the first one follows a hash of the store's id. The head, stored separately, names the last line,
so that a truncated log is noticed. Lines that were written together are one piece, named after its first
line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

from msgspec import Struct

from holdfast.kernel.text import json_object
from holdfast.kernel.values import MaskedStruct


class End(Struct, frozen=True, kw_only=True):
    """The last line of a chain: its number and its SHA-256."""

    seq: int
    hash: str


class Piece(MaskedStruct, frozen=True, kw_only=True):
    seq: int
    """The number of its first line, from its name."""
    lines: tuple[bytes, ...] | None
    """None if it cannot be decrypted; `why` has the reason."""
    why: str = ""
    signed: bool = True
    """By the apply key. A job with the plan key cannot sign."""


def hash_of(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def start_of(store: str) -> End:
    """The first line follows this value, so that the log of another store does not fit."""
    return End(seq=0, hash=hash_of(f"holdfast audit {store}".encode()))


def link(end: End, documents: Iterable[Mapping[str, object]]) -> tuple[tuple[bytes, ...], End]:
    """The lines for these documents after `end`, and the new end."""
    lines: list[bytes] = []
    for document in documents:
        numbered = {"seq": end.seq + 1, "before": end.hash, **document}
        line = json.dumps(numbered, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
        lines.append(line)
        end = End(seq=end.seq + 1, hash=hash_of(line))
    return tuple(lines), end


def content_of(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def lines_in(content: bytes) -> tuple[bytes, ...]:
    """A last line without a line break counts too."""
    return tuple(line for line in content.split(b"\n") if line)


def read(line: bytes) -> dict[str, object] | None:
    """None if the line is not a JSON object."""
    return json_object(line) or None


def documents_of(lines: Iterable[bytes]) -> list[Mapping[str, object]]:
    """Every readable line, in order."""
    return [document for line in lines if (document := read(line)) is not None]
