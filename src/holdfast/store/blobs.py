"""The blob store under a run store: names to bytes, in a folder or in S3.

It guarantees that only one writer creates a name, and that a writer replaces only what it has read. A blob
that cannot be read is an error, never "absent".
"""

from __future__ import annotations

from typing import NamedTuple, Protocol
from urllib.parse import quote, unquote

from holdfast.kernel.secret import masked_repr


class StoredBlob(NamedTuple):
    data: bytes
    tag: str
    """Changes with every write; `replace` and `remove` compare it."""

    def __repr__(self) -> str:
        return masked_repr(self)


class BlobStore(Protocol):
    """The parts of a name are joined by `/`, and each is safe as a file name."""

    shown: str
    """For messages: a path or an address, without secrets."""

    def read(self, name: str) -> StoredBlob | None:
        """None only if it does not exist."""
        ...

    def create(self, name: str, data: bytes) -> bool:
        """Durable, and complete before the name appears. False if the name exists."""
        ...

    def replace(self, name: str, data: bytes, *, tag: str) -> str | None:
        """The new tag, or None if the blob no longer has this tag."""
        ...

    def write(self, name: str, data: bytes, *, durable: bool = True) -> None:
        """Unconditional."""
        ...

    def remove(self, name: str, *, tag: str | None = None) -> bool:
        """False if it does not exist, or has another tag."""
        ...

    def names(self, folder: str) -> tuple[str, ...]:
        """Every full name below `folder/`, sorted."""
        ...


def encode_name(text: str) -> str:
    """Any text as one part of a name. It never starts with a dot: such files are partial writes."""
    quoted = quote(text, safe="")
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted


def decode_name(part: str) -> str:
    return unquote(part)
