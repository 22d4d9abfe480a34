"""What a change says while it runs, for whoever watches: a terminal, a log, nobody."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.kernel.values import dataclass
from holdfast.plans.result import StackResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    stacks: tuple[str, ...]
    operation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entered:
    """A stack came to its next phase: layout, init, validate, plan, show, checks, apply."""

    stack: str
    phase: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """Terraform began or ended something with one resource."""

    stack: str
    address: str
    action: str
    done: bool
    failed: bool = False
    seconds: float = 0.0
    finished: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    result: StackResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    """The person asked to stop; `level` 2 is at once."""

    level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something a person should know that changes no result."""

    stack: str | None
    text: str


Event = Begun | Entered | Resource | Ended | Stopping | Note
Listener = Callable[[Event], None]


def nobody(_: Event) -> None:
    """Watches nothing."""
