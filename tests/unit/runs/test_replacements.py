from __future__ import annotations

from collections.abc import Iterable

import pytest
from evidence_made import CREATE, CREATE_FIRST, DELETE_FIRST, DEPOSED, NEW, OLD, A, B, Held, look, only
from recovery_made import (
    body,
    complete,
    created,
    deleted,
    errored,
    intent,
    planned,
    provisioning,
    start,
    state,
)

from holdfast.recovery.change_outcome import InstanceKey, StateConflict
from holdfast.recovery.change_outcome import OutcomeKind as Kind
from holdfast.recovery.evidence import compare
from holdfast.recovery.imports import Import, imports
from holdfast.terraform.statefile.model import read_contents


@pytest.mark.parametrize(
    ("lines", "now", "kind"),
    [
        ((), None, Kind.NEVER_STARTED),
        (deleted(A, "old")[:1], None, Kind.OPERATION_UNKNOWN),
        ([start(A, "delete", "old"), errored(A, "delete")], None, Kind.FAILED),
        (deleted(A, "old"), None, Kind.NOT_REPLACED),
        (deleted(A, "old"), {}, Kind.NOT_REPLACED),
        ((*deleted(A, "old"), start(A, "create")), None, Kind.DELETED_THEN_UNKNOWN),
        ((*deleted(A, "old"), start(A, "create")), {}, Kind.DELETED_THEN_UNKNOWN),
        ((*deleted(A, "old"), start(A, "create"), errored(A, "create")), {}, Kind.FAILED_MAY_EXIST),
        ((*deleted(A, "old"), *created(A, "new")), None, Kind.REPLACED_NOT_RECORDED),
        ((*deleted(A, "old"), *created(A, "new")), OLD, Kind.REPLACED_NOT_RECORDED),
        ((*deleted(A, "old"), *created(A, "new")), {}, Kind.REPLACED_NOT_RECORDED),
        ((*deleted(A, "old"), *created(A, "new")), NEW, Kind.RECORDED),
        ((*deleted(A, "old"), start(A, "create")), NEW, Kind.RECORDED),
        ((), NEW, Kind.RECORDED),
        (deleted(A, "old")[:1], {}, Kind.DELETED_THEN_UNKNOWN),
    ],
)
def test_a_replacement_that_deletes_first(lines: Iterable[bytes], now: Held | None, kind: Kind) -> None:
    """Every place in which it can be cut, with the state behind, level and ahead."""
    only(look(DELETE_FIRST, lines, before=OLD, now=now), kind)


def test_the_record_of_the_deleted_object_makes_way_for_the_new_one() -> None:
    """Terraform ignores an import for an address that it knows."""
    evidence = look(DELETE_FIRST, [*deleted(A, "old"), *created(A, "new")], before=OLD)
    finding = only(evidence, Kind.REPLACED_NOT_RECORDED)
    assert (finding.id, finding.old_deleted) == ("new", True)
    assert imports(evidence, {}).imports == (
        Import(address=A, id="new", conflict=StateConflict(taken_out=(InstanceKey(address=A),))),
    )


def test_a_new_object_with_the_id_of_the_old_is_told_by_its_record() -> None:
    """Many ids are names, and a replacement keeps the name."""
    lines = [*deleted(A, "old"), *created(A, "old")]
    only(look(DELETE_FIRST, lines, before=OLD), Kind.REPLACED_NOT_RECORDED)
    only(look(DELETE_FIRST, lines, before=OLD, now={B: [body("b")], **OLD}), Kind.REPLACED_NOT_RECORDED)
    renewed = {A: [body("old", size=2)]}
    only(look(DELETE_FIRST, lines, before=OLD, now=renewed), Kind.RECORDED)
    only(look(DELETE_FIRST, lines[:-1], before=OLD, now=renewed), Kind.RECORDED)
    drifted = planned(A, "delete", "create", before_id="old", drifted=True)
    only(look(drifted, lines[:-1], before=OLD, now=renewed), Kind.DELETED_THEN_UNKNOWN)


