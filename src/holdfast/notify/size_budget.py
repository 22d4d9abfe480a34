"""A page with a size: what fits is written, and what does not is not begun."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

COMMENT_ROOM = 65_000
"""GitHub takes 65,536 characters in a comment; ours are counted so that no way of counting finds more."""
SUMMARY_ROOM = 1024 * 1024 - 4096
"""A job summary may have 1 MiB per step."""


class Room(Struct, frozen=True, kw_only=True):
    """How much there is, and how it is counted."""

    size: int | None
    measure: Callable[[str], int]


def characters(text: str) -> int:
    """Counted as UTF-16 does, which is never less than code points."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def encoded(text: str) -> int:
    return len(text.encode())


ANYWHERE = Room(size=None, measure=len)
COMMENT = Room(size=COMMENT_ROOM, measure=characters)
SUMMARY = Room(size=SUMMARY_ROOM, measure=encoded)


class Page:
    """Blocks that fit; a block that does not is not begun."""

    def __init__(self, room: Room, reserved: int) -> None:
        self._room = room
        self._blocks: list[str] = []
        self._left = (room.size or 0) - reserved

    def left(self, kept: int = 0) -> int | None:
        return None if self._room.size is None else self._left - kept

    def fits(self, text: str, kept: int = 0) -> bool:
        return self._room.size is None or self.size(text) <= self._left - kept

    def size(self, text: str) -> int:
        return self._room.measure(text) + 2

    def add(self, text: str, kept: int = 0) -> bool:
        if not self.fits(text, kept):
            return False
        self._left -= self.size(text)
        self._blocks.append(text)
        return True

    def text(self) -> str:
        return "\n\n".join(self._blocks)
