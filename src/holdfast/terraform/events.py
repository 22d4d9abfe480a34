"""The events of Terraform's `-json` stream. `stream` reads them; the listener of a run receives them.

Messages and values may contain secrets: they are redacted before they are shown, and no repr shows them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from holdfast.kernel.values import MaskedStruct
from holdfast.terraform.diagnostics import Diagnostic


class StreamEvent(MaskedStruct, frozen=True, kw_only=True):
    """What every event has: Terraform's message, and its time (RFC 3339), if given."""

    message: str = ""
    at: str | None = None


class StreamVersion(StreamEvent, frozen=True, kw_only=True):
    """The first line of a stream."""

    engine: str
    """`terraform` or `tofu`."""
    version: str
    ui: str


class PlannedChange(StreamEvent, frozen=True, kw_only=True):
    address: str
    action: str
    """Terraform's name in the stream: noop, move, remove (forget), create, read, update, replace, …"""
    reason: str | None = None
    previous_address: str | None = None


class ResourceDrift(PlannedChange, frozen=True, kw_only=True):
    """A change outside of Terraform."""


class ResourceEvent(StreamEvent, frozen=True, kw_only=True):
    address: str
    id_key: str | None = None
    id_value: str | None = None


class RefreshStart(ResourceEvent, frozen=True, kw_only=True):
    pass


class RefreshComplete(ResourceEvent, frozen=True, kw_only=True):
    pass


class ApplyEvent(ResourceEvent, frozen=True, kw_only=True):
    action: str
    elapsed: float = 0.0
    """Seconds."""


class ApplyStart(ApplyEvent, frozen=True, kw_only=True):
    pass


class ApplyProgress(ApplyEvent, frozen=True, kw_only=True):
    """Sent every ten seconds while a resource is in progress."""


class ApplyComplete(ApplyEvent, frozen=True, kw_only=True):
    """With the id of the resource, which must survive a crash."""


class ApplyErrored(ApplyEvent, frozen=True, kw_only=True):
    """Only that it failed; the reason follows as a `DiagnosticEvent` at the end of the operation."""


class Stage(StrEnum):
    STARTED = "started"
    PROGRESS = "progress"
    COMPLETE = "complete"
    ERRORED = "errored"


class Step(StreamEvent, frozen=True, kw_only=True):
    """A provisioner, an ephemeral resource or a provider action in progress."""

    what: str
    """`provisioner`, `ephemeral` or `action`."""
    stage: Stage
    address: str


class PlannedAction(StreamEvent, frozen=True, kw_only=True):
    """A provider action that the apply will invoke (Terraform 1.14 and later)."""

    address: str


class ChangeSummary(StreamEvent, frozen=True, kw_only=True):
    """A replacement is one `add` and one `remove`; forgotten resources are not counted."""

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
    """None where it is sensitive or not yet known."""


class Outputs(StreamEvent, frozen=True, kw_only=True):
    outputs: tuple[Output, ...]


class DiagnosticEvent(StreamEvent, frozen=True, kw_only=True):
    diagnostic: Diagnostic


class Log(StreamEvent, frozen=True, kw_only=True):
    """`Interrupt received`, `Stopping operation`; also the emergency dump of a state that cannot be saved."""

    level: str
    state: str | None = None


class UnknownEvent(StreamEvent, frozen=True, kw_only=True):
    """A line of an unknown type, or a known type with an unknown shape."""

    type: str


class UnparsedLine(MaskedStruct, frozen=True, kw_only=True):
    """Not a line of the stream: output of a provider, a wrapper or a crash."""

    text: str


Event = StreamEvent | UnparsedLine