BOTH = {A: [body("new", size=2), body("old", size=1, deposed="cc33")]}
DEPOSED_ONLY = {A: [body("old", size=1, deposed="cc33")]}


@pytest.mark.parametrize(
    ("lines", "now", "kind"),
    [
        ((), None, Kind.NEVER_STARTED),
        ([start(A, "create")], None, Kind.CREATE_UNKNOWN),
        ([start(A, "create")], DEPOSED_ONLY, Kind.CREATE_UNKNOWN),
        ((), DEPOSED_ONLY, Kind.CREATE_UNKNOWN),
        ([start(A, "create"), errored(A, "create")], OLD, Kind.FAILED_MAY_EXIST),
        (created(A, "new"), None, Kind.REPLACED_NOT_RECORDED),
        (created(A, "new"), DEPOSED_ONLY, Kind.REPLACED_NOT_RECORDED),
        (created(A, "new"), BOTH, Kind.LEFT_DEPOSED),
        ([start(A, "create")], BOTH, Kind.LEFT_DEPOSED),
        ((*created(A, "new"), start(A, "delete", "old")), BOTH, Kind.OPERATION_UNKNOWN),
        ((*created(A, "new"), *deleted(A, "old")), BOTH, Kind.DELETED_NOT_RECORDED),
        ((*created(A, "new"), start(A, "delete", "old"), errored(A, "delete")), BOTH, Kind.FAILED),
        ((*created(A, "new"), *deleted(A, "old")), None, Kind.REPLACED_NOT_RECORDED),
        ((*created(A, "new"), *deleted(A, "old")), NEW, Kind.RECORDED),
        ((*created(A, "new"), start(A, "delete", "old")), NEW, Kind.RECORDED),
    ],
)
def test_a_replacement_that_creates_first(lines: Iterable[bytes], now: Held | None, kind: Kind) -> None:
    """Every place in which it can be cut, with the state behind, level and ahead."""
    only(look(CREATE_FIRST, lines, before=OLD, now=now), kind)


def test_an_old_object_that_still_exists_is_put_back() -> None:
    """It is deleted only when that was heard to its end; else it stays looked after."""
    here, left = InstanceKey(address=A), InstanceKey(address=A, deposed="cc33")
    for lines, now, standing in (
        (created(A, "new"), None, StateConflict(taken_out=(here,), put_back=(here,))),
        (
            [*created(A, "new"), start(A, "delete", "old")],
            None,
            StateConflict(taken_out=(here,), put_back=(here,)),
        ),
        ([*created(A, "new"), *deleted(A, "old")], None, StateConflict(taken_out=(here,))),
        (created(A, "new"), DEPOSED_ONLY, StateConflict(taken_out=(left,), put_back=(left,))),
        ([*created(A, "new"), *deleted(A, "old")], DEPOSED_ONLY, StateConflict(taken_out=(left,))),
    ):
        finding = only(look(CREATE_FIRST, lines, before=OLD, now=now), Kind.REPLACED_NOT_RECORDED)
        assert finding.conflict == standing
    begun = look(CREATE_FIRST, [start(A, "create")], before=OLD)
    assert imports(begun, {A: "new"}).imports == (
        Import(address=A, id="new", given=True, conflict=StateConflict(taken_out=(here,), put_back=(here,))),
    )


@pytest.mark.parametrize("actions", [("create", "forget"), ("forget", "create")])
def test_what_is_to_be_forgotten_is_never_put_back(actions: tuple[str, ...]) -> None:
    """A deposed object is deleted by the next plan; this one was to stay."""
    change = planned(A, *actions, before_id="old")
    finding = only(look(change, created(A, "new"), before=OLD), Kind.REPLACED_NOT_RECORDED)
    assert (finding.forgets, finding.old_deleted) == (True, False)
    assert finding.conflict == StateConflict(taken_out=(InstanceKey(address=A),))
    evidence = look(change, created(A, "new"), before=OLD, now=BOTH)
    assert only(evidence, Kind.LEFT_DEPOSED).forgets
    assert not evidence.settled
    only(look(change, created(A, "new"), before=OLD, now=NEW), Kind.RECORDED)


