"""What is known about an interrupted apply: its plan compared with its journal and the state. Pure.

The journal may be behind the state: its last lines can be lost. The state may be behind the journal: remote
backends save at most every 20 seconds. What either shows as recorded is recorded; what neither shows as
finished is not finished.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from holdfast.recovery.change_outcome import CREATED, MAY_EXIST, ChangeOutcome, OutcomeKind
from holdfast.recovery.classify import Case, classify_change
from holdfast.runs.intent import PlanIntent, PlannedChange
from holdfast.terraform.apply_log import DELETE, UPDATE, ApplyLog, Operation, OperationStatus, parse_apply_log
from holdfast.terraform.statefile.model import NO_STATE, Contents


class Evidence(Struct, frozen=True, kw_only=True):
    outcomes: tuple[ChangeOutcome, ...]
    """One per planned change, in the plan's order."""
    unplanned: tuple[ChangeOutcome, ...]
    """Resources started or created that the plan does not create. There should be none."""
    unseen: str | None
    """Why the state could not be read. The outcomes then come from the journal alone."""
    written: bool
    """The state was written since the plan was made."""
    ended: bool
    """Terraform printed its summary or its errors: it exited by itself."""
    cut: bool
    """The last line of the journal is incomplete."""
    last_output: str | None

    @property
    def all(self) -> tuple[ChangeOutcome, ...]:
        return (*self.outcomes, *self.unplanned)

    @property
    def planned(self) -> int:
        return len(self.outcomes)

    @property
    def recorded(self) -> int:
        return sum(
            outcome.kind in {OutcomeKind.RECORDED, OutcomeKind.LEFT_DEPOSED} for outcome in self.outcomes
        )

    @property
    def not_recorded(self) -> tuple[ChangeOutcome, ...]:
        """Created, not in the state."""
        return tuple(outcome for outcome in self.all if outcome.kind in CREATED)

    @property
    def end_unknown(self) -> tuple[ChangeOutcome, ...]:
        unknown = MAY_EXIST | {OutcomeKind.OPERATION_UNKNOWN}
        return tuple(outcome for outcome in self.all if outcome.kind in unknown)

    @property
    def settled(self) -> bool:
        """Everything that was created is in the state, and every operation has a known result."""
        forgotten = any(
            outcome.kind is OutcomeKind.LEFT_DEPOSED and outcome.forgets for outcome in self.outcomes
        )
        return self.unseen is None and not self.not_recorded and not self.end_unknown and not forgotten


def compare(
    intent: PlanIntent,
    lines: Iterable[bytes],
    state: Contents,
    before: Contents | None = None,
    *,
    forced: bool = False,
) -> Evidence:
    """`state` is the current state, `before` the one when the run started, if known.

    `forced`: Terraform was interrupted twice and did not wait for changes in progress.
    """
    log = parse_apply_log(lines, forced=forced)
    unseen = _why_unseen(intent, state)
    known = before if before is not None and before.unseen is None else None
    scene = _Scene(
        log=log,
        written=unseen is None and not _is_unchanged(intent, state),
        moved=not _unmoved(intent, state, known),
        state=state if unseen is None else known or NO_STATE,
        before=known,
        planned=_by_address(intent.changes),
    )
    cases = [scene.case(change) for change in intent.changes]
    return Evidence(
        outcomes=tuple(classify_change(case) for case in cases),
        unplanned=tuple(_unplanned(scene, cases)),
        unseen=unseen,
        written=scene.written,
        ended=log.ended,
        cut=log.cut,
        last_output=log.last,
    )


def _why_unseen(intent: PlanIntent, state: Contents) -> str | None:
    if state.absent and intent.serial > 0:
        return "the state no longer exists"
    if state.lineage is not None and intent.lineage and state.lineage != intent.lineage:
        return "the state has a different lineage than the one that was planned against"
    return state.unseen


def _is_unchanged(intent: PlanIntent, state: Contents) -> bool:
    """Every write raises the serial, and a plan is applied to the serial it was made for."""
    return state.absent or (state.serial == intent.serial and (state.lineage or "") == intent.lineage)


