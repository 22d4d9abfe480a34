"""Errors worth a retry, by `transient.toml`, and creates that an API refused, by `refused_creates.toml`.

Only phases that change nothing are retried. An apply is never run again.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast.kernel.patterns import pattern

_BLANKS = pattern(r"[\s│╷╵]+")


class Phase(StrEnum):
    INIT = "init"
    PLAN = "plan"
    SHOW = "show"
    APPLY = "apply"


RETRIED: frozenset[Phase] = frozenset({Phase.INIT, Phase.PLAN, Phase.SHOW})


class TransientRow(Struct, frozen=True, kw_only=True):
    id: str
    all: tuple[str, ...]
    """Regular expressions; all of them must match."""
    why: str
    phases: frozenset[Phase] = frozenset()

    def matches(self, text: str) -> bool:
        return all(re.search(pattern, text, re.IGNORECASE) for pattern in self.all)


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
        if phase not in RETRIED or self.permanent_row(flat) is not None:
            return None
        return next((row for row in self.transient if phase in row.phases and row.matches(flat)), None)


@cache
def shipped_table() -> TransientTable:
    return msgspec.convert(_toml("transient.toml"), TransientTable)


class RefusedCreate(Struct, frozen=True, kw_only=True):
    provider: str
    """Its address, or the end of it: `hashicorp/aws`."""
    text: str
    why: str = ""

    def matches(self, provider: str, text: str) -> bool:
        named = provider == self.provider or provider.endswith(f"/{self.provider}")
        return named and self.text.casefold() in " ".join(text.split()).casefold()


@cache
def shipped_refused() -> tuple[RefusedCreate, ...]:
    return msgspec.convert(_toml("refused_creates.toml")["refused"], tuple[RefusedCreate, ...])


def _toml(name: str) -> dict[str, object]:
    import tomllib  # noqa: PLC0415 - only after a failure

    return tomllib.loads(Path(__file__).with_name(name).read_text("utf-8"))
