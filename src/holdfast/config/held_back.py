"""Entries that `holdfast init` wrote as comments: something about their stacks is not known yet."""

from __future__ import annotations

import re

HELD_BACK = "# Held back:"
"""Begins the comment above them."""
MORE = "# … and {} more held-back entries"
"""Begins the comment below them, if there are too many to write."""
_ENTRY = re.compile(r"^# {1,2}- [a-z_]+:", re.MULTILINE)
"""Lists inside an entry are indented more."""
_MORE = re.compile(f"^{re.escape(MORE).replace(re.escape('{}'), '([0-9]{1,9})')}", re.MULTILINE)


def held_back_entries(text: str) -> int:
    """How many entries of a configuration are still held back."""
    comments = text.partition(HELD_BACK)[2]
    return len(_ENTRY.findall(comments)) + sum(map(int, _MORE.findall(comments)))