def _unmoved(intent: PlanIntent, state: Contents, before: Contents | None) -> bool:
    """Whether the instances that the plan moves are at their old addresses: a backup was restored."""
    moves = [change.previous_address for change in intent.changes if change.previous_address and change.moved]
    if before is None or not moves:
        return False
    for address in moves:
        was, now = before.current.get(address), state.current.get(address)
        if was is None or now is None or not now.same_as(was):
            return False
    return True


def _by_address(changes: Iterable[PlannedChange]) -> Mapping[str, tuple[PlannedChange, ...]]:
    planned: dict[str, tuple[PlannedChange, ...]] = {}
    for change in changes:
        planned[change.address] = (*planned.get(change.address, ()), change)
    return planned


class _Scene(Struct, frozen=True, kw_only=True):
    log: ApplyLog
    written: bool
    moved: bool
    """Whether the first write of the state carried out the planned moves."""
    state: Contents
    """If it could not be read, the state before the run: that is what a backup restores."""
    before: Contents | None
    planned: Mapping[str, tuple[PlannedChange, ...]]

    def case(self, change: PlannedChange) -> Case:
        operations = self.log.operations.get(change.address, ())
        was_at = change.previous_address or change.address
        at = change.address if self.written and self.moved else was_at
        was = self.before.current.get(was_at) if self.before is not None else None
        case = Case(
            change=change,
            create=_create(operations) if change.deposed is None else None,
            update=_last(operation for operation in operations if operation.action == UPDATE),
            delete=_deletion(change, self.planned.get(change.address, ()), operations),
            written=self.written,
            at=at,
            now=self.state.current.get(at),
            was=was,
            deposed=self.state.deposed.get(at, {}),
            expected=was is not None or (self.before is None and not change.importing),
            provisioned=change.address in self.log.provisioned,
        )
        return replace(case, left=self._left(case, was_at))

    def _left(self, case: Case, was_at: str) -> str | None:
        """The key under which this run deposed the old resource: one that did not exist before."""
        if case.change.deposed is not None or not case.written:
            return None
        known = {planned.deposed for planned in self.planned.get(case.change.address, ())}
        if self.before is not None:
            known |= self.before.deposed.get(was_at, {}).keys()
        for key, held in case.deposed.items():
            old = self.before is not None or (held.id is not None and held.id == case.old_id)
            if key not in known and old:
                return key
        return None


def _create(operations: Iterable[Operation]) -> Operation | None:
    """The create that completed, otherwise the last attempt."""
    creates = [operation for operation in operations if operation.creates]
    completed = (operation for operation in creates if operation.end is OperationStatus.COMPLETE)
    return _last(completed) or _last(creates)


def _last(operations: Iterable[Operation]) -> Operation | None:
    return next(reversed(list(operations)), None)


def _deletion(
    change: PlannedChange, planned: Iterable[PlannedChange], operations: Iterable[Operation]
) -> Operation | None:
    """The deletion of this instance. One that may belong to another instance does not count as complete."""
    deletions = [other for other in planned if "delete" in other.actions]
    if change not in deletions:
        return None
    doubtful: Operation | None = None
    for operation in operations:
        if operation.action != DELETE:
            continue
        label = operation.label
        id_ = label.value if label is not None and label.key == "id" else None
        candidates = [other for other in deletions if id_ is None or other.before_id in {id_, None}]
        if candidates == [change] or len(deletions) == 1:
            return operation
        if change in candidates:
            doubtful = replace(operation, end=OperationStatus.OPEN, ended=None)
    return doubtful


def _unplanned(scene: _Scene, cases: Iterable[Case]) -> Iterator[ChangeOutcome]:
    planned = {id(case.create) for case in cases if case.create is not None and case.change.creates}
    for address, operations in scene.log.operations.items():
        for operation in operations:
            if not operation.creates or id(operation) in planned:
                continue
            change = PlannedChange(address=address, actions=("create",), mode="managed", type="", provider="")
            outcome = classify_change(replace(scene.case(change), create=operation))
            if outcome.kind is not OutcomeKind.RECORDED:
                yield replace(outcome, change=None)
