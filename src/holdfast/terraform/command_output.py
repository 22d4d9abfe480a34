"""What one command of Terraform says, line by line."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from holdfast.terraform import events, stream
from holdfast.terraform.diagnostics import Diagnostic


class CommandOutput(Struct):
    """What a stream said so far."""

    diagnostics: list[Diagnostic] = field(default_factory=list)
    noise: list[str] = field(default_factory=list)
    outputs: tuple[events.Output, ...] = ()
    on_event: Callable[[events.Event], None] | None = None

    def line(self, line: bytes) -> None:
        event = stream.read_line(line)
        match event:
            case events.DiagnosticEvent(diagnostic=diagnostic):
                self.diagnostics.append(diagnostic)
            case events.Outputs(outputs=outputs):
                self.outputs = outputs
            case events.UnparsedLine(text=text):
                self.noise.append(text)
            case _:
                pass
        if self.on_event is not None:
            self.on_event(event)
