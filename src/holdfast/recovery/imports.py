"""Which resources can be imported into the state, by which id, and which cannot. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from holdfast.recovery.change_outcome import CREATED, MAY_EXIST, ChangeOutcome, OutcomeKind, StateConflict
from holdfast.recovery.evidence import Evidence
from holdfast.runs.intent import PlannedChange
from holdfast.terraform.tables.import_ids import ImportId, NotImportable, NotKnown, find_import_id

_RUNS_AGAIN = "its provisioner has run and would run again if it were created again"


class Import(Struct, frozen=True, kw_only=True):
    address: str
    id: str
    conflict: StateConflict = field(default_factory=StateConflict)
    """What to remove from the state first, and what to add back as deposed."""
    given: bool = False
    """The user gave the id."""
    note: str | None = None


class Unresolved(Struct, frozen=True, kw_only=True):
    """A resource that may exist and cannot be imported without help."""

    address: str
    reason: str
    """Without a full stop."""
    created: bool
    """It certainly exists."""
    harmless: bool = False
    """The next plan may simply create it again."""
    needs: tuple[str, ...] = ()
    note: str | None = None


class Resolution(Struct, frozen=True, kw_only=True):
    imports: tuple[Import, ...]
    unresolved: tuple[Unresolved, ...]
    unneeded: tuple[str, ...]
    """Addresses that were given an id and need none: a mistake in the arguments."""

    @property
    def complete(self) -> bool:
        """Nothing is left for a person to look up."""
        return not self.unneeded and all(resource.harmless for resource in self.unresolved)


def imports(evidence: Evidence, given: Mapping[str, str]) -> Resolution:
    """`given` has the user's ids by address; they take precedence over every rule."""
    left = dict(given)
    resolved = [
        _resolve(outcome, left.pop(outcome.address, None))
        for outcome in evidence.all
        if outcome.kind in CREATED | MAY_EXIST
    ]
    return Resolution(
        imports=tuple(item for item in resolved if isinstance(item, Import)),
        unresolved=tuple(item for item in resolved if isinstance(item, Unresolved)),
        unneeded=tuple(sorted(left)),
    )


def _resolve(outcome: ChangeOutcome, given: str | None) -> Import | Unresolved:
    created = outcome.kind in CREATED or outcome.provisioned
    if outcome.conflict.other_id is not None:
        return Unresolved(
            address=outcome.address,
            reason=f"the state has another resource at this address ({outcome.conflict.other_id})",
            created=created,
        )
    if given is not None:
        return Import(address=outcome.address, id=given, conflict=outcome.conflict, given=True)
    if outcome.change is None:
        return Unresolved(address=outcome.address, reason="it is not in the plan", created=created)
    return _by_rule(outcome, outcome.change, created=created)


def _by_rule(outcome: ChangeOutcome, change: PlannedChange, *, created: bool) -> Import | Unresolved:
    address = outcome.address
    answer = find_import_id(type_=change.type, id_=outcome.id, attributes=_known(outcome, change))
    match answer:
        case ImportId() if outcome.kind in CREATED:
            return Import(address=address, id=answer.value, conflict=outcome.conflict, note=answer.note)
        case NotImportable():
            again = answer.harmless and not outcome.provisioned
            reason = answer.reason if again == answer.harmless else _RUNS_AGAIN
            return Unresolved(
                address=address, reason=reason, created=created, harmless=again, note=answer.note
            )
        case NotKnown() if outcome.kind in CREATED:
            return Unresolved(
                address=address, reason=answer.reason, created=created, needs=answer.needs, note=answer.note
            )
        case ImportId() | NotKnown():
            return Unresolved(address=address, reason=_doubt(outcome), created=created, note=answer.note)


def _doubt(outcome: ChangeOutcome) -> str:
    if outcome.kind is OutcomeKind.FAILED_MAY_EXIST:
        return "its creation failed, but it may exist"
    if outcome.provisioned:
        return "it was created, but its id is unknown"
    return "its creation was started and has no result"


def _known(outcome: ChangeOutcome, change: PlannedChange) -> dict[str, object]:
    """Planned attribute values, and the name if Terraform identified the resource by name."""
    known: dict[str, object] = dict(change.after)
    if outcome.label is not None and outcome.label.key == "name":
        known.setdefault("name", outcome.label.value)
    return known
