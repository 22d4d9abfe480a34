"""Events of a running change, for a terminal or a log."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from holdfast.kernel.values import MaskedStruct
from holdfast.plans.result import StackResult


class ChangeStarted(Struct, frozen=True, kw_only=True):
    stacks: tuple[str, ...]
    operation: str


class PhaseStarted(Struct, frozen=True, kw_only=True):
    """A phase of a stack: waiting, reading inputs, layout, init, validate, plan, show, checks, apply."""

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


class ProgramOutput(MaskedStruct, frozen=True, kw_only=True):
    """A line that a hook or a provisioner printed."""

    stack: str
    program: str
    """The hook, or the address and type of the provisioner."""
    text: str


class StackFinished(Struct, frozen=True, kw_only=True):
    result: StackResult


class Stopping(Struct, frozen=True, kw_only=True):
    """The user asked to stop; `level` 2 is at once."""

    level: int


class Note(Struct, frozen=True, kw_only=True):
    """Information that changes no result."""

    stack: str | None
    text: str


Event = ChangeStarted | PhaseStarted | Resource | ProgramOutput | StackFinished | Stopping | Note
Listener = Callable[[Event], None]


def ignore_events(_: Event) -> None:
    """For a change without a listener."""
