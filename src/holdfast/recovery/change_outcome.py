"""The outcome of one planned change after an interrupted apply: a closed set of kinds."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct, field

from holdfast.kernel.values import MaskedStruct
from holdfast.runs.intent import PlannedChange
from holdfast.terraform.apply_log import Label


class OutcomeKind(Enum):
    RECORDED = "the state has its effect"
    LEFT_DEPOSED = "the state has the new resource; the old one is deposed there and still to be deleted"
    CREATED_NOT_RECORDED = "created, not in the state"
    REPLACED_NOT_RECORDED = "the new resource was created, not in the state"
    UPDATED_NOT_RECORDED = "harmless: the next plan refreshes the resource"
    DELETED_NOT_RECORDED = "harmless: the next plan shows that it is deleted"
    NOT_REPLACED = "the old resource is deleted, the new one was not started: the next plan creates it"
    CREATE_UNKNOWN = "the create was started; the journal has no result"
    OPERATION_UNKNOWN = "an update or deletion has no result in the journal: the next plan refreshes it"
    DELETED_THEN_UNKNOWN = "the old resource is deleted, the new one was started; the journal has no result"
    FAILED_MAY_EXIST = "the create failed; the resource may exist anyway"
    FAILED = "failed; the resource is in the state"
    NEVER_STARTED = "not started, according to the journal"


CREATED = frozenset({OutcomeKind.CREATED_NOT_RECORDED, OutcomeKind.REPLACED_NOT_RECORDED})
"""A resource exists that is not in the state."""
MAY_EXIST = frozenset(
    {OutcomeKind.CREATE_UNKNOWN, OutcomeKind.DELETED_THEN_UNKNOWN, OutcomeKind.FAILED_MAY_EXIST}
)
"""A resource may exist that is not in the state, with an unknown id."""


class InstanceKey(Struct, frozen=True, kw_only=True):
    """An instance in the state: the current one of an address, or a deposed one."""

    address: str
    deposed: str | None = None


class StateConflict(Struct, frozen=True, kw_only=True):
    """What the state has at the address of a new resource. Terraform ignores an import where it has one."""

    taken_out: tuple[InstanceKey, ...] = ()
    """Remove these from the state before the import."""
    put_back: tuple[InstanceKey, ...] = ()
    """Those of them that may still exist: added back as deposed after the import."""
    other_id: str | None = None
    """The id of a resource at this address that is neither the old one nor created by this run."""


class ChangeOutcome(MaskedStruct, frozen=True, kw_only=True):
    kind: OutcomeKind
    address: str
    change: PlannedChange | None
    """None: the plan has no such change."""
    at: str | None = None
    """When the journal has it; None: only the state shows it."""
    label: Label | None = None
    """What Terraform reported of a created resource."""
    conflict: StateConflict = field(default_factory=StateConflict)
    provisioned: bool = False
    """A provisioner ran on it: it was created, and creating it again runs the provisioner again."""
    old_deleted: bool = False
    """False if unproven: the old resource is then put back as deposed, not lost."""
    deposed: str = ""
    """The key of the old resource that this run deposed."""
    forgets: bool = False
    """The plan forgets the old resource: it must leave the state, or the next plan deletes it."""

    @property
    def id(self) -> str | None:
        """None if Terraform did not report an `id`."""
        return self.label.value if self.label is not None and self.label.key == "id" else None
