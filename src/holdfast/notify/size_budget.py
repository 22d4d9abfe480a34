"""A page with a size budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

SUMMARY_SIZE = 1024 * 1024 - 4096
"""A job summary may have 1 MiB per step."""


class SizeBudget(Struct, frozen=True, kw_only=True):
    size: int | None
    measure: Callable[[str], int]


def characters(text: str) -> int:
    """UTF-16 code units, never fewer than code points."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def encoded(text: str) -> int:
    return len(text.encode())


UNLIMITED = SizeBudget(size=None, measure=len)


class Page:
    """A block is added whole or not at all."""

    def __init__(self, budget: SizeBudget, reserved: int) -> None:
        self._budget = budget
        self._blocks: list[str] = []
        self._left = (budget.size or 0) - reserved

    def left(self, reserved: int = 0) -> int | None:
        return None if self._budget.size is None else self._left - reserved

    def fits(self, text: str, reserved: int = 0) -> bool:
        return self._budget.size is None or self.size(text) <= self._left - reserved

    def size(self, text: str) -> int:
        return self._budget.measure(text) + 2

    def fitting(self, blocks: Iterable[str], left: int) -> list[str]:
        """The first ones, as many as fit."""
        shown = []
        for block in blocks:
            left -= self.size(block)
            if left < 0:
                break
            shown.append(block)
        return shown

    def add(self, text: str) -> bool:
        if not self.fits(text):
            return False
        self._left -= self.size(text)
        self._blocks.append(text)
        return True

    def text(self) -> str:
        return "\n\n".join(self._blocks)
