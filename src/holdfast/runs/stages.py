"""The stages of a deploy: what became of each, and where a repeated deploy begins. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

NAMES: Final = ("apply", "facts", "cluster", "bootstrap", "gates")


class StageStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"

    @property
    def is_over(self) -> bool:
        """Nothing of it is left to do."""
        return self in {StageStatus.DONE, StageStatus.SKIPPED}


class Stage(Struct, frozen=True, kw_only=True):
    name: str
    status: StageStatus = StageStatus.PENDING
    summary: str = ""
    details: tuple[str, ...] = ()

    def document(self) -> dict[str, object]:
        return {
            "name": self.name,
            "status": self.status.value,
            "summary": self.summary or None,
            "details": list(self.details),
        }


NEW: Final = tuple(Stage(name=name) for name in NAMES)


def with_stage(stages: Sequence[Stage], stage: Stage) -> tuple[Stage, ...]:
    return tuple(stage if one.name == stage.name else one for one in stages)


def resumed(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """What was over at the beginning stays; the first stage that was not, and all after it, run again."""
    over = 0
    while over < len(stages) and stages[over].status.is_over:
        over += 1
    return (*stages[:over], *NEW[over:])


def is_complete(stages: Sequence[Stage]) -> bool:
    return all(stage.status.is_over for stage in stages)
