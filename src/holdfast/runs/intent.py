"""What a run means to do, written down before Terraform starts: what a crash is later measured against.

Of the values that objects are to have, only those are kept that name an object or make its import id, and
none that Terraform calls sensitive.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from holdfast.kernel.errors import UnknownOutcome
from holdfast.kernel.values import MaskedStruct
from holdfast.terraform.plan.actions import ChangeKind, change_kind
from holdfast.terraform.plan.configuration import FALSE
from holdfast.terraform.plan.model import Plan, ResourceChange
from holdfast.terraform.tables.import_ids import attributes_needed

VERSION = 1
TELLING = (
    "name",
    "name_prefix",
    "bucket",
    "identifier",
    "domain_name",
    "display_name",
    "function_name",
    "cluster_identifier",
    "namespace",
    "resource_group_name",
    "project",
    "region",
    "location",
    "zone",
)
"""By these a person finds an object whose id nobody heard."""
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)
_MASK = msgspec.json.Decoder(dict[str, msgspec.Raw] | bool | None)
_CREATES = "create"


class _Id(msgspec.Struct, frozen=True):
    id: Any = None


_ID = msgspec.json.Decoder(_Id | None)


class PlannedChange(MaskedStruct, frozen=True, kw_only=True):
    """One change of a plan that does something to an object or to its record."""

    address: str
    actions: tuple[str, ...]
    mode: str
    type: str
    provider: str
    deposed: str | None = None
    previous_address: str | None = None
    """Where the record stood before, when the plan moves it."""
    importing: bool = False
    drifted: bool = False
    """The object was not as the state said: the first write of the state changes its record in any case."""
    before_id: str | None = None
    after: Mapping[str, Any] = field(default_factory=dict)
    """Of an object to be made: what is known of it. Null is empty, and what is missing is not known yet."""

    @property
    def kind(self) -> ChangeKind:
        return change_kind(self.actions)

    @property
    def creates(self) -> bool:
        return _CREATES in self.actions

    @property
    def moved(self) -> bool:
        return self.previous_address is not None and self.previous_address != self.address


class Intent(Struct, frozen=True, kw_only=True):
    run: str
    change: str
    stack: str
    operation: str
    digest: str
    lineage: str
    """Of the state that the plan was made for; empty where there was none."""
    serial: int
    place: str
    engine: Mapping[str, str]
    """`kind`, `product`, `version`."""
    who: str
    host: str
    pid: int
    started: str
    work: str
    backup: str | None
    changes: tuple[PlannedChange, ...]

    def to_bytes(self) -> bytes:
        return msgspec.json.encode(_Written(version=VERSION, intent=self))

    @staticmethod
    def from_bytes(data: bytes) -> Intent:
        try:
            version = _HEAD.decode(data).version
            if version == VERSION:
                return _WRITTEN.decode(data).intent
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UnknownOutcome(
                "HF-REC-1",
                f"what the run meant to do cannot be read: {error}",
                hint="Restore the record of the run, or compare state and provider by hand.",
            ) from None
        raise UnknownOutcome(
            "HF-REC-2",
            f"what the run meant to do is written in version {version}, and this Holdfast reads {VERSION}",
            hint="Use the Holdfast that started the run, or a newer one.",
        )


class _Head(msgspec.Struct, frozen=True):
    version: int


class _Written(msgspec.Struct, frozen=True):
    version: int
    intent: Intent


_HEAD = msgspec.json.Decoder(_Head)
_WRITTEN = msgspec.json.Decoder(_Written)


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
    wanted = attributes_needed(change.type) | set(TELLING)
    return {
        name: msgspec.json.decode(value)
        for name, value in values.items()
        if name in wanted
        and bytes(unknown.get(name, FALSE)) != b"true"
        and b"true" not in bytes(sensitive.get(name, FALSE))
    }
