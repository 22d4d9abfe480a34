"""What a run is about to do, written with its claim before Terraform starts: recovery compares with it.

Of planned values, it holds only those that name a resource or make its import id, and none that Terraform
marks as sensitive.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from holdfast.kernel.errors import UnknownOutcome
from holdfast.kernel.values import MaskedStruct
from holdfast.system.process_table import ProcessId
from holdfast.terraform.plan.actions import ChangeKind, change_kind
from holdfast.terraform.plan.configuration import FALSE
from holdfast.terraform.plan.model import Plan, ResourceChange
from holdfast.terraform.tables.import_ids import attributes_needed

_VERSION = 1
NAMING = (
    "name", "name_prefix", "bucket", "identifier", "domain_name", "display_name", "function_name",
    "cluster_identifier", "namespace", "resource_group_name", "project", "region", "location", "zone",
)  # fmt: skip
"""By these a person finds a resource whose id is not known."""
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)
_MASK = msgspec.json.Decoder(dict[str, msgspec.Raw] | bool | None)
_CREATES = "create"


class _Id(msgspec.Struct, frozen=True):
    id: Any = None


_ID = msgspec.json.Decoder(_Id | None)


class PlannedChange(MaskedStruct, frozen=True, kw_only=True):
    """One change of a plan that affects a resource or its entry in the state."""

    address: str
    actions: tuple[str, ...]
    mode: str
    type: str
    provider: str
    deposed: str | None = None
    previous_address: str | None = None
    """Its address in the state before, when the plan moves it."""
    importing: bool = False
    drifted: bool = False
    """The resource was not as the state said: the first write of the state changes its entry in any case."""
    before_id: str | None = None
    after: Mapping[str, Any] = field(default_factory=dict)
    """Known values of a resource to be created. Null is empty; what is missing is not known yet."""

    @property
    def kind(self) -> ChangeKind:
        return change_kind(self.actions)

    @property
    def creates(self) -> bool:
        return _CREATES in self.actions

    @property
    def moved(self) -> bool:
        return self.previous_address is not None and self.previous_address != self.address


class PlanIntent(Struct, frozen=True, kw_only=True):
    """The plan that a run is about to apply."""

    digest: str
    lineage: str
    """Of the state that was planned; empty where there was none."""
    serial: int
    place: str
    engine: Mapping[str, str]
    """`kind`, `product`, `version`."""
    work: str
    backup: str | None
    """The version of a managed state before the apply."""
    changes: tuple[PlannedChange, ...]
    missing: tuple[str, ...] = ()
    """Resources that the refresh did not find: the apply removes them from the state."""
    destroy: bool = False
    """Made with `--destroy`: what is left is destroyed too."""
    variables: tuple[str, ...] = ()
    """Values that the command line gave it, without the values: a plan of the rest needs the same."""


Moved = tuple[str, str, str | None]
"""The address that a resource leaves, its new one, and the key of a deposed instance."""


def moved_text(moved: Iterable[Moved]) -> str:
    return ", ".join(dict.fromkeys(f"{old} → {new}" for old, new, _ in moved))


class MoveIntent(Struct, frozen=True, kw_only=True):
    """Resources that move from the state of one stack to that of another; each has its own run and claim.

    The destination is written first: a crash in between leaves them in both states, never in none.
    """

    source: str
    destination: str
    source_run: str
    destination_run: str
    moved: tuple[Moved, ...]


class Intent(Struct, frozen=True, kw_only=True):
    """What a claim says of the run that holds it."""

    operation: str
    who: str
    started: str
    process: ProcessId
    change: str | None = None
    """The change that the run belongs to; None for an operation of one step, outside any change."""
    plan: PlanIntent | None = None
    """None for an operation of one step that applies no plan."""
    move: MoveIntent | None = None
    """Of `state mv` to another stack, which writes two states."""

    def document(self) -> dict[str, object]:
        return {"version": _VERSION, **msgspec.to_builtins(self)}

    @staticmethod
    def from_document(document: Mapping[str, object]) -> Intent:
        version = document.get("version")
        if isinstance(version, int) and version != _VERSION:
            raise UnknownOutcome(
                "HF-REC-2",
                f"the claim of the run has format {version}; this version of Holdfast reads {_VERSION}",
                hint="Use the version of Holdfast that started the run, or a newer one.",
            )
        try:
            return msgspec.convert(document, Intent)
        except msgspec.ValidationError as error:
            raise UnknownOutcome(
                "HF-REC-1",
                f"the planned changes of the run cannot be read: {error}",
                hint="Restore the run store from a backup, or compare the state with the real resources.",
            ) from None


def planned_changes(plan: Plan) -> tuple[PlannedChange, ...]:
    """Every change that does something, in the plan's order. Reading a data source does nothing."""
    drifted = frozenset((change.address, change.deposed) for change in plan.drift)
    return tuple(
        _planned(change, drifted=(change.address, change.deposed) in drifted)
        for change in plan.changes
        if change.has_effect and change.kind is not ChangeKind.READ and change.mode != "data"
    )


def _planned(change: ResourceChange, *, drifted: bool) -> PlannedChange:
    before = _ID.decode(change.change.before)
    return PlannedChange(
        address=change.address,
        actions=change.actions,
        mode=change.mode,
        type=change.type,
        provider=change.provider,
        deposed=change.deposed,
        previous_address=change.previous_address,
        importing=change.importing is not None,
        drifted=drifted,
        before_id=before.id if before is not None and isinstance(before.id, str) else None,
        after=_after(change) if _CREATES in change.actions else {},
    )


def _after(change: ResourceChange) -> dict[str, Any]:
    """What is not known is missing in `after` already; inside a list it is null, and stays null."""
    values = _FIELDS.decode(change.change.after) or {}
    unknown = _MASK.decode(change.change.after_unknown) or {}
    sensitive = _MASK.decode(change.change.after_sensitive) or {}
    if unknown is True or sensitive is True:
        return {}
    wanted = attributes_needed(change.type) | set(NAMING)
    return {
        name: msgspec.json.decode(value)
        for name, value in values.items()
        if name in wanted
        and bytes(unknown.get(name, FALSE)) != b"true"
        and b"true" not in bytes(sensitive.get(name, FALSE))
    }
