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


class ResourceEvent(StreamEvent, frozen=True, kw_only=True):
    address: str
    id_key: str | None = None
    id_value: str | None = None


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


class ChangeSummary(StreamEvent, frozen=True, kw_only=True):
    operation: str
    """`plan`, `apply` or `destroy`."""


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


class UnknownEvent(StreamEvent, frozen=True, kw_only=True):
    """A line that Holdfast does not use: another type, or an unknown shape."""

    type: str


class UnparsedLine(MaskedStruct, frozen=True, kw_only=True):
    """Not a line of the stream: output of a provider, a wrapper or a crash."""

    text: str


Event = StreamEvent | UnparsedLine
