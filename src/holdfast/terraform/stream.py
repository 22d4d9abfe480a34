"""The `-json` stream of Terraform and OpenTofu: one line in, one event out, whatever the line is.

No line may stop the reader of a running apply. A line that is not JSON is an `UnparsedLine`, an unknown
one an `UnknownEvent`. Values may contain secrets: they are redacted before they are shown, and no repr shows
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.kernel.patterns import pattern
from holdfast.kernel.values import MaskedStruct
from holdfast.terraform.diagnostics import Diagnostic


class StreamEvent(MaskedStruct, frozen=True, kw_only=True):
    at: str | None = None
    """Terraform's time (RFC 3339), if given."""


class ApplyEvent(StreamEvent, frozen=True, kw_only=True):
    address: str
    action: str
    id_key: str | None = None
    id_value: str | None = None
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


class Step(StreamEvent, frozen=True, kw_only=True):
    """A provisioner, an ephemeral resource or a provider action in progress."""

    what: str
    """`provision`, `ephemeral` or `action`."""
    failed: bool
    address: str
    provisioner: str = ""
    """Its type, such as `local-exec`."""
    output: str = ""
    """A line that a provisioner printed."""


class ChangeSummary(StreamEvent, frozen=True, kw_only=True):
    operation: str
    """`plan`, `apply` or `destroy`."""


class Output(MaskedStruct, frozen=True, kw_only=True):
    sensitive: bool = False
    action: str | None = None
    value: Any = None
    """None where it is sensitive or not yet known."""


class Outputs(StreamEvent, frozen=True, kw_only=True):
    outputs: dict[str, Output]


class DiagnosticEvent(StreamEvent, frozen=True, kw_only=True):
    diagnostic: Diagnostic


class UnknownEvent(StreamEvent, frozen=True, kw_only=True):
    """A line that Holdfast does not use: another type, or an unknown shape. The journal has it."""

    type: str


class UnparsedLine(MaskedStruct, frozen=True, kw_only=True):
    """Not a line of the stream: output of a provider, a wrapper or a crash."""

    text: str


Event = StreamEvent | UnparsedLine


class _Resource(msgspec.Struct, frozen=True):
    addr: str = ""


class _Hook(msgspec.Struct, frozen=True):
    resource: _Resource | None = None
    action: Any = None
    """A string for resources, an object with an address for provider actions."""
    id_key: str | None = None
    id_value: str | None = None
    elapsed_seconds: float = 0.0
    provisioner: str = ""
    output: str = ""


class _Changes(msgspec.Struct, frozen=True):
    operation: str = ""


class _Head(msgspec.Struct, frozen=True):
    type: str = ""
    message: str = msgspec.field(name="@message", default="")
    """Read only so that a line with broken bytes in it is an `UnparsedLine`."""
    at: str | None = msgspec.field(name="@timestamp", default=None)


class _Line(_Head, frozen=True):
    changes: _Changes | None = None
    hook: _Hook | None = None
    outputs: dict[str, Output] | None = None
    diagnostic: Diagnostic | None = None


_HEAD = msgspec.json.Decoder(_Head)
_LINE = msgspec.json.Decoder(_Line)
_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_APPLY: dict[str, type[ApplyEvent]] = {
    "apply_start": ApplyStart,
    "apply_progress": ApplyProgress,
    "apply_complete": ApplyComplete,
    "apply_errored": ApplyErrored,
}
_STEP = pattern(r"(provision|ephemeral|action)(?:_op|_action)?_(start|started|progress|complete|errored)")
"""Terraform writes ephemeral_op_start, OpenTofu ephemeral_action_started."""


def read_line(line: bytes | str) -> Event:
    """Never raises: every line is an event."""
    data = line.encode("utf-8", "replace") if isinstance(line, str) else line
    try:
        parsed = _LINE.decode(data)
        return _event(parsed) or UnknownEvent(type=parsed.type, at=parsed.at)
    except _ERRORS:
        pass
    try:
        head = _HEAD.decode(data)
        return UnknownEvent(type=head.type, at=head.at)
    except _ERRORS:
        return UnparsedLine(text=data.decode("utf-8", "replace").rstrip("\r\n"))


def _event(line: _Line) -> Event | None:
    """None for a type that Holdfast does not use, and for a known one without its main part."""
    hook, at = line.hook, line.at
    if line.type in _APPLY and hook is not None and hook.resource is not None:
        return _APPLY[line.type](
            address=hook.resource.addr,
            action=hook.action if isinstance(hook.action, str) else "",
            id_key=hook.id_key,
            id_value=hook.id_value,
            elapsed=hook.elapsed_seconds,
            at=at,
        )
    if line.type == "change_summary" and line.changes is not None:
        return ChangeSummary(operation=line.changes.operation, at=at)
    if line.type == "outputs" and line.outputs is not None:
        return Outputs(outputs={name: _shown(output) for name, output in line.outputs.items()}, at=at)
    if line.type == "diagnostic" and line.diagnostic is not None:
        return DiagnosticEvent(diagnostic=line.diagnostic, at=at)
    if hook is not None and (step := _STEP.fullmatch(line.type)):
        address = hook.resource.addr if hook.resource is not None else _action_address(hook.action)
        failed = step[2] == "errored"
        return Step(
            what=step[1],
            failed=failed,
            address=address,
            at=at,
            provisioner=hook.provisioner,
            output=hook.output,
        )
    return None


def _shown(output: Output) -> Output:
    return Output(sensitive=True, action=output.action) if output.sensitive else output


def _action_address(action: Any) -> str:
    address = action.get("addr") if isinstance(action, dict) else None
    return address if isinstance(address, str) else ""


class CommandOutput(msgspec.Struct):
    """What the stream of one command contained so far."""

    diagnostics: list[Diagnostic] = msgspec.field(default_factory=list)
    noise: list[str] = msgspec.field(default_factory=list)
    outputs: dict[str, Output] = msgspec.field(default_factory=dict)
    on_event: Callable[[Event], None] | None = None

    def line(self, line: bytes) -> None:
        event = read_line(line)
        match event:
            case DiagnosticEvent(diagnostic=diagnostic):
                self.diagnostics.append(diagnostic)
            case Outputs(outputs=outputs):
                self.outputs = outputs
            case UnparsedLine(text=text):
                self.noise.append(text)
            case _:
                pass
        if self.on_event is not None:
            self.on_event(event)
