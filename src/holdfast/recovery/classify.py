"""From what was planned, heard and recorded of one change to one finding. Pure.

What is uncertain is judged to the side on which nothing is lost: an object counts as recorded only when the
state holds it, as deleted only when its deletion was heard to be complete, and else may exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from msgspec import Struct

from holdfast.recovery import change_outcome as found
from holdfast.recovery.change_outcome import AnyFinding, Record, Standing
from holdfast.runs.intent import PlannedChange
from holdfast.terraform.apply_log import CREATE, DELETE, UPDATE, Label, Operation, OperationStatus
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.statefile.model import LABELS, StateResource


class Case(Struct, frozen=True, kw_only=True):
    """All that is known of one planned change."""

    change: PlannedChange
    create: Operation | None = None
    update: Operation | None = None
    delete: Operation | None = None
    written: bool
    """The state was written since the plan. If not, nothing of this run is in it."""
    at: str
    """Where the record stands now: the old address, as long as a move is not written."""
    now: StateResource | None = None
    was: StateResource | None = None
    """The record before the run, where that state is known."""
    deposed: Mapping[str, StateResource]
    left: str | None = None
    """The key under which this run deposed the old object."""
    expected: bool
    """The state held a record of this before, as far as anyone knows."""
    provisioned: bool = False
    died: bool = False
    why: str | None = None

    @property
    def label(self) -> Label | None:
        """How what was made is named, if it can be looked for by that."""
        made = self.create
        if (
            made is None
            or made.end is not OperationStatus.COMPLETE
            or made.label is None
            or made.label.key not in LABELS
        ):
            return None
        return made.label

    @property
    def old_id(self) -> str | None:
        return self.change.before_id or (self.was.id if self.was is not None else None)

    @property
    def recorded(self) -> bool:
        """Whether the new object is in the state."""
        if not self.written:
            return False
        if self.label is not None and any(_named(held, self.label) for held in self.deposed.values()):
            return True
        if self.now is None or self.is_old(self.now):
            return False
        return self.label is None or _named(self.now, self.label)

    def is_old(self, held: StateResource) -> bool:
        """Whether a record is that of the object before. The new one can have the id of the old."""
        if not self.written or (self.was is not None and held.same_as(self.was)):
            return True
        if held.id is None or held.id != self.old_id:
            return False
        if self.label is not None:
            return not _named(held, self.label)
        return self.was is None or self.change.drifted

    def standing(self, *, keep_old: bool) -> Standing:
        """What an import of the new object would meet in the state."""
        taken: list[Record] = []
        back: list[Record] = []
        stranger = None
        if self.now is not None and self.is_old(self.now):
            taken.append(Record(address=self.at))
            back += taken if keep_old else ()
        elif self.now is not None:
            stranger = self.now.id or "an object without an id"
        for key in self.deposed:
            record = Record(address=self.at, deposed=key)
            taken.append(record)
            back += (record,) if keep_old or key != self.left else ()
        return Standing(taken_out=tuple(taken), put_back=tuple(back), stranger=stranger)


class _About(TypedDict):
    address: str
    change: PlannedChange


def judge(case: Case) -> AnyFinding:
    """Exactly one finding for every case."""
    if case.change.deposed is not None:
        return _removed(case, case.deposed.get(case.change.deposed))
    match case.change.kind:
        case ChangeKind.CREATE:
            return _created(case)
        case ChangeKind.UPDATE:
            return _updated(case)
        case ChangeKind.DELETE | ChangeKind.FORGET:
            return _removed(case, case.now)
        case (
            ChangeKind.DELETE_THEN_CREATE
            | ChangeKind.CREATE_THEN_DELETE
            | ChangeKind.CREATE_THEN_FORGET
            | ChangeKind.FORGET_THEN_CREATE
        ):
            return _replaced(case)
        case ChangeKind.NO_OP | ChangeKind.READ | ChangeKind.UNKNOWN:
            return _only_recorded(case)


def _about(case: Case) -> _About:
    return _About(address=case.change.address, change=case.change)


def _created(case: Case) -> AnyFinding:
    if case.recorded:
        return found.Recorded(**_about(case))
    return _making(case, standing=case.standing(keep_old=False)) or found.NeverStarted(**_about(case))


def _making(case: Case, *, standing: Standing) -> AnyFinding | None:
    """What is to be said of a create that is not in the state. None: nobody heard of it."""
    made = case.create
    if made is None:
        return None
    match made.end:
        case OperationStatus.COMPLETE:
            return found.CreatedNotRecorded(
                **_about(case),
                label=made.label,
                at=made.ended,
                standing=standing,
                provisioned=case.provisioned,
            )
        case OperationStatus.ERRORED:
            return found.FailedMayExist(
                **_about(case),
                at=made.ended,
                died=case.died,
                why=case.why,
                standing=standing,
                provisioned=case.provisioned,
            )
        case OperationStatus.OPEN:
            return found.StartedEndUnknown(
                **_about(case),
                action=made.action,
                at=made.began,
                known_id=None,
                standing=standing,
                provisioned=case.provisioned,
            )


def _updated(case: Case) -> AnyFinding:
    done = case.update is not None and case.update.end is OperationStatus.COMPLETE
    # Of a drifted object the record changes with the first write, before anything is done to it.
    telling = case.written and (done or not case.change.drifted)
    if telling and case.now is not None and case.was is not None and not case.now.same_as(case.was):
        return found.Recorded(**_about(case))
    return _ended(case, case.update, UPDATE) or found.UpdatedNotRecorded(**_about(case))


def _removed(case: Case, held: StateResource | None) -> AnyFinding:
    """A deletion or a forgetting. The stream says nothing of what is forgotten."""
    other = held is not None and None not in {held.id, case.old_id} and held.id != case.old_id
    if case.written and (held is None or other):
        return found.Recorded(**_about(case))
    return _ended(case, case.delete, DELETE) or found.DeletedNotRecorded(**_about(case))


def _ended(case: Case, operation: Operation | None, action: str) -> AnyFinding | None:
    """How an operation ended on an object that the state knows. None: it is complete."""
    if operation is None:
        return found.NeverStarted(**_about(case))
    match operation.end:
        case OperationStatus.COMPLETE:
            return None
        case OperationStatus.ERRORED:
            return found.Failed(**_about(case), action=action, at=operation.ended)
        case OperationStatus.OPEN:
            return found.StartedEndUnknown(
                **_about(case), action=action, at=operation.began, known_id=case.old_id
            )


def _replaced(case: Case) -> AnyFinding:
    if case.recorded:
        return _old_left(case)
    forgets = "forget" in case.change.actions
    create_first = case.change.kind is not ChangeKind.DELETE_THEN_CREATE
    deleted = case.delete is not None and case.delete.end is OperationStatus.COMPLETE
    # A new object is not begun before the old one is deleted, where that comes first.
    old_deleted = not forgets and (deleted or (not create_first and case.create is not None))
    standing = case.standing(keep_old=create_first and not old_deleted and not forgets)
    making = _making(case, standing=standing)
    match making:
        case None:
            return _not_begun(case, create_first=create_first, deleted=deleted, standing=standing)
        case found.CreatedNotRecorded():
            return found.ReplacedNotRecorded(
                **_about(case),
                label=making.label,
                at=making.at,
                standing=standing,
                provisioned=case.provisioned,
                old_id=case.old_id,
                old_deleted=old_deleted,
                create_first=create_first,
                forgets=forgets,
            )
        case found.StartedEndUnknown() if not create_first:
            return found.DeletedThenUnknown(
                **_about(case),
                old_id=case.old_id,
                at=making.at,
                standing=standing,
                provisioned=case.provisioned,
            )
        case _:
            return making


def _old_left(case: Case) -> AnyFinding:
    """The new object is in the state; is the old one still there?"""
    if case.left is None:
        return found.Recorded(**_about(case))
    if case.delete is None:
        return found.LeftDeposed(
            **_about(case),
            key=case.left,
            old_id=case.old_id,
            forgets="forget" in case.change.actions,
        )
    return _ended(case, case.delete, DELETE) or found.DeletedNotRecorded(**_about(case))


def _not_begun(case: Case, *, create_first: bool, deleted: bool, standing: Standing) -> AnyFinding:
    """Nobody heard of the new object. The state can be ahead of what was heard."""
    gone = case.written and case.now is None and case.expected
    if create_first:
        if gone and case.left is not None:
            return found.StartedEndUnknown(
                **_about(case), action=CREATE, at=None, known_id=None, standing=standing
            )
        return found.NeverStarted(**_about(case))
    if deleted:
        return found.NotReplaced(**_about(case), old_id=case.old_id)
    if gone:
        return found.DeletedThenUnknown(**_about(case), old_id=case.old_id, at=None, standing=standing)
    return _ended(case, case.delete, DELETE) or found.NotReplaced(**_about(case), old_id=case.old_id)


def _only_recorded(case: Case) -> AnyFinding:
    """An import or a move, which is done by writing the state; or what this version does not know."""
    if case.create is not None:
        return _created(case)
    if case.update is not None or case.delete is not None:
        return _ended(case, case.update or case.delete, UPDATE if case.update else DELETE) or (
            found.UpdatedNotRecorded(**_about(case))
        )
    if case.written and case.now is not None and case.change.kind is ChangeKind.NO_OP:
        return found.Recorded(**_about(case))
    return found.NeverStarted(**_about(case))


def _named(held: StateResource, label: Label) -> bool:
    return held.labels.get(label.key) == label.value
