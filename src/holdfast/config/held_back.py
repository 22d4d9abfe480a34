"""Entries that `holdfast init` wrote as comments: something about their stacks is not known yet."""

from __future__ import annotations

import re

HELD_BACK = "# Held back:"
"""Begins the comment above them."""
_ENTRY = re.compile(r"^# +- [a-z_]+:", re.MULTILINE)


def held_back_entries(text: str) -> int:
    """How many entries of a configuration are still held back."""
    return len(_ENTRY.findall(text.partition(HELD_BACK)[2]))
