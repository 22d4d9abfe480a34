"""The status of a run: a closed set, with what each one means for the exit code, in one table."""

from __future__ import annotations

from enum import StrEnum

from holdfast.kernel.errors import Exit


class Status(StrEnum):
    UNCHANGED = "unchanged"
    PLANNED = "planned"
    APPLIED = "applied"
    FAILED = "failed"
    BLOCKED = "blocked"
    REFUSED = "refused"
    LOCKED = "locked"
    WAITING = "waiting"
    CANCELLED = "cancelled"
    REMOVED = "removed"
    UNKNOWN = "unknown"


EXITS: dict[Status, Exit] = {
    Status.UNCHANGED: Exit.DONE,
    Status.PLANNED: Exit.DONE,
    Status.APPLIED: Exit.DONE,
    Status.FAILED: Exit.FAILED,
    Status.BLOCKED: Exit.DONE,
    Status.REFUSED: Exit.REFUSED,
    Status.LOCKED: Exit.BUSY,
    Status.WAITING: Exit.WAITING,
    Status.CANCELLED: Exit.FAILED,
    Status.REMOVED: Exit.DONE,
    Status.UNKNOWN: Exit.UNKNOWN,
}
"""`blocked` and `removed` add nothing: what blocks has an exit of its own, what is removed only tells."""

STATUS_OF_EXIT: dict[Exit, Status] = {
    Exit.FAILED: Status.FAILED,
    Exit.REFUSED: Status.REFUSED,
    Exit.BUSY: Status.LOCKED,
    Exit.WAITING: Status.WAITING,
    Exit.UNKNOWN: Status.UNKNOWN,
    Exit.USAGE: Status.FAILED,
}
"""What an error that ends one stack makes of it."""

SETTLED = frozenset({Status.APPLIED, Status.UNCHANGED})
"""What a dependency must be before a stack that needs it is applied."""

STOPS_DEPENDENTS = frozenset(
    {Status.FAILED, Status.BLOCKED, Status.LOCKED, Status.CANCELLED, Status.UNKNOWN, Status.REMOVED}
)
"""A dependency in one of these has no plan that could be believed."""
