"""What the tests of evidence share: one address, its records before and after, the changes it can have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from recovery_made import body, intent, planned, state

from holdfast.recovery.change_outcome import ChangeOutcome, OutcomeKind
from holdfast.recovery.evidence import Evidence, compare
from holdfast.runs.intent import PlannedChange
from holdfast.terraform.statefile.model import NO_STATE, read_contents

A = "lab_object.a"
B = "lab_object.b"
OLD = {A: [body("old", size=1)]}
NEW = {A: [body("new", size=2)]}
Held = Mapping[str, list[dict[str, Any]]]


def look(
    changes: PlannedChange | Iterable[PlannedChange],
    lines: Iterable[bytes] = (),
    *,
    before: Held | None = None,
    now: Held | None = None,
    **intended: Any,
) -> Evidence:
    """Without `now` the state was not written since the plan; a run without `before` began with no state."""
    one = (changes,) if isinstance(changes, PlannedChange) else tuple(changes)
    if before is None:
        meant = intent(*one, serial=0, lineage="", **intended)
        kept = NO_STATE if now is None else read_contents(state(now, serial=1))
        return compare(meant, lines, kept, NO_STATE)
    kept = read_contents(state(now, serial=9) if now is not None else state(before))
    return compare(intent(*one, **intended), lines, kept, read_contents(state(before)))


def only(evidence: Evidence, kind: OutcomeKind) -> ChangeOutcome:
    (outcome,) = evidence.all
    assert outcome.kind is kind
    return outcome


CREATE = planned(A, "create")
UPDATE = planned(A, "update", before_id="old")
DELETE = planned(A, "delete", before_id="old")
DELETE_FIRST = planned(A, "delete", "create", before_id="old")
CREATE_FIRST = planned(A, "create", "delete", before_id="old")
DEPOSED = planned(A, "delete", before_id="older", deposed="aa11")
