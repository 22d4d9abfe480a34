"""Which objects can be brought back into the state by an import, by which id, and which cannot. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from holdfast.recovery.change_outcome import (
    AnyFinding,
    FailedMayExist,
    Made,
    MayExist,
    Standing,
    StartedEndUnknown,
)
from holdfast.recovery.evidence import Evidence
from holdfast.runs.intent import PlannedChange
from holdfast.terraform.addresses import key_text
from holdfast.terraform.tables.import_ids import ImportId, NotImportable, NotKnown, find_import_id

_RUNS_AGAIN = "its provisioner has run, and runs again when it is made again"


class Import(Struct, frozen=True, kw_only=True):
    address: str
    id: str
    standing: Standing = field(default_factory=Standing)
    """What must leave the state first, and what is put back as deposed afterwards."""
    given: bool = False
    """A person named the id."""
    note: str | None = None


class Unresolved(Struct, frozen=True, kw_only=True):
    """An object that may exist, and for which no import can be written."""

    address: str
    reason: str
    """Without its end."""
    made: bool
    """It was made for certain."""
    harmless: bool = False
    """The next plan may simply make it again."""
    needs: tuple[str, ...] = ()
    note: str | None = None


class Resolution(Struct, frozen=True, kw_only=True):
    imports: tuple[Import, ...]
    unresolved: tuple[Unresolved, ...]
    unasked: tuple[str, ...]
    """Addresses that were given an id and need none: a mistake of whoever gave it."""

    @property
    def complete(self) -> bool:
        """Nothing is left that only a person could find."""
        return not self.unasked and all(one.harmless for one in self.unresolved)


def imports(evidence: Evidence, given: Mapping[str, str]) -> Resolution:
    """`given` holds the ids that a person named, by address; they win over every rule."""
    left = dict(given)
    resolved = [
        _resolve(one, left.pop(one.address, None))
        for one in evidence.all
        if isinstance(one, MayExist) and _makes(one)
    ]
    return Resolution(
        imports=tuple(one for one in resolved if isinstance(one, Import)),
        unresolved=tuple(one for one in resolved if isinstance(one, Unresolved)),
        unasked=tuple(sorted(left)),
    )


def import_blocks(wanted: Iterable[Import]) -> str:
    """The blocks as HCL. An id is text: nothing in it is ever taken for a template."""
    return "\n".join(f"import {{\n  to = {one.address}\n  id = {_quoted(one.id)}\n}}\n" for one in wanted)


def _makes(finding: AnyFinding) -> bool:
    return not isinstance(finding, StartedEndUnknown) or finding.makes


def _resolve(finding: MayExist, given: str | None) -> Import | Unresolved:
    made = isinstance(finding, Made) or finding.provisioned
    if finding.standing.stranger is not None:
        return Unresolved(
            address=finding.address,
            reason=f"the state holds another object there ({finding.standing.stranger})",
            made=made,
        )
    if given is not None:
        return Import(address=finding.address, id=given, standing=finding.standing, given=True)
    if finding.change is None:
        return Unresolved(address=finding.address, reason="the plan does not name it", made=made)
    return _by_rule(finding, finding.change, made=made)


def _by_rule(finding: MayExist, change: PlannedChange, *, made: bool) -> Import | Unresolved:
    address = finding.address
    answer = find_import_id(type_=change.type, id_=_id(finding), attributes=_known(finding, change))
    match answer:
        case ImportId() if isinstance(finding, Made):
            return Import(address=address, id=answer.value, standing=finding.standing, note=answer.note)
        case NotImportable():
            again = answer.harmless and not finding.provisioned
            reason = answer.reason if again == answer.harmless else _RUNS_AGAIN
            return Unresolved(address=address, reason=reason, made=made, harmless=again, note=answer.note)
        case NotKnown() if isinstance(finding, Made):
            return Unresolved(
                address=address, reason=answer.reason, made=made, needs=answer.needs, note=answer.note
            )
        case ImportId() | NotKnown():
            return Unresolved(address=address, reason=_in_doubt(finding), made=made, note=answer.note)


def _in_doubt(finding: MayExist) -> str:
    if isinstance(finding, FailedMayExist):
        return "making it failed, and it may exist all the same"
    if finding.provisioned:
        return "it was made, and nobody heard its id"
    return "making it was begun, and nobody heard of an end"


def _id(finding: MayExist) -> str | None:
    return finding.id if isinstance(finding, Made) else None


def _known(finding: MayExist, change: PlannedChange) -> dict[str, object]:
    """What the plan knew; and the name, where that is how the engine calls the object."""
    known: dict[str, object] = dict(change.after)
    label = finding.label if isinstance(finding, Made) else None
    if label is not None and label.key == "name":
        known.setdefault("name", label.value)
    return known


def _quoted(text: str) -> str:
    """As Terraform quotes a key, and with nothing invisible left in it."""
    quoted = key_text(text)[1:-1]
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in quoted)
