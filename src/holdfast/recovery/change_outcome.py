"""What can be found out about one planned change after an end without an answer: a closed set.

Recorded            its effect is in the state
LeftDeposed         the new object is; the old one waits there to be deleted
CreatedNotRecorded  made, and not in the state
ReplacedNotRecorded the new object is made, and not in the state
UpdatedNotRecorded  harmless: the next plan looks at the object
DeletedNotRecorded  harmless: the next plan sees that it is gone
NotReplaced         the old object is deleted, the new one was never begun: the next plan makes it
StartedEndUnknown   begun, and nothing was heard since
DeletedThenUnknown  the old object is deleted, the new one begun, and nothing was heard since
FailedMayExist      making it ended in an error; it may exist all the same
Failed              ended in an error; the state knows the object
NeverStarted        nobody heard of a beginning
"""

from __future__ import annotations

from msgspec import Struct, field

from holdfast.kernel.secret import masked_repr
from holdfast.kernel.values import MaskedStruct
from holdfast.runs.intent import PlannedChange
from holdfast.terraform.apply_log import Label


class Record(Struct, frozen=True, kw_only=True):
    """A place in the state: the current object of an address, or a deposed one."""

    address: str
    deposed: str | None = None


class Standing(Struct, frozen=True, kw_only=True):
    """What stands in the state where a new object is to be recorded. Terraform ignores an import there."""

    taken_out: tuple[Record, ...] = ()
    """To be taken out of the state before an import."""
    put_back: tuple[Record, ...] = ()
    """Those of them that may still exist: put back as deposed after the import."""
    stranger: str | None = None
    """An object that this run did not make and did not find stands there: its id, or what can be said."""


class Finding(MaskedStruct, frozen=True, kw_only=True):
    address: str
    change: PlannedChange | None
    """None: the plan does not name it."""


class Recorded(Finding, frozen=True, kw_only=True):
    pass


class LeftDeposed(Finding, frozen=True, kw_only=True):
    key: str
    old_id: str | None
    forgets: bool
    """The old object was to be forgotten, not deleted: its record must go before the next plan deletes it."""


class MayExist(Finding, frozen=True, kw_only=True):
    """An object may exist that the state does not know."""

    standing: Standing = field(default_factory=Standing)
    provisioned: bool = False
    """A provisioner ran on it: it was made, and making it again runs that again."""


class Made(MayExist, frozen=True, kw_only=True):
    """An object exists that the state does not know."""

    label: Label | None
    at: str | None

    @property
    def id(self) -> str | None:
        """None where the engine named the object otherwise, or not at all."""
        return self.label.value if self.label is not None and self.label.key == "id" else None


class CreatedNotRecorded(Made, frozen=True, kw_only=True):
    pass


class ReplacedNotRecorded(Made, frozen=True, kw_only=True):
    old_id: str | None
    old_deleted: bool
    """False where it is not certain: the old object is then looked after, not left behind."""
    create_first: bool
    forgets: bool = False

    @property
    def new_id(self) -> str | None:
        return self.id


class UpdatedNotRecorded(Finding, frozen=True, kw_only=True):
    pass


class DeletedNotRecorded(Finding, frozen=True, kw_only=True):
    pass


class NotReplaced(Finding, frozen=True, kw_only=True):
    old_id: str | None


class StartedEndUnknown(MayExist, frozen=True, kw_only=True):
    action: str
    at: str | None
    """None: only the state shows that it was begun."""
    known_id: str | None
    """What is worked on; None for an object that is being made."""

    @property
    def makes(self) -> bool:
        """Whether an object may exist that nobody knows; else the next plan looks at it and sees."""
        return self.action not in {"update", "delete"}


class DeletedThenUnknown(MayExist, frozen=True, kw_only=True):
    old_id: str | None
    at: str | None
    """None: only the state shows that the old object is gone."""


class FailedMayExist(MayExist, frozen=True, kw_only=True):
    at: str | None
    died: bool
    """The provider did not answer: nobody knows what it did."""
    why: str | None
    """What the engine said, in short. It may hold secrets: the redactor comes first."""

    __repr__ = masked_repr


class Failed(Finding, frozen=True, kw_only=True):
    action: str
    at: str | None


class NeverStarted(Finding, frozen=True, kw_only=True):
    pass


AnyFinding = (
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
