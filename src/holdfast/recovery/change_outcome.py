"""The outcome of one planned change after an interrupted apply: a closed set.

Recorded            the state has its effect
LeftDeposed         the state has the new resource; the old one is deposed there and still to be deleted
CreatedNotRecorded  created, not in the state
ReplacedNotRecorded the new resource was created, not in the state
UpdatedNotRecorded  harmless: the next plan refreshes the resource
DeletedNotRecorded  harmless: the next plan sees that it is deleted
NotReplaced         the old resource is deleted, the new one was not started: the next plan creates it
StartedEndUnknown   started, no result in the journal
DeletedThenUnknown  the old resource is deleted, the new one was started, no result in the journal
FailedMayExist      the create failed; the resource may exist anyway
Failed              failed; the state knows the resource
NeverStarted        the journal has no start
"""

from __future__ import annotations

from msgspec import Struct, field

from holdfast.kernel.secret import masked_repr
from holdfast.kernel.values import MaskedStruct
from holdfast.runs.intent import PlannedChange
from holdfast.terraform.apply_log import Label


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


class PlannedOutcome(MaskedStruct, frozen=True, kw_only=True):
    address: str
    change: PlannedChange | None
    """None: the plan has no such change."""


class Recorded(PlannedOutcome, frozen=True, kw_only=True):
    pass


class LeftDeposed(PlannedOutcome, frozen=True, kw_only=True):
    key: str
    old_id: str | None
    forgets: bool
    """The plan forgets the old resource: it must leave the state, or the next plan deletes it."""


class MayExist(PlannedOutcome, frozen=True, kw_only=True):
    """A resource may exist that is not in the state."""

    conflict: StateConflict = field(default_factory=StateConflict)
    provisioned: bool = False
    """A provisioner ran on it: it was created, and creating it again runs the provisioner again."""


class Created(MayExist, frozen=True, kw_only=True):
    """A resource exists that is not in the state."""

    label: Label | None
    at: str | None

    @property
    def id(self) -> str | None:
        """None if Terraform did not report an `id`."""
        return self.label.value if self.label is not None and self.label.key == "id" else None


class CreatedNotRecorded(Created, frozen=True, kw_only=True):
    pass


class ReplacedNotRecorded(Created, frozen=True, kw_only=True):
    old_id: str | None
    old_deleted: bool
    """False if unproven: the old resource is then put back as deposed, not lost."""
    create_first: bool
    forgets: bool = False

    @property
    def new_id(self) -> str | None:
        return self.id


class UpdatedNotRecorded(PlannedOutcome, frozen=True, kw_only=True):
    pass


class DeletedNotRecorded(PlannedOutcome, frozen=True, kw_only=True):
    pass


class NotReplaced(PlannedOutcome, frozen=True, kw_only=True):
    old_id: str | None


class StartedEndUnknown(MayExist, frozen=True, kw_only=True):
    action: str
    at: str | None
    """None: only the state shows that it was started."""
    known_id: str | None
    """The resource being changed; None for one being created."""

    @property
    def creates(self) -> bool:
        """Whether a resource with an unknown id may exist; otherwise the next plan refreshes it."""
        return self.action not in {"update", "delete"}


class DeletedThenUnknown(MayExist, frozen=True, kw_only=True):
    old_id: str | None
    at: str | None
    """None: only the state shows that the old resource is deleted."""


class FailedMayExist(MayExist, frozen=True, kw_only=True):
    at: str | None
    died: bool
    """The provider crashed: it is unknown what it did."""
    why: str | None
    """Terraform's error, shortened. It may contain secrets: redact before showing."""

    __repr__ = masked_repr


class Failed(PlannedOutcome, frozen=True, kw_only=True):
    action: str
    at: str | None


class NeverStarted(PlannedOutcome, frozen=True, kw_only=True):
    pass


ChangeOutcome = (
    Recorded
    | LeftDeposed
    | CreatedNotRecorded
    | ReplacedNotRecorded
    | UpdatedNotRecorded
    | DeletedNotRecorded
    | NotReplaced
    | StartedEndUnknown
    | DeletedThenUnknown
    | FailedMayExist
    | Failed
    | NeverStarted
)
