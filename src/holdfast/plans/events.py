"""Events of a running change, for a terminal or a log."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from holdfast.kernel.values import MaskedStruct
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status


class ChangeStarted(Struct, frozen=True, kw_only=True):
    stacks: tuple[str, ...]
    operation: str


class PhaseStarted(Struct, frozen=True, kw_only=True):
    """Of a stack: waiting, reading inputs, layout, init, validate, plan, show, checks, guard, apply."""

    stack: str
    phase: str


class Resource(Struct, frozen=True, kw_only=True):
    """Terraform started, continues or finished an operation on one resource."""

    stack: str
    address: str
    action: str
    done: bool
    failed: bool = False
    seconds: float = 0.0
    finished: int = 0
    total: int = 0

    @property
    def shown(self) -> str:
        end = "failed" if self.failed else "complete"
        return f"{self.stack}: {self.address}: {self.action} {end} ({self.seconds:g} s)"


class ProgramOutput(MaskedStruct, frozen=True, kw_only=True):
    """A line that a hook or a provisioner printed."""

    stack: str
    program: str
    """The hook, or the address and type of the provisioner."""
    text: str


class StackFinished(Struct, frozen=True, kw_only=True):
    result: StackResult

    def shown(self, operation: str) -> str | None:
        """None: a planned stack of an apply is not finished yet."""
        status, name = self.result.status, self.result.stack.name
        if status is Status.PLANNED and operation != "plan":
            return None
        destroyed = status is Status.APPLIED and operation == "destroy"
        return f"{name}: {'destroyed' if destroyed else status}"


class StackChecked(Struct, frozen=True, kw_only=True):
    """A stack was compared with reality."""

    stack: str
    outcome: str


class Stopping(Struct, frozen=True, kw_only=True):
    """The user asked to stop; `level` 2 is at once."""

    level: int


STOPPING_NOW = "Stopping now: what was in progress may be lost from the state."


class Note(Struct, frozen=True, kw_only=True):
    """Information that changes no result."""

    stack: str | None
    text: str


ACTIVITIES = {"import": "importing", "plan": "planning", "apply": "applying", "destroy": "destroying"} | {
    "drift": "checking"
}
"""By operation."""

Event = (
    ChangeStarted | PhaseStarted | Resource | ProgramOutput | StackFinished | StackChecked | Stopping | Note
)
Listener = Callable[[Event], None]


def ignore_events(_: Event) -> None:
    """For a change without a listener."""
