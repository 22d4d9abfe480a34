"""What an apply said in its `-json` lines, address by address. Pure.

The lines may end early, and the last one may be cut: an operation that was begun and not ended stays open.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.terraform import events
from holdfast.terraform.diagnostics import Diagnostic
from holdfast.terraform.stream import read_line

DELETE = "delete"
UPDATE = "update"
CREATE = "create"
_MAKES_NOTHING = frozenset({UPDATE, DELETE, "read", "noop", "no-op", "remove", "forget", "move", "import"})
_DIED = re.compile(
    r"plugin did not respond|request cancelled|code = (unavailable|canceled)|transport is closing",
    re.IGNORECASE,
)


def provider_crashed(diagnostic: Diagnostic) -> bool:
    """An error that says that a provider did not answer, and nothing of what it did."""
    return diagnostic.is_error and _DIED.search(f"{diagnostic.summary} {diagnostic.detail}") is not None


class OperationStatus(StrEnum):
    OPEN = "open"
    COMPLETE = "complete"
    ERRORED = "errored"


class Label(Struct, frozen=True, kw_only=True):
    """How the engine names an object: by its `id`, else by its `name` or a tag."""

    key: str
    value: str


class Operation(Struct, frozen=True, kw_only=True):
    action: str
    end: OperationStatus
    began: str | None
    """When, as the engine said it; None when nobody heard the beginning."""
    ended: str | None = None
    label: Label | None = None
    """Of a create: what was made, named when it is complete. Of the others: what is worked on."""

    @property
    def makes(self) -> bool:
        """A word that is not known counts as making something."""
        return self.action not in _MAKES_NOTHING


class ApplyLog(Struct, frozen=True, kw_only=True):
    operations: Mapping[str, tuple[Operation, ...]]
    provisioned: frozenset[str]
    """Addresses on which a provisioner was started after a create: what it runs on was made."""
    failures: Mapping[str, str]
    """What the engine said of an address that failed, in short. It may hold secrets."""
    died: frozenset[str]
    """Addresses whose provider did not answer any more."""
    ended: bool
    """The engine summed up, or gave its errors: it came to its own end."""
    cut: bool
    """The last line is not whole."""
    last: str | None
    """When the last word was heard."""


class _Ear(Struct, kw_only=True):
    operations: dict[str, list[Operation]] = field(default_factory=dict)
    endings: dict[str, int] = field(default_factory=dict)
    """Deletions of an address that are complete, while it is not clear which ones."""
    provisioned: set[str] = field(default_factory=set)
    failures: dict[str, str] = field(default_factory=dict)
    died: set[str] = field(default_factory=set)
    one_died: bool = False
    """A provider did not answer, and the engine did not say for which address."""

    def apply(self, event: events.ApplyEvent) -> None:
        of_address = self.operations.setdefault(event.address, [])
        opened = [
            place
            for place, one in enumerate(of_address)
            if one.action == event.action and one.end is OperationStatus.OPEN and _fits(one, event)
        ]
        match event:
            case events.ApplyStart():
                of_address.append(_begun(event))
            case events.ApplyComplete() | events.ApplyErrored():
                self._ends(event, of_address, opened)
            case _ if not opened:
                of_address.append(_begun(event))
            case _:
                pass

    def _ends(self, event: events.ApplyEvent, of_address: list[Operation], opened: list[int]) -> None:
        """The end of a deletion names no object. With several open, they are complete once all are."""
        if not opened:
            of_address.append(replace(_begun(event), began=None))
            opened = [len(of_address) - 1]
        complete = isinstance(event, events.ApplyComplete)
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

    def provisions(self, address: str) -> None:
        """There are provisioners for the end of an object too: those say nothing of a new one."""
        if any(one.makes and one.end is OperationStatus.OPEN for one in self.operations.get(address, ())):
            self.provisioned.add(address)

    def diagnosed(self, event: events.DiagnosticEvent) -> None:
        found = event.diagnostic
        if not found.is_error:
            return
        died = provider_crashed(found)
        if found.address is None:
            self.one_died = self.one_died or died
            return
        self.failures.setdefault(found.address, found.summary)
        if died:
            self.died.add(found.address)

    def all_died(self) -> frozenset[str]:
        """An error that names no address may be of any that failed."""
        failed = {
            address
            for address, several in self.operations.items()
            if self.one_died and any(one.end is not OperationStatus.COMPLETE for one in several)
        }
        return frozenset(self.died | failed)


def parse_apply_log(lines: Iterable[bytes]) -> ApplyLog:
    """Never raises: a line that says nothing is passed over."""
    ear = _Ear()
    ended, cut = False, False
    last: str | None = None
    for line in lines:
        if not line.strip():
            continue
        event = read_line(line)
        cut = isinstance(event, events.UnparsedLine) and line.lstrip().startswith(b"{")
        match event:
            case events.ApplyEvent():
                ear.apply(event)
            case events.Step(what="provisioner"):
                ear.provisions(event.address)
            case events.DiagnosticEvent():
                ear.diagnosed(event)
                ended = ended or event.diagnostic.is_error
            case events.ChangeSummary():
                ended = ended or event.operation in {"apply", "destroy"}
            case _:
                pass
        last = (event.at if isinstance(event, events.StreamEvent) else None) or last
    return ApplyLog(
        operations={address: tuple(found) for address, found in ear.operations.items()},
        provisioned=frozenset(ear.provisioned),
        failures=ear.failures,
        died=ear.all_died(),
        ended=ended,
        cut=cut,
        last=last,
    )


def _begun(event: events.ApplyEvent) -> Operation:
    return Operation(action=event.action, end=OperationStatus.OPEN, began=event.at, label=_label(event))


def _label(event: events.ResourceEvent) -> Label | None:
    if not event.id_key or not event.id_value:
        return None
    return Label(key=event.id_key, value=event.id_value)


def _fits(one: Operation, event: events.ApplyEvent) -> bool:
    """Several objects of one address can be deleted at once: where both have names, these must be alike."""
    said = _label(event)
    return one.action != DELETE or one.label is None or said is None or one.label == said
