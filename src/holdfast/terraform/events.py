"""What Terraform says while it works, as values. `stream` reads them; the sink of a run receives them.

Messages and values may hold secrets: they pass the redactor before anybody sees them, and no repr shows them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from holdfast.kernel.secret import masked_repr
from holdfast.kernel.values import MaskedStruct
from holdfast.terraform.diagnostics import Diagnostic


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    """What every event has: Terraform's own sentence, and when it said it (RFC 3339), if it did."""

    message: str = ""
    at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamVersion(StreamEvent):
    """The first line of a stream."""

    engine: str
    """`terraform` or `tofu`."""
    version: str
    ui: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChange(StreamEvent):
    address: str
    action: str
    """Terraform's word in the stream: noop, move, remove (forget), create, read, update, replace, …"""
    reason: str | None = None
    previous_address: str | None = None


class ResourceDrift(PlannedChange, frozen=True, kw_only=True):
    """Something was changed outside of Terraform."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceEvent(StreamEvent):
    address: str
    id_key: str | None = None
    id_value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshStart(ResourceEvent):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshComplete(ResourceEvent):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyEvent(ResourceEvent):
    action: str
    elapsed: float = 0.0
    """Seconds."""


class ApplyStart(ApplyEvent, frozen=True, kw_only=True):
    pass


class ApplyProgress(ApplyEvent, frozen=True, kw_only=True):
    """Comes every ten seconds while a resource is at work."""


class ApplyComplete(ApplyEvent, frozen=True, kw_only=True):
    """With the id of what was made: what a crash must not lose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyErrored(ApplyEvent):
    """Says only that it failed; why comes as a `DiagnosticEvent` at the end of the operation."""


class Stage(StrEnum):
    STARTED = "started"
    PROGRESS = "progress"
    COMPLETE = "complete"
    ERRORED = "errored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(StreamEvent):
    """A provisioner, an ephemeral resource or a provider's action at work."""

    what: str
    """`provisioner`, `ephemeral` or `action`."""
    stage: Stage
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAction(StreamEvent):
    """A provider's action that the plan will set off (Terraform 1.14 and later)."""

    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSummary(StreamEvent):
    """A replacement is one `add` and one `remove` here; what is forgotten is not counted."""

    operation: str
    add: int
    change: int
    remove: int
    import_: int
    action_invocation: int


class Output(MaskedStruct, frozen=True, kw_only=True):
    name: str
    sensitive: bool
    action: str | None
    has_value: bool
    value: Any
    """None where it is sensitive or not known yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs(StreamEvent):
    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosticEvent(StreamEvent):
    diagnostic: Diagnostic


@dataclass(frozen=True, slots=True, kw_only=True)
class Log(StreamEvent):
    """`Interrupt received`, `Stopping operation`; also the emergency dump of a state that cannot be saved."""

    level: str
    state: str | None = None

    __repr__ = masked_repr


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownEvent(StreamEvent):
    """A kind of line that this version does not know, or a known one in a shape that it does not."""

    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnparsedLine:
    """Not a line of the stream: what a provider, a wrapper or a crash printed between."""

    text: str


Event = (
    StreamVersion
    | PlannedChange
    | ResourceDrift
    | RefreshStart
    | RefreshComplete
    | ApplyEvent
    | ApplyStart
    | ApplyProgress
    | ApplyComplete
    | ApplyErrored
    | Step
    | PlannedAction
    | ChangeSummary
    | Outputs
    | DiagnosticEvent
    | Log
    | UnknownEvent
    | UnparsedLine
)
