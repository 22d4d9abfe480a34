"""Who holds the lock of a state, as Terraform says it. Pure.

Terraform gives the holder in words only, inside an error. They are shown, and they name the id of a lock to
release, which Terraform compares with the lock itself; nothing else is decided by them.
"""

from __future__ import annotations

import re

from msgspec import Struct

_LOCK = re.compile(
    r"\bID:\s+(?P<id>\S+).*?\bOperation:\s+(?P<operation>\S*).*?\bWho:\s+(?P<who>\S+).*?"
    r"\bCreated:\s+(?P<created>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)",
    re.DOTALL,
)
_PREFIX = "OperationType"


class LockInfo(Struct, frozen=True, kw_only=True):
    id: str
    who: str
    created: str
    """In UTC, to the second."""
    operation: str

    def __str__(self) -> str:
        doing = f" ({self.operation})" if self.operation else ""
        return f"{self.who} since {self.created} UTC{doing}, lock {self.id}"


def parse_lock_info(text: str) -> LockInfo | None:
    match = _LOCK.search(text)
    if match is None:
        return None
    operation = match["operation"].removeprefix(_PREFIX).lower()
    return LockInfo(id=match["id"], who=match["who"], created=match["created"], operation=operation)
