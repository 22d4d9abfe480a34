"""The status of a run: a closed set, and one table of what may follow each status and what it means."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from holdfast.kernel.errors import Exit


class Status(StrEnum):
    QUEUED = "queued"
    PLANNING = "planning"
    APPLYING = "applying"
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

    @property
    def is_running(self) -> bool:
        """The run has no result yet: in documents its status is null."""
        return self in RUNNING

    @property
    def is_final(self) -> bool:
        """The run is over: Holdfast does nothing more for it, and it holds no claim."""
        return TABLE[self].final

    @property
    def exit(self) -> Exit:
        return TABLE[self].exit

    @property
    def stops_dependents(self) -> bool:
        """Whether stacks that depend on this one cannot be planned: its outputs are not known."""
        return TABLE[self].stops_dependents

    @property
    def satisfies_dependents(self) -> bool:
        """Whether stacks that depend on this one may be applied."""
        return self in {Status.APPLIED, Status.UNCHANGED}

    def require_next(self, status: Status) -> None:
        """Raise unless a run may go from this status to the given one."""
        if status is not self and status not in TABLE[self].next:
            raise InvalidTransition(f"a run cannot go from {self} to {status}")


class InvalidTransition(Exception):  # noqa: N818 - names what was tried
    """A bug in Holdfast: no input causes it."""


class _Row(NamedTuple):
    next: frozenset[Status]
    exit: Exit = Exit.DONE
    """`removed` adds nothing, it is only reported; nor does `blocked`, except on apply (`exit_code`)."""
    final: bool = False
    stops_dependents: bool = False


RUNNING = frozenset({Status.QUEUED, Status.PLANNING, Status.APPLYING})
RESULTS = tuple(status for status in Status if status not in RUNNING)
"""What a result can be."""

_STOPPED = frozenset(
    {Status.FAILED, Status.BLOCKED, Status.REFUSED, Status.LOCKED, Status.CANCELLED, Status.UNKNOWN}
)
_NONE: frozenset[Status] = frozenset()

TABLE: dict[Status, _Row] = {
    Status.QUEUED: _Row(_STOPPED | {Status.PLANNING, Status.APPLYING, Status.REMOVED}),
    Status.PLANNING: _Row(_STOPPED | {Status.UNCHANGED, Status.PLANNED, Status.WAITING}),
    Status.PLANNED: _Row(_STOPPED | {Status.APPLYING, Status.WAITING}),
    Status.WAITING: _Row(_STOPPED | {Status.PLANNED, Status.APPLYING}, Exit.WAITING),
    Status.APPLYING: _Row(_STOPPED - {Status.BLOCKED} | {Status.APPLIED}),
    Status.UNCHANGED: _Row(_STOPPED, final=True),
    Status.APPLIED: _Row(_NONE, final=True),
    Status.FAILED: _Row(_NONE, Exit.FAILED, final=True, stops_dependents=True),
    Status.BLOCKED: _Row(_NONE, final=True, stops_dependents=True),
    Status.REFUSED: _Row(_STOPPED | {Status.PLANNED, Status.WAITING}, Exit.REFUSED, final=True),
    Status.LOCKED: _Row(_NONE, Exit.BUSY, final=True, stops_dependents=True),
    Status.CANCELLED: _Row(_NONE, Exit.FAILED, final=True, stops_dependents=True),
    Status.REMOVED: _Row(_NONE, final=True, stops_dependents=True),
    Status.UNKNOWN: _Row(frozenset({Status.APPLIED, Status.FAILED}), Exit.UNKNOWN, stops_dependents=True),
}
"""A plan may still be stopped after it was made: by the change's budget, a person, or its bundle."""

STATUS_OF_EXIT: dict[Exit, Status] = {
    Exit.FAILED: Status.FAILED,
    Exit.REFUSED: Status.REFUSED,
    Exit.BUSY: Status.LOCKED,
    Exit.WAITING: Status.WAITING,
    Exit.UNKNOWN: Status.UNKNOWN,
    Exit.USAGE: Status.FAILED,
}
"""The status of a stack whose run raised an error."""
