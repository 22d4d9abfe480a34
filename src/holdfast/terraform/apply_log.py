"""The `-json` log of an apply, parsed address by address. Pure.

The log may end early, and its last line may be truncated: an operation that started and did not end
stays open.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.kernel.patterns import pattern
from holdfast.terraform import stream
from holdfast.terraform.diagnostics import Diagnostic

DELETE = "delete"
UPDATE = "update"
CREATE = "create"
_CREATES_NOTHING = frozenset({UPDATE, DELETE, "read", "noop", "no-op", "remove", "forget", "move", "import"})
_CRASHED = pattern(
    r"plugin did not respond|request cancelled|code = (unavailable|canceled)|transport is closing",
    re.IGNORECASE,
)

_FORCED = "operation canceled"


def is_provider_crash(diagnostic: Diagnostic) -> bool:
    """An error that says that a provider stopped responding, but not what it did."""
    return diagnostic.is_error and _CRASHED.search(f"{diagnostic.summary} {diagnostic.detail}") is not None


def is_forced_exit(diagnostic: Diagnostic) -> bool:
    """Terraform's error after a second interrupt, from whomever: it did not wait for changes in progress."""
    return diagnostic.is_error and diagnostic.summary == _FORCED


class OperationStatus(StrEnum):
    OPEN = "open"
    COMPLETE = "complete"
    ERRORED = "errored"


class Label(Struct, frozen=True, kw_only=True):
    """How the engine names a resource: by its `id`, else by its `name` or a tag."""

    key: str
    value: str


class Operation(Struct, frozen=True, kw_only=True):
    action: str
    end: OperationStatus
    began: str | None
    """When, according to the engine; None when the log has no start."""
    ended: str | None = None
    label: Label | None = None
    """Of a create: the new resource, known when it is complete. Otherwise the resource in progress."""

    @property
    def creates(self) -> bool:
        """An unknown action counts as creating something."""
        return self.action not in _CREATES_NOTHING


class ApplyLog(Struct, frozen=True, kw_only=True):
    operations: Mapping[str, tuple[Operation, ...]]
    provisioned: frozenset[str]
    """Addresses whose provisioner started after a create: the resource exists."""
    died: frozenset[str]
    """Addresses whose provider stopped responding."""
    ended: bool
    """The engine printed a summary or its errors: it ended by itself."""
    cut: bool
    """The last line is truncated."""
    last: str | None
    """The time of the last line."""


class _Parser(Struct, kw_only=True):
    operations: dict[str, list[Operation]] = field(default_factory=dict)
    endings: dict[str, int] = field(default_factory=dict)
    """How many deletions of an address are complete, while it is not clear which."""
    provisioned: set[str] = field(default_factory=set)
    died: set[str] = field(default_factory=set)
    crashed_somewhere: bool = False
    """A provider stopped responding, and the engine did not say for which address."""
    forced: bool = False

    def apply(self, event: stream.ApplyEvent) -> None:
        of_address = self.operations.setdefault(event.address, [])
        opened = [
            place
            for place, operation in enumerate(of_address)
            if operation.action == event.action
            and operation.end is OperationStatus.OPEN
            and _fits(operation, event)
        ]
        match event:
            case stream.ApplyStart():
                of_address.append(_started(event))
            case stream.ApplyComplete() | stream.ApplyErrored():
                self._end(event, of_address, opened)
            case _ if not opened:
                of_address.append(_started(event))
            case _:
                pass

    def _end(self, event: stream.ApplyEvent, of_address: list[Operation], opened: list[int]) -> None:
        """The end of a deletion names no resource. If several are open, they are complete once all are."""
        if not opened:
            of_address.append(replace(_started(event), began=None))
            opened = [len(of_address) - 1]
        complete = isinstance(event, stream.ApplyComplete)
        if len(opened) > 1:
            self.endings[event.address] = self.endings.get(event.address, 0) + complete
            if self.endings[event.address] < len(opened):
                return
        for place in opened:
            was = of_address[place]
            of_address[place] = replace(
                was,
                end=OperationStatus.COMPLETE if complete else OperationStatus.ERRORED,
                ended=event.at,
                label=_label(event) or was.label,
            )

    def provisioner_started(self, address: str) -> None:
        """A provisioner may also run on destroy: that proves nothing about a new resource."""
        if any(
            operation.creates and operation.end is OperationStatus.OPEN
            for operation in self.operations.get(address, ())
        ):
            self.provisioned.add(address)

    def diagnostic(self, event: stream.DiagnosticEvent) -> None:
        diagnostic = event.diagnostic
        if not diagnostic.is_error:
            return
        crashed = is_provider_crash(diagnostic)
        self.forced = self.forced or is_forced_exit(diagnostic)
        if not diagnostic.address:
            self.crashed_somewhere = self.crashed_somewhere or crashed
            return
        if crashed:
            self.died.add(diagnostic.address)

    def all_crashed(self) -> frozenset[str]:
        """An error without an address may belong to any address that failed."""
        failed = {
            address
            for address, several in self.operations.items()
            if self.crashed_somewhere
            and any(operation.end is not OperationStatus.COMPLETE for operation in several)
        }
        return frozenset(self.died | failed)

    def all_operations(self) -> dict[str, tuple[Operation, ...]]:
        """After a forced exit Terraform reports running operations as failed: their result is not known."""
        return {
            address: tuple(
                replace(operation, end=OperationStatus.OPEN, ended=None)
                if self.forced and operation.end is OperationStatus.ERRORED
                else operation
                for operation in operations
            )
            for address, operations in self.operations.items()
        }


def parse_apply_log(lines: Iterable[bytes], *, forced: bool = False) -> ApplyLog:
    """Never raises: a line without information is skipped. `forced`: Terraform was interrupted twice."""
    parser = _Parser(forced=forced)
    ended, cut = False, False
    last: str | None = None
    for line in lines:
        if not line.strip():
            continue
        event = stream.read_line(line)
        cut = isinstance(event, stream.UnparsedLine) and line.lstrip().startswith(b"{")
        match event:
            case stream.ApplyEvent():
                parser.apply(event)
            case stream.Step(what="provision"):
                parser.provisioner_started(event.address)
            case stream.DiagnosticEvent():
                parser.diagnostic(event)
                ended = ended or event.diagnostic.is_error
            case stream.ChangeSummary():
                ended = ended or event.operation in {"apply", "destroy"}
            case _:
                pass
        last = (event.at if isinstance(event, stream.StreamEvent) else None) or last
    return ApplyLog(
        operations=parser.all_operations(),
        provisioned=frozenset(parser.provisioned),
        died=parser.all_crashed(),
        ended=ended,
        cut=cut,
        last=last,
    )


def _started(event: stream.ApplyEvent) -> Operation:
    return Operation(action=event.action, end=OperationStatus.OPEN, began=event.at, label=_label(event))


def _label(event: stream.ApplyEvent) -> Label | None:
    if not event.id_key or not event.id_value:
        return None
    return Label(key=event.id_key, value=event.id_value)


def _fits(operation: Operation, event: stream.ApplyEvent) -> bool:
    """Several instances of one address can be deleted at once: if both have labels, these must be equal."""
    label = _label(event)
    return operation.action != DELETE or None in (operation.label, label) or operation.label == label
