"""Classifies one planned change after a crash by plan, journal and state. Pure.

Doubt is resolved so that nothing is lost: a resource counts as recorded only if the state has it, as deleted
only if the journal has the completed deletion, and otherwise may exist.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from holdfast.recovery.change_outcome import ChangeOutcome, InstanceKey, OutcomeKind, StateConflict
from holdfast.runs.intent import PlannedChange
from holdfast.terraform.apply_log import Label, Operation, OperationStatus
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.statefile.model import LABELS, StateResource

NO_CONFLICT = StateConflict()


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

    def outcome(
        self, kind: OutcomeKind, *, at: str | None = None, conflict: StateConflict = NO_CONFLICT
    ) -> ChangeOutcome:
        return ChangeOutcome(
            kind=kind, address=self.change.address, change=self.change, at=at, conflict=conflict
        )

    @property
    def label(self) -> Label | None:
        """What identifies the created resource, if the state can be searched by it."""
        create = self.create
        if create is None or create.end is not OperationStatus.COMPLETE or create.label is None:
            return None
        return create.label if create.label.key in LABELS else None

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


def _creation(case: Case) -> ChangeOutcome:
    if case.recorded:
        return case.outcome(OutcomeKind.RECORDED)
    if case.create is None:
        return case.outcome(OutcomeKind.NEVER_STARTED)
    return _unrecorded_create(case, case.create, case.conflict(keep_old=False))


def _unrecorded_create(case: Case, create: Operation, conflict: StateConflict) -> ChangeOutcome:
    """A create in the journal that is not in the state."""
    outcome = case.outcome(
        {
            OperationStatus.COMPLETE: OutcomeKind.CREATED_NOT_RECORDED,
            OperationStatus.ERRORED: OutcomeKind.FAILED_MAY_EXIST,
            OperationStatus.OPEN: OutcomeKind.CREATE_UNKNOWN,
        }[create.end],
        at=create.began if create.end is OperationStatus.OPEN else create.ended,
        conflict=conflict,
    )
    done = create.end is OperationStatus.COMPLETE
    return replace(outcome, label=create.label if done else None, provisioned=case.provisioned)


def _update(case: Case) -> ChangeOutcome:
    done = case.update is not None and case.update.end is OperationStatus.COMPLETE
    # The first write of the state changes a drifted instance before Terraform changes the resource.
    conclusive = case.written and (done or not case.change.drifted)
    if conclusive and case.now is not None and case.was is not None and not case.now.same_as(case.was):
        return case.outcome(OutcomeKind.RECORDED)
    return _operation_outcome(case, case.update, OutcomeKind.UPDATED_NOT_RECORDED)


def _removal(case: Case, held: StateResource | None) -> ChangeOutcome:
    """A deletion, or a removal from the state only, which Terraform does not log."""
    other = held is not None and None not in {held.id, case.old_id} and held.id != case.old_id
    if case.written and (held is None or other):
        return case.outcome(OutcomeKind.RECORDED)
    return _operation_outcome(case, case.delete, OutcomeKind.DELETED_NOT_RECORDED)


def _operation_outcome(case: Case, operation: Operation | None, completed: OutcomeKind) -> ChangeOutcome:
    """How an operation on a resource in the state ended; `completed` if it did."""
    if operation is None:
        return case.outcome(OutcomeKind.NEVER_STARTED)
    match operation.end:
        case OperationStatus.COMPLETE:
            return case.outcome(completed)
        case OperationStatus.ERRORED:
            return case.outcome(OutcomeKind.FAILED, at=operation.ended)
        case OperationStatus.OPEN:
            return case.outcome(OutcomeKind.OPERATION_UNKNOWN, at=operation.began)


def _replacement(case: Case) -> ChangeOutcome:
    if case.recorded:
        return _old_resource(case)
    forgets = "forget" in case.change.actions
    create_first = case.change.kind is not ChangeKind.DELETE_THEN_CREATE
    deleted = case.delete is not None and case.delete.end is OperationStatus.COMPLETE
    # With delete before create, the create starts only after the deletion.
    old_deleted = not forgets and (deleted or (not create_first and case.create is not None))
    conflict = case.conflict(keep_old=create_first and not old_deleted and not forgets)
    if case.create is None:
        return _create_not_logged(case, create_first=create_first, deleted=deleted, conflict=conflict)
    outcome = _unrecorded_create(case, case.create, conflict)
    kind = outcome.kind
    if kind is OutcomeKind.CREATED_NOT_RECORDED:
        kind = OutcomeKind.REPLACED_NOT_RECORDED
    elif kind is OutcomeKind.CREATE_UNKNOWN and not create_first:
        kind = OutcomeKind.DELETED_THEN_UNKNOWN
    return replace(outcome, kind=kind, old_deleted=old_deleted, forgets=forgets)


def _old_resource(case: Case) -> ChangeOutcome:
    """The new resource is in the state; this is about the old one."""
    if case.left is None:
        return case.outcome(OutcomeKind.RECORDED)
    if case.delete is None:
        forgets = "forget" in case.change.actions
        return replace(case.outcome(OutcomeKind.LEFT_DEPOSED), deposed=case.left, forgets=forgets)
    return _operation_outcome(case, case.delete, OutcomeKind.DELETED_NOT_RECORDED)


def _create_not_logged(
    case: Case, *, create_first: bool, deleted: bool, conflict: StateConflict
) -> ChangeOutcome:
    """The journal has no create. The state can be ahead of the journal."""
    old_removed = case.written and case.now is None and case.expected
    if create_first:
        if old_removed and case.left is not None:
            return case.outcome(OutcomeKind.CREATE_UNKNOWN, conflict=conflict)
        return case.outcome(OutcomeKind.NEVER_STARTED)
    if deleted:
        return case.outcome(OutcomeKind.NOT_REPLACED)
    if old_removed:
        return case.outcome(OutcomeKind.DELETED_THEN_UNKNOWN, conflict=conflict)
    return _operation_outcome(case, case.delete, OutcomeKind.NOT_REPLACED)


def _state_only(case: Case) -> ChangeOutcome:
    """An import or a move, which only writes the state; or an unknown kind of change."""
    if case.create is not None:
        return _creation(case)
    if case.update is not None or case.delete is not None:
        return _operation_outcome(case, case.update or case.delete, OutcomeKind.UPDATED_NOT_RECORDED)
    recorded = case.written and case.now is not None and case.change.kind is ChangeKind.NO_OP
    return case.outcome(OutcomeKind.RECORDED if recorded else OutcomeKind.NEVER_STARTED)


def _has_label(held: StateResource, label: Label) -> bool:
    return held.labels.get(label.key) == label.value