def test_a_new_object_is_not_begun_before_the_old_one_is_deleted() -> None:
    """Where deleting comes first, a create proves the deletion that nobody heard."""
    finding = only(look(DELETE_FIRST, created(A, "new"), before=OLD), Kind.REPLACED_NOT_RECORDED)
    assert finding.old_deleted
    other = only(look(CREATE_FIRST, created(A, "new"), before=OLD), Kind.REPLACED_NOT_RECORDED)
    assert not other.old_deleted


def test_an_old_object_that_left_the_state_proves_no_new_one() -> None:
    """Where creating comes first, the old object is deposed before: without that nothing was begun."""
    only(look(CREATE_FIRST, before=OLD, now={}), Kind.NEVER_STARTED)
    deposed = {A: [body("old", deposed="bb22", size=1)]}
    only(look(CREATE_FIRST, before=OLD, now=deposed), Kind.CREATE_UNKNOWN)


def test_a_moved_object_is_looked_for_where_it_stood() -> None:
    """Until the first write the old record is under the old address, and is taken out there."""
    change = planned(B, "create", "delete", before_id="old", previous_address=A)
    finding = only(look(change, created(B, "new"), before=OLD), Kind.REPLACED_NOT_RECORDED)
    assert finding.conflict.taken_out == finding.conflict.put_back == (InstanceKey(address=A),)
    only(look(change, created(B, "new"), before=OLD, now={B: NEW[A]}), Kind.RECORDED)


def test_a_backup_that_was_brought_back_counts_as_not_moved() -> None:
    """Two objects that change places: with a greater serial and the old content, each is where it was."""
    swap = (
        planned(A, "no-op", before_id="b", previous_address=B),
        planned(B, "delete", "create", before_id="old", previous_address=A),
    )
    before = {**OLD, B: [body("b")]}
    evidence = look(swap, [*deleted(B, "old"), *created(B, "new")], before=before, now=before)
    finding = evidence.outcomes[1]
    assert finding.kind is Kind.REPLACED_NOT_RECORDED
    assert finding.conflict.taken_out == (InstanceKey(address=A),)


def test_another_object_at_the_old_address_counts_as_moved() -> None:
    """What stands there now is not what stood there: the object is looked for where it was moved to."""
    gone = planned(B, "delete", before_id="old", previous_address=A)
    now = {A: [body("other")], B: OLD[A]}
    lines = [*created(A, "other"), start(B, "delete", "old")]
    finding = look((gone, planned(A, "create")), lines, before=OLD, now=now).outcomes[0]
    assert finding.kind is Kind.OPERATION_UNKNOWN


def test_a_new_object_counts_as_recorded_while_the_old_one_is_left() -> None:
    """The state holds both, the old one deposed: Terraform deletes it with the next apply."""
    now = {A: [body("new", size=2), body("old", deposed="bb22", size=1)]}
    evidence = look(CREATE_FIRST, created(A, "new"), before=OLD, now=now)
    assert only(evidence, Kind.LEFT_DEPOSED).deposed == "bb22"
    assert evidence.recorded == 1
    assert evidence.settled


# Old objects of earlier runs


def test_the_deletion_of_a_deposed_object_is_told_from_that_of_the_current_one() -> None:
    """Both have one address; the id that is named at the beginning tells them apart."""
    before = {A: [body("old", size=1), body("older", deposed="aa11")]}
    lines = [*created(A, "new"), *deleted(A, "older"), start(A, "delete", "old")]
    current, old = look((CREATE_FIRST, DEPOSED), lines, before=before).outcomes
    assert current.kind is Kind.REPLACED_NOT_RECORDED
    assert not current.old_deleted
    assert InstanceKey(address=A, deposed="aa11") in current.conflict.put_back
    assert old.kind is Kind.DELETED_NOT_RECORDED


