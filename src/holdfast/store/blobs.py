"""Where the things of a run store lie: names to bytes, in a folder or behind S3.

Two promises carry everything above: a name is created by one only, and is replaced only by one who has seen
what it replaces. What cannot be reached or read is an error, never "absent".
"""

from __future__ import annotations

from typing import Protocol

from holdfast.kernel.values import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    data: bytes = field(repr=False)
    tag: str
    """Another one after every write: what `replace` and `remove` compare."""


class BlobStore(Protocol):
    """Names are words joined by `/`; each word is safe as a file name."""

    shown: str
    """The place, for people: a path or an address. Never a secret."""

    def read(self, name: str) -> Item | None:
        """None only when it really is not there."""
        ...

    def create(self, name: str, data: bytes) -> bool:
        """Durably, and complete before the name appears. False when somebody was first."""
        ...

    def replace(self, name: str, data: bytes, *, tag: str) -> str | None:
        """The new tag, or None when what is there is not what `tag` names (or nothing is)."""
        ...

    def write(self, name: str, data: bytes, *, durable: bool = True) -> None:
        """Whatever was there."""
        ...

    def remove(self, name: str, *, tag: str | None = None) -> bool:
        """False when it was not there, or is not what `tag` names."""
        ...

    def names(self, folder: str) -> tuple[str, ...]:
        """Every name below `folder/`, whole and sorted."""
        ...
