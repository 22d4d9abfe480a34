"""What is known about a run that ended without an answer: its plan against its journal and the state. Pure.

A journal may be behind the state: its last lines died on their way. The state may be behind the journal:
remote backends save at most every 20 seconds. What either of them shows to be recorded is recorded; what
neither shows to be ended is not ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from holdfast.recovery import change_outcome as found
from holdfast.recovery.change_outcome import AnyFinding
from holdfast.recovery.classify import Case, judge
from holdfast.runs.intent import PlanIntent, PlannedChange
from holdfast.terraform.apply_log import DELETE, UPDATE, ApplyLog, Operation, OperationStatus, parse_apply_log
from holdfast.terraform.statefile.contents import NO_STATE, Contents


class Evidence(Struct, frozen=True, kw_only=True):
    findings: tuple[AnyFinding, ...]
    """One for every planned change, in the plan's order."""
    unplanned: tuple[AnyFinding, ...]
    """Objects that were begun or made and that no planned change makes. There should be none."""
    unseen: str | None
    """Why nobody could look into the state. The findings are then those of the journal alone."""
    written: bool
    """The state was written since the plan was made."""
    ended: bool
    """The engine summed up, or gave its errors: it came to its own end."""
    cut: bool
    """The last line of the journal is not whole."""
    last_heard: str | None

    @property
    def all(self) -> tuple[AnyFinding, ...]:
        return (*self.findings, *self.unplanned)

    @property
    def planned(self) -> int:
        return len(self.findings)

    @property
    def recorded(self) -> int:
        return sum(isinstance(one, found.Recorded | found.LeftDeposed) for one in self.findings)

    @property
    def not_recorded(self) -> tuple[found.CreatedNotRecorded | found.ReplacedNotRecorded, ...]:
        """Made, and not in the state."""
        return tuple(
            one for one in self.all if isinstance(one, found.CreatedNotRecorded | found.ReplacedNotRecorded)
        )

    @property
    def end_unknown(
        self,
    ) -> tuple[found.StartedEndUnknown | found.DeletedThenUnknown | found.FailedMayExist, ...]:
        return tuple(
            one
            for one in self.all
            if isinstance(one, found.StartedEndUnknown | found.DeletedThenUnknown | found.FailedMayExist)
        )

    @property
    def settled(self) -> bool:
        """Nothing was made that the state does not know, and nothing has an unknown end."""
        forgotten = any(isinstance(one, found.LeftDeposed) and one.forgets for one in self.findings)
        return self.unseen is None and not self.not_recorded and not self.end_unknown and not forgotten


def compare(
    intent: PlanIntent, lines: Iterable[bytes], state: Contents, before: Contents | None = None
) -> Evidence:
    """`state` is what is kept now, `before` what was kept when the run began, if anyone knows."""
    heard = parse_apply_log(lines)
    unseen = _unseen(intent, state)
    known = before if before is not None and before.unseen is None else None
    scene = _Scene(
        heard=heard,
        written=unseen is None and not _untouched(intent, state),
        moved=not _unmoved(intent, state, known),
        state=state if unseen is None else known or NO_STATE,
        before=known,
        planned=_by_address(intent.changes),
    )
    cases = [scene.case(change) for change in intent.changes]
    return Evidence(
        findings=tuple(judge(case) for case in cases),
        unplanned=tuple(_unplanned(scene, cases)),
        unseen=unseen,
        written=scene.written,
        ended=heard.ended,
        cut=heard.cut,
        last_heard=heard.last,
    )


def _unseen(intent: PlanIntent, state: Contents) -> str | None:
    if state.absent and intent.serial > 0:
        return "the state that was there is gone"
    if state.lineage is not None and intent.lineage and state.lineage != intent.lineage:
        return "the state is of another lineage than the one that the plan was made for"
    return state.unseen


def _untouched(intent: PlanIntent, state: Contents) -> bool:
    """Every write of a state raises its serial, and a plan is applied to the serial it was made for."""
    return state.absent or (state.serial == intent.serial and (state.lineage or "") == intent.lineage)


def _unmoved(intent: PlanIntent, state: Contents, before: Contents | None) -> bool:
    """Whether the records that the plan moves stand where they stood: a backup was brought back."""
    moves = [one.previous_address for one in intent.changes if one.previous_address and one.moved]
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
    heard: ApplyLog
    written: bool
    moved: bool
    """Whether the first write of the state moved the records that are to be moved."""
    state: Contents
    """Where nobody could look, the state before: it is what a backup brings back."""
    before: Contents | None
    planned: Mapping[str, tuple[PlannedChange, ...]]

    def case(self, change: PlannedChange) -> Case:
        operations = self.heard.operations.get(change.address, ())
        was_at = change.previous_address or change.address
        at = change.address if self.written and self.moved else was_at
        was = self.before.current.get(was_at) if self.before is not None else None
        case = Case(
            change=change,
            create=_making(operations) if change.deposed is None else None,
            update=_last(one for one in operations if one.action == UPDATE),
            delete=_deletion(change, self.planned.get(change.address, ()), operations),
            written=self.written,
            at=at,
            now=self.state.current.get(at),
            was=was,
            deposed=self.state.deposed.get(at, {}),
            expected=was is not None or (self.before is None and not change.importing),
            provisioned=change.address in self.heard.provisioned,
            died=change.address in self.heard.died,
            why=self.heard.failures.get(change.address),
        )
        return replace(case, left=self._left(case, was_at))

    def _left(self, case: Case, was_at: str) -> str | None:
        """The old object of a replacement, where this run deposed it: a key that was not there before."""
        if case.change.deposed is not None or not case.written:
            return None
        known = {one.deposed for one in self.planned.get(case.change.address, ())}
        if self.before is not None:
            known |= self.before.deposed.get(was_at, {}).keys()
        for key, held in case.deposed.items():
            old = self.before is not None or (held.id is not None and held.id == case.old_id)
            if key not in known and old:
                return key
        return None


def _making(operations: Iterable[Operation]) -> Operation | None:
    """The one that made something, else the last that tried."""
    makes = [one for one in operations if one.creates]
    return _last(one for one in makes if one.end is OperationStatus.COMPLETE) or _last(makes)


def _last(operations: Iterable[Operation]) -> Operation | None:
    return next(reversed(list(operations)), None)


def _deletion(
    change: PlannedChange, planned: Iterable[PlannedChange], operations: Iterable[Operation]
) -> Operation | None:
    """The deletion of this object. One that could be of another object too is not heard to be complete."""
    rivals = [one for one in planned if "delete" in one.actions]
    if change not in rivals:
        return None
    doubtful: Operation | None = None
    for one in operations:
        if one.action != DELETE:
            continue
        named = one.label.value if one.label is not None and one.label.key == "id" else None
        fits = [rival for rival in rivals if named is None or rival.before_id in {named, None}]
        if fits == [change] or len(rivals) == 1:
            return one
        if change in fits:
            doubtful = replace(one, end=OperationStatus.OPEN, ended=None)
    return doubtful


def _unplanned(scene: _Scene, cases: Iterable[Case]) -> Iterator[AnyFinding]:
    judged = {id(case.create) for case in cases if case.create is not None and case.change.creates}
    for address, operations in scene.heard.operations.items():
        for one in operations:
            if not one.creates or id(one) in judged:
                continue
            stranger = PlannedChange(
                address=address, actions=("create",), mode="managed", type="", provider=""
            )
            case = replace(scene.case(stranger), create=one)
            finding = judge(case)
            if not isinstance(finding, found.Recorded):
                yield replace(finding, change=None)