def test_an_old_object_of_an_earlier_run_outlives_the_import_of_a_new_one() -> None:
    """Whatever this run does with its own old object, others under the address are put back."""
    older = InstanceKey(address=A, deposed="aa11")
    before = {A: [body("old", size=1), body("older", deposed="aa11")]}
    lines = [*deleted(A, "old"), *created(A, "new")]
    finding = look((DELETE_FIRST, DEPOSED), lines, before=before).outcomes[0]
    assert finding.kind is Kind.REPLACED_NOT_RECORDED
    assert finding.conflict == StateConflict(taken_out=(InstanceKey(address=A), older), put_back=(older,))
    alone = {A: [body("older", deposed="aa11")]}
    fresh = look((CREATE, DEPOSED), created(A, "new"), before=alone).outcomes[0]
    assert fresh.kind is Kind.CREATED_NOT_RECORDED
    assert fresh.conflict == StateConflict(taken_out=(older,), put_back=(older,))


def test_a_leftover_that_the_plan_leaves_alone_is_not_taken_for_the_old_object() -> None:
    """With `-target` a plan passes over deposed objects; one of those says nothing of this replacement."""
    lines = [*created(A, "new"), *deleted(A, "old")]
    leftover = body("older", deposed="aa11")
    now = {A: [body("new", size=2), leftover]}
    only(look(CREATE_FIRST, lines, before={A: [*OLD[A], leftover]}, now=now), Kind.RECORDED)
    kept = read_contents(state(now, serial=9))
    only(compare(intent(CREATE_FIRST), lines, kept), Kind.RECORDED)


def test_an_end_without_a_name_is_not_given_to_two_deletions() -> None:
    """Two of one address are open and one is complete: neither is known to be; after the second, both are."""
    before = {A: [body("old", size=1), body("older", deposed="aa11")]}
    lines = [
        *created(A, "new"),
        start(A, "delete", "old"),
        start(A, "delete", "older"),
        complete(A, "delete"),
    ]
    current, old = look((CREATE_FIRST, DEPOSED), lines, before=before).outcomes
    assert current.kind is Kind.REPLACED_NOT_RECORDED
    assert not current.old_deleted
    assert old.kind is Kind.OPERATION_UNKNOWN
    current, old = look((CREATE_FIRST, DEPOSED), [*lines, complete(A, "delete")], before=before).outcomes
    assert current.kind is Kind.REPLACED_NOT_RECORDED
    assert current.old_deleted
    assert old.kind is Kind.DELETED_NOT_RECORDED


def test_a_deletion_that_could_be_of_another_object_is_not_complete() -> None:
    """Objects without an id: which of two deletions ended is not guessed."""
    changes = (planned(A, "create", "delete"), planned(A, "delete", deposed="aa11"))
    before = {A: [body(None, size=1), body(None, size=0, deposed="aa11")]}
    lines = [*created(A, None), start(A, "delete"), start(A, "delete"), complete(A, "delete")]
    first, second = look(changes, lines, before=before).outcomes
    assert first.kind is Kind.REPLACED_NOT_RECORDED
    assert not first.old_deleted
    assert second.kind is Kind.OPERATION_UNKNOWN


@pytest.mark.parametrize(
    ("lines", "now", "kind"),
    [
        ((), None, Kind.NEVER_STARTED),
        (deleted(A, "older")[:1], None, Kind.OPERATION_UNKNOWN),
        (deleted(A, "older"), None, Kind.DELETED_NOT_RECORDED),
        ((), {A: [body("old")]}, Kind.RECORDED),
    ],
)
def test_a_deposed_object_alone(lines: Iterable[bytes], now: Held | None, kind: Kind) -> None:
    """It is recorded as deleted when its key is gone, whatever else the address holds."""
    before = {A: [body("old"), body("older", deposed="aa11")]}
    only(look(DEPOSED, lines, before=before, now=now), kind)


def test_a_provisioner_of_the_end_says_nothing_of_the_new_object() -> None:
    """Those that run before a deletion are no sign that something was made."""
    lines = [start(A, "delete", "old"), provisioning(A), complete(A, "delete"), start(A, "create")]
    assert not only(look(DELETE_FIRST, lines, before=OLD), Kind.DELETED_THEN_UNKNOWN).provisioned
