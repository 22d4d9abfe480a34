"""The `-json` stream of Terraform and OpenTofu: one line in, one event out, whatever the line is.

No line may stop the reader of a running apply. A line that is not JSON is an `UnparsedLine`, an unknown
one an `UnknownEvent`; both keep the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from holdfast.terraform import events
from holdfast.terraform.diagnostics import Diagnostic
from holdfast.terraform.events import Event, Stage


class _Resource(msgspec.Struct, frozen=True):
    addr: str = ""


class _Hook(msgspec.Struct, frozen=True):
    resource: _Resource | None = None
    action: Any = None
    """A string for resources, an object with an address for provider actions."""
    id_key: str | None = None
    id_value: str | None = None
    elapsed_seconds: float = 0.0


class _Changes(msgspec.Struct, frozen=True):
    operation: str = ""


class _Output(msgspec.Struct, frozen=True):
    sensitive: bool = False
    action: str | None = None
    value: Any = msgspec.UNSET


class _Head(msgspec.Struct, frozen=True):
    type: str = ""
    message: str = msgspec.field(name="@message", default="")
    at: str | None = msgspec.field(name="@timestamp", default=None)


class _Line(_Head, frozen=True):
    changes: _Changes | None = None
    hook: _Hook | None = None
    outputs: dict[str, _Output] | None = None
    diagnostic: Diagnostic | None = None


IGNORED = frozenset(
    {
        "version",
        "planned_change",
        "resource_drift",
        "refresh_start",
        "refresh_complete",
        "planned_action_invocation",
        "log",
    }
)
"""Known types of lines that Holdfast does not use. The journal has them."""
_Part = TypeVar("_Part")
_Read = tuple[type[events.StreamEvent], dict[str, Any]]
"""The type of an event, and its fields beside message and time."""
_HEAD = msgspec.json.Decoder(_Head)
_LINE = msgspec.json.Decoder(_Line)


class _IncompleteError(Exception):
    """A known type of line without its main part."""


def read_line(line: bytes | str) -> Event:
    """Never raises: every line is an event."""
    data = line.encode("utf-8", "replace") if isinstance(line, str) else line
    try:
        head = _HEAD.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return events.UnparsedLine(text=data.decode("utf-8", "replace").rstrip("\r\n"))
    try:
        event, fields = _READERS.get(head.type, _other)(_LINE.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, _IncompleteError):
        event, fields = events.UnknownEvent, {"type": head.type}
    return event(**fields, message=head.message, at=head.at)


def _require(part: _Part | None) -> _Part:
    if part is None:
        raise _IncompleteError
    return part


def _on_resource(hook: _Hook) -> dict[str, Any]:
    return {"address": _require(hook.resource).addr, "id_key": hook.id_key, "id_value": hook.id_value}


_APPLY: dict[str, type[events.ApplyEvent]] = {
    "apply_start": events.ApplyStart,
    "apply_progress": events.ApplyProgress,
    "apply_complete": events.ApplyComplete,
    "apply_errored": events.ApplyErrored,
}


def _apply(line: _Line) -> _Read:
    hook = _require(line.hook)
    action = hook.action if isinstance(hook.action, str) else ""
    return _APPLY[line.type], {**_on_resource(hook), "action": action, "elapsed": hook.elapsed_seconds}


def _step(what: str, stage: Stage) -> Callable[[_Line], _Read]:
    def read(line: _Line) -> _Read:
        hook = _require(line.hook)
        address = hook.resource.addr if hook.resource is not None else _action_address(hook.action)
        return events.Step, {"what": what, "stage": stage, "address": address}

    return read


def _action_address(action: Any) -> str:
    address = action.get("addr") if isinstance(action, dict) else None
    return address if isinstance(address, str) else ""


def _summary(line: _Line) -> _Read:
    return events.ChangeSummary, msgspec.structs.asdict(_require(line.changes))


def _outputs(line: _Line) -> _Read:
    outputs = tuple(
        events.Output(
            name=name,
            sensitive=output.sensitive,
            action=output.action,
            has_value=output.value is not msgspec.UNSET,
            value=None if output.sensitive or output.value is msgspec.UNSET else output.value,
        )
        for name, output in _require(line.outputs).items()
    )
    return events.Outputs, {"outputs": outputs}


def _diagnosed(line: _Line) -> _Read:
    return events.DiagnosticEvent, {"diagnostic": _require(line.diagnostic)}


def _other(line: _Line) -> _Read:
    return events.UnknownEvent, {"type": line.type}


# Terraform writes ephemeral_op_start, OpenTofu ephemeral_action_started.
_STEPS = {
    f"{prefix}_{word}": _step(what, stage)
    for what, prefix in (
        ("provisioner", "provision"),
        ("ephemeral", "ephemeral_op"),
        ("ephemeral", "ephemeral_action"),
        ("action", "action"),
    )
    for word, stage in (
        ("start", Stage.STARTED),
        ("started", Stage.STARTED),
        ("progress", Stage.PROGRESS),
        ("complete", Stage.COMPLETE),
        ("errored", Stage.ERRORED),
    )
}
_READERS: Mapping[str, Callable[[_Line], _Read]] = MappingProxyType(
    {
        **dict.fromkeys(_APPLY, _apply),
        "change_summary": _summary,
        "outputs": _outputs,
        "diagnostic": _diagnosed,
        **_STEPS,
    }
)


class CommandOutput(msgspec.Struct):
    """What the stream of one command contained so far."""

    diagnostics: list[Diagnostic] = msgspec.field(default_factory=list)
    noise: list[str] = msgspec.field(default_factory=list)
    outputs: tuple[events.Output, ...] = ()
    on_event: Callable[[events.Event], None] | None = None

    def line(self, line: bytes) -> None:
        event = read_line(line)
        match event:
            case events.DiagnosticEvent(diagnostic=found):
                self.diagnostics.append(found)
            case events.Outputs(outputs=outputs):
                self.outputs = outputs
            case events.UnparsedLine(text=text):
                self.noise.append(text)
            case _:
                pass
        if self.on_event is not None:
            self.on_event(event)
