"""Which errors are worth a retry, by the table `transient.toml` beside this file.

Only phases that change nothing are retried. An apply is never run again, so no row may name it.
"""

from __future__ import annotations

import re
import tomllib
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

_BLANKS = re.compile(r"[\s│╷╵]+")


class Phase(StrEnum):
    INIT = "init"
    PLAN = "plan"
    SHOW = "show"
    APPLY = "apply"


RETRIED: frozenset[Phase] = frozenset({Phase.INIT, Phase.PLAN, Phase.SHOW})


class TransientRow(Struct, frozen=True, kw_only=True):
    id: str
    patterns: tuple[re.Pattern[str], ...]
    """All of them must match."""
    phases: frozenset[Phase]
    why: str

    def matches(self, text: str) -> bool:
        return all(pattern.search(text) for pattern in self.patterns)


class TransientTable(Struct, frozen=True, kw_only=True):
    permanent: tuple[TransientRow, ...]
    transient: tuple[TransientRow, ...]

    def permanent_row(self, text: str) -> TransientRow | None:
        """The row that forbids a retry, or None."""
        flat = _BLANKS.sub(" ", text)
        return next((row for row in self.permanent if row.matches(flat)), None)

    def transient_row(self, text: str, phase: Phase) -> TransientRow | None:
        """The row that allows a retry, or None. A permanent row anywhere in the text wins."""
        flat = _BLANKS.sub(" ", text)
        if self.permanent_row(flat) is not None:
            return None
        return next((row for row in self.transient if phase in row.phases and row.matches(flat)), None)


def read_table(text: str) -> TransientTable:
    """Raises ValueError for an invalid table. It is part of Holdfast, so a test finds that, not a user."""
    document = tomllib.loads(text)
    table = TransientTable(
        permanent=tuple(_row(row, frozenset()) for row in document.get("permanent", ())),
        transient=tuple(_row(row, _phases(row)) for row in document.get("transient", ())),
    )
    ids = [row.id for row in (*table.permanent, *table.transient)]
    if len(ids) != len(set(ids)):
        raise ValueError("two rows have the same id")
    return table


@cache
def shipped_table() -> TransientTable:
    return read_table(Path(__file__).with_name("transient.toml").read_text("utf-8"))


def _row(row: dict[str, Any], phases: frozenset[Phase]) -> TransientRow:
    patterns = tuple(re.compile(pattern, re.IGNORECASE) for pattern in row["all"])
    if not patterns:
        raise ValueError(f"row {row['id']} matches everything")
    return TransientRow(id=row["id"], patterns=patterns, phases=phases, why=row["why"])


def _phases(row: dict[str, Any]) -> frozenset[Phase]:
    phases = frozenset(Phase(phase) for phase in row["phases"])
    if not phases or phases - RETRIED:
        raise ValueError(f"row {row['id']} names no phase, or one that is never retried")
    return phases
