"""Creates that an API refused before it created anything, by `refused_creates.toml` beside this file."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

from msgspec import Struct

from holdfast.config.engine import MEANINGLESS


class RefusedCreate(Struct, frozen=True, kw_only=True):
    provider: str
    """Its address, or the end of it: `hashicorp/aws`."""
    text: str
    why: str = ""

    def matches(self, provider: str, text: str) -> bool:
        named = provider == self.provider or provider.endswith(f"/{self.provider}")
        return named and self.text.casefold() in " ".join(text.split()).casefold()


def read_refused(text: str) -> tuple[RefusedCreate, ...]:
    """Raises ValueError for an invalid row: a test finds it, not a user."""
    rows = tuple(RefusedCreate(**row) for row in tomllib.loads(text).get("refused", ()))
    for row in rows:
        if re.fullmatch(MEANINGLESS, row.text) or not row.provider or not row.why:
            raise ValueError(f"`{row.text}` of `{row.provider}` proves nothing")
    return rows


@cache
def shipped_refused() -> tuple[RefusedCreate, ...]:
    return read_refused(Path(__file__).with_name("refused_creates.toml").read_text("utf-8"))
