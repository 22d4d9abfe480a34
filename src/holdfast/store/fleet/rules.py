"""What an event may be, what a device may become, and what follows an attempt. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from msgspec import Struct

from holdfast.store.server_runs.phases import Operation


class Action(StrEnum):
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"

    @property
    def operation(self) -> Operation:
        return Operation.DESTROY if self is Action.DELETE else Operation.APPLY


class EventStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    """For a decision about its plan. Only shown: its change says so."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SUPERSEDED = "superseded"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"

    @property
    def is_final(self) -> bool:
        """Not `unknown`: a person reconciles it, and then it goes on."""
        return self in _FINAL


_FINAL: Final = frozenset(
    {EventStatus.SUCCEEDED, EventStatus.FAILED, EventStatus.SUPERSEDED, EventStatus.CANCELLED}
)


class DeviceStatus(StrEnum):
    ABSENT = "absent"
    PRESENT = "present"
    INCOMPLETE = "incomplete"
    """Its creation or deletion failed: some of it may exist."""


def expected_status(current: DeviceStatus, open_actions: Iterable[Action]) -> DeviceStatus:
    """Of a device once its open events, in their order, have succeeded."""
    for action in open_actions:
        current = DeviceStatus.ABSENT if action is Action.DELETE else DeviceStatus.PRESENT
    return current


def is_refused(action: Action, expected: DeviceStatus) -> bool:
    """Whether the action makes no sense for a device that is, or will be, like this.

    What an event that failed left behind may be created, updated and deleted.
    """
    match expected:
        case DeviceStatus.PRESENT:
            return action is Action.CREATE
        case DeviceStatus.ABSENT:
            return action is not Action.CREATE
        case DeviceStatus.INCOMPLETE:
            return False


class Attempt(Struct, frozen=True, kw_only=True):
    """How the change of an event ended."""

    status: str | None
    """Of its run; None: it has none."""
    cancelled: bool = False
    """A person cancelled the change."""
    rejected: bool = False
    """A person rejected its plan."""
    attempts: int = 1
    """How many there were, this one included."""
    retries: int = 0


class Outcome(Struct, frozen=True, kw_only=True):
    status: EventStatus
    retried: bool = False
    """It is queued for another attempt."""


_DONE: Final = frozenset({"applied", "unchanged"})
_REPEATED: Final = frozenset({"failed", "locked"})
"""A plan that was refused is refused again."""


def outcome(attempt: Attempt) -> Outcome:
    """Only what surely failed is tried again: an apply whose outcome is unknown waits for a person."""
    if attempt.status in _DONE:
        return Outcome(status=EventStatus.SUCCEEDED)
    if attempt.status == "unknown":
        return Outcome(status=EventStatus.UNKNOWN)
    if attempt.cancelled or attempt.rejected or attempt.status == "cancelled":
        return Outcome(status=EventStatus.CANCELLED)
    if attempt.status in _REPEATED and attempt.attempts <= attempt.retries:
        return Outcome(status=EventStatus.QUEUED, retried=True)
    return Outcome(status=EventStatus.FAILED)


def device_after(current: DeviceStatus, action: Action, status: EventStatus, *, began: bool) -> DeviceStatus:
    """Of a device whose event ended like this. `began`: Terraform began to change it."""
    if status is EventStatus.SUCCEEDED:
        return DeviceStatus.ABSENT if action is Action.DELETE else DeviceStatus.PRESENT
    # After a failed creation the client may clean up, whatever there is.
    left = began or (status is EventStatus.FAILED and action is Action.CREATE)
    return DeviceStatus.INCOMPLETE if left and action is not Action.UPDATE else current
