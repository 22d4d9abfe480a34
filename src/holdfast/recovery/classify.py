"""Classifies one planned change after a crash by plan, journal and state. Pure.

Doubt is resolved so that nothing is lost: a resource counts as recorded only if the state has it, as deleted
only if the journal has the completed deletion, and otherwise may exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from msgspec import Struct

from holdfast.recovery import change_outcome
from holdfast.recovery.change_outcome import ChangeOutcome, InstanceKey, StateConflict
from holdfast.runs.intent import PlannedChange
from holdfast.terraform.apply_log import CREATE, DELETE, UPDATE, Label, Operation, OperationStatus
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.statefile.model import LABELS, StateResource


class Case(Struct, frozen=True, kw_only=True):
    """What is known about one planned change."""

    change: PlannedChange
    create: Operation | None = None
    update: Operation | None = None
    delete: Operation | None = None
    written: bool
    """The state was written since the plan; if not, it has nothing of this run."""
    at: str
    """Its address in the state: the previous one until a move is written."""
    now: StateResource | None = None
    was: StateResource | None = None
    """The instance before the run, if that state is known."""
    deposed: Mapping[str, StateResource]
    left: str | None = None
    """The key under which this run deposed the old resource."""
    expected: bool
    """The state had this instance before the run, as far as is known."""
    provisioned: bool = False
    died: bool = False
    why: str | None = None

    @property
    def label(self) -> Label | None:
        """What identifies the created resource, if the state can be searched by it."""
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
        """Whether the new resource is in the state."""
        if not self.written:
            return False
        if self.label is not None and any(_has_label(held, self.label) for held in self.deposed.values()):
            return True
        if self.now is None or self.is_old(self.now):
            return False
        return self.label is None or _has_label(self.now, self.label)

    def is_old(self, held: StateResource) -> bool:
        """Whether an instance is the old resource. The new one can have the same id."""
        if not self.written or (self.was is not None and held.same_as(self.was)):
            return True
        if held.id is None or held.id != self.old_id:
            return False
        if self.label is not None:
            return not _has_label(held, self.label)
        return self.was is None or self.change.drifted

    def conflict(self, *, keep_old: bool) -> StateConflict:
        """What is in the way of importing the new resource."""
        taken: list[InstanceKey] = []
        back: list[InstanceKey] = []
        other_id = None
        if self.now is not None and self.is_old(self.now):
            taken.append(InstanceKey(address=self.at))
            back += taken if keep_old else ()
        elif self.now is not None:
            other_id = self.now.id or "a resource without an id"
        for key in self.deposed:
            instance = InstanceKey(address=self.at, deposed=key)
            taken.append(instance)
            back += (instance,) if keep_old or key != self.left else ()
        return StateConflict(taken_out=tuple(taken), put_back=tuple(back), other_id=other_id)


class _Subject(TypedDict):
    address: str
    change: PlannedChange


def classify_change(case: Case) -> ChangeOutcome:
    if case.change.deposed is not None:
        return _removal(case, case.deposed.get(case.change.deposed))
    match case.change.kind:
        case ChangeKind.CREATE:
            return _creation(case)
        case ChangeKind.UPDATE:
            return _update(case)
        case ChangeKind.DELETE | ChangeKind.FORGET:
            return _removal(case, case.now)
        case (
            ChangeKind.DELETE_THEN_CREATE
            | ChangeKind.CREATE_THEN_DELETE
            | ChangeKind.CREATE_THEN_FORGET
            | ChangeKind.FORGET_THEN_CREATE
        ):
            return _replacement(case)
        case ChangeKind.NO_OP | ChangeKind.READ | ChangeKind.UNKNOWN:
            return _state_only(case)


def _subject(case: Case) -> _Subject:
    return _Subject(address=case.change.address, change=case.change)


def _creation(case: Case) -> ChangeOutcome:
    if case.recorded:
        return change_outcome.Recorded(**_subject(case))
    return _unrecorded_create(case, conflict=case.conflict(keep_old=False)) or change_outcome.NeverStarted(
        **_subject(case)
    )


def _unrecorded_create(case: Case, *, conflict: StateConflict) -> ChangeOutcome | None:
    """A create that is not in the state; None if the journal does not have it."""
    made = case.create
    if made is None:
        return None
    match made.end:
        case OperationStatus.COMPLETE:
            return change_outcome.CreatedNotRecorded(
                **_subject(case),
                label=made.label,
                at=made.ended,
                conflict=conflict,
                provisioned=case.provisioned,
            )
        case OperationStatus.ERRORED:
            return change_outcome.FailedMayExist(
                **_subject(case),
                at=made.ended,
                died=case.died,
                why=case.why,
                conflict=conflict,
                provisioned=case.provisioned,
            )
        case OperationStatus.OPEN:
            return change_outcome.StartedEndUnknown(
                **_subject(case),
                action=made.action,
                at=made.began,
                known_id=None,
                conflict=conflict,
                provisioned=case.provisioned,
            )


def _update(case: Case) -> ChangeOutcome:
    done = case.update is not None and case.update.end is OperationStatus.COMPLETE
    # The first write of the state changes a drifted instance before Terraform changes the resource.
    conclusive = case.written and (done or not case.change.drifted)
    if conclusive and case.now is not None and case.was is not None and not case.now.same_as(case.was):
        return change_outcome.Recorded(**_subject(case))
    return _operation_outcome(case, case.update, UPDATE) or change_outcome.UpdatedNotRecorded(
        **_subject(case)
    )


def _removal(case: Case, held: StateResource | None) -> ChangeOutcome:
    """A deletion, or a removal from the state only, which Terraform does not log."""
    other = held is not None and None not in {held.id, case.old_id} and held.id != case.old_id
    if case.written and (held is None or other):
        return change_outcome.Recorded(**_subject(case))
    return _operation_outcome(case, case.delete, DELETE) or change_outcome.DeletedNotRecorded(
        **_subject(case)
    )


def _operation_outcome(case: Case, operation: Operation | None, action: str) -> ChangeOutcome | None:
    """How an operation on a resource in the state ended; None if it completed."""
    if operation is None:
        return change_outcome.NeverStarted(**_subject(case))
    match operation.end:
        case OperationStatus.COMPLETE:
            return None
        case OperationStatus.ERRORED:
            return change_outcome.Failed(**_subject(case), action=action, at=operation.ended)
        case OperationStatus.OPEN:
            return change_outcome.StartedEndUnknown(
                **_subject(case), action=action, at=operation.began, known_id=case.old_id
            )


def _replacement(case: Case) -> ChangeOutcome:
    if case.recorded:
        return _old_resource(case)
    forgets = "forget" in case.change.actions
    create_first = case.change.kind is not ChangeKind.DELETE_THEN_CREATE
    deleted = case.delete is not None and case.delete.end is OperationStatus.COMPLETE
    # With delete before create, the create starts only after the deletion.
    old_deleted = not forgets and (deleted or (not create_first and case.create is not None))
    conflict = case.conflict(keep_old=create_first and not old_deleted and not forgets)
    making = _unrecorded_create(case, conflict=conflict)
    match making:
        case None:
            return _create_not_logged(case, create_first=create_first, deleted=deleted, conflict=conflict)
        case change_outcome.CreatedNotRecorded():
            return change_outcome.ReplacedNotRecorded(
                **_subject(case),
                label=making.label,
                at=making.at,
                conflict=conflict,
                provisioned=case.provisioned,
                old_id=case.old_id,
                old_deleted=old_deleted,
                create_first=create_first,
                forgets=forgets,
            )
        case change_outcome.StartedEndUnknown() if not create_first:
            return change_outcome.DeletedThenUnknown(
                **_subject(case),
                old_id=case.old_id,
                at=making.at,
                conflict=conflict,
                provisioned=case.provisioned,
            )
        case _:
            return making


def _old_resource(case: Case) -> ChangeOutcome:
    """The new resource is in the state; this is about the old one."""
    if case.left is None:
        return change_outcome.Recorded(**_subject(case))
    if case.delete is None:
        return change_outcome.LeftDeposed(
            **_subject(case),
            key=case.left,
            old_id=case.old_id,
            forgets="forget" in case.change.actions,
        )
    return _operation_outcome(case, case.delete, DELETE) or change_outcome.DeletedNotRecorded(
        **_subject(case)
    )


def _create_not_logged(
    case: Case, *, create_first: bool, deleted: bool, conflict: StateConflict
) -> ChangeOutcome:
    """The journal has no create. The state can be ahead of the journal."""
    gone = case.written and case.now is None and case.expected
    if create_first:
        if gone and case.left is not None:
            return change_outcome.StartedEndUnknown(
                **_subject(case), action=CREATE, at=None, known_id=None, conflict=conflict
            )
        return change_outcome.NeverStarted(**_subject(case))
    if deleted:
        return change_outcome.NotReplaced(**_subject(case), old_id=case.old_id)
    if gone:
        return change_outcome.DeletedThenUnknown(
            **_subject(case), old_id=case.old_id, at=None, conflict=conflict
        )
    return _operation_outcome(case, case.delete, DELETE) or change_outcome.NotReplaced(
        **_subject(case), old_id=case.old_id
    )


def _state_only(case: Case) -> ChangeOutcome:
    """An import or a move, which only writes the state; or an unknown kind of change."""
    if case.create is not None:
        return _creation(case)
    if case.update is not None or case.delete is not None:
        return _operation_outcome(case, case.update or case.delete, UPDATE if case.update else DELETE) or (
            change_outcome.UpdatedNotRecorded(**_subject(case))
        )
    if case.written and case.now is not None and case.change.kind is ChangeKind.NO_OP:
        return change_outcome.Recorded(**_subject(case))
    return change_outcome.NeverStarted(**_subject(case))


def _has_label(held: StateResource, label: Label) -> bool:
    return held.labels.get(label.key) == label.value
