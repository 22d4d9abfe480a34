from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from evidence_made import CREATE, DELETE, DELETE_FIRST, DEPOSED, NEW, OLD, UPDATE, A, B, Held, look, only
from recovery_made import (
    body,
    complete,
    created,
    deleted,
    diagnosed,
    errored,
    intent,
    line,
    planned,
    start,
    state,
)

from holdfast.recovery.change_outcome import InstanceKey, StateConflict
from holdfast.recovery.change_outcome import OutcomeKind as Kind
from holdfast.recovery.evidence import compare
from holdfast.recovery.imports import Import, imports
from holdfast.runs.intent import PlanIntent, planned_changes
from holdfast.terraform.plan.model import read_plan
from holdfast.terraform.statefile.model import NO_STATE, read_contents

STREAMS = Path(__file__).parents[1] / "terraform"
# Creates


def test_a_create_that_nobody_heard_of_never_started() -> None:
    """No line and no record: the next plan makes it."""
    assert only(look(CREATE), Kind.NEVER_STARTED).address == A


def test_a_create_that_is_in_the_state_is_recorded() -> None:
    """Whatever the journal says: heard to its end, cut before, or not at all."""
    for lines in (created(A, "new"), [start(A, "create")], []):
        evidence = look(CREATE, lines, now=NEW)
        only(evidence, Kind.RECORDED)
        assert evidence.settled


def test_a_create_that_is_complete_and_not_in_the_state_is_found_with_its_id() -> None:
    """The twenty seconds between two saves of a remote backend are closed by the journal."""
    evidence = look(CREATE, created(A, "new", at="14:09:12"), now={B: [body("b")]})
    finding = only(evidence, Kind.CREATED_NOT_RECORDED)
    assert (finding.id, finding.at) == ("new", "14:09:12")
    assert not evidence.settled
    assert imports(evidence, {}).imports == (Import(address=A, id="new"),)


@pytest.mark.parametrize("record", [True, False], ids=["by its exit record", "by its log"])
def test_a_change_that_a_forced_exit_cut_off_has_no_result(*, record: bool) -> None:
    """Terraform reports it as failed, but only stopped waiting for it: its result is unknown."""
    for change, action, kind in (
        (CREATE, "create", Kind.CREATE_UNKNOWN),
        (UPDATE, "update", Kind.OPERATION_UNKNOWN),
        (DELETE, "delete", Kind.OPERATION_UNKNOWN),
    ):
        lines = [start(A, action, at="14:09:29"), errored(A, action)]
        lines += [] if record else [diagnosed("", "operation canceled")]
        before = read_contents(state({} if change is CREATE else OLD))
        evidence = compare(intent(change), lines, before, before, forced=record)
        (outcome,) = evidence.end_unknown
        assert (outcome.kind, outcome.at) == (kind, "14:09:29")


def test_a_create_that_was_begun_and_never_ended_may_exist() -> None:
    """Only a person or the provider can tell, so it is listed with when it was begun."""
    evidence = look(CREATE, [start(A, "create", at="14:09:29"), line("apply_progress", A, "create")])
    finding = only(evidence, Kind.CREATE_UNKNOWN)
    assert (finding.at, finding.id) == ("14:09:29", None)
    assert not evidence.settled


def test_a_failed_create_may_exist() -> None:
    """The word of a provider that failed is no proof; one that died knows nothing at all."""
    said = [start(A, "create"), errored(A, "create", at="14:10"), diagnosed(A, "it is Tuesday")]
    finding = only(look(CREATE, said), Kind.FAILED_MAY_EXIST)
    assert finding.at == "14:10"
    died = [*said[:2], diagnosed(A, "Plugin did not respond", "The plugin encountered an error")]
    evidence = look(CREATE, died)
    only(evidence, Kind.FAILED_MAY_EXIST)
    assert not evidence.settled
    (left,) = imports(evidence, {}).unresolved
    assert "may exist" in left.reason


def test_a_failed_create_that_left_a_tainted_object_is_recorded() -> None:
    """The state knows it, and the next plan replaces it."""
    tainted = {A: [body("new", tainted=True)]}
    only(look(CREATE, [start(A, "create"), errored(A, "create")], now=tainted), Kind.RECORDED)


def test_an_object_without_an_id_is_known_by_being_there() -> None:
    """Some types have no id: then the state's having it decides."""
    lines = [start(A, "create"), complete(A, "create", "n", key="tags.Name")]
    only(look(CREATE, lines, now={A: [body(None)]}), Kind.RECORDED)
    finding = only(look(CREATE, lines), Kind.CREATED_NOT_RECORDED)
    assert finding.id is None
    (left,) = imports(look(CREATE, lines), {}).unresolved
    assert left.created
    assert left.needs == ("id",)


def test_a_name_is_as_good_as_an_id_for_telling() -> None:
    """The engine names an object without an id by its name."""
    lines = [start(A, "create"), complete(A, "create", "n", key="name")]
    only(look(CREATE, lines, now={A: [body(None, name="n")]}), Kind.RECORDED)
    athena = planned(A, "create", type="aws_athena_capacity_reservation")
    assert imports(look(athena, lines), {}).imports == (Import(address=A, id="n"),)


def test_the_record_of_an_object_that_was_gone_is_not_the_new_one() -> None:
    """The plan found the old object deleted and makes another: the old record is in the way of the import."""
    evidence = look(CREATE, created(A, "new"), before=OLD)
    finding = only(evidence, Kind.CREATED_NOT_RECORDED)
    assert finding.conflict == StateConflict(taken_out=(InstanceKey(address=A),))
    same_id = look(CREATE, created(A, "old"), before=OLD, now=OLD)
    assert only(same_id, Kind.CREATED_NOT_RECORDED).conflict.taken_out == (InstanceKey(address=A),)


def test_a_stranger_under_the_address_is_left_alone() -> None:
    """Somebody recorded another resource there since: neither may be lost, so a person must look."""
    evidence = look(CREATE, created(A, "new"), now={A: [body("theirs")]})
    assert only(evidence, Kind.CREATED_NOT_RECORDED).conflict.other_id == "theirs"
    resolution = imports(evidence, {A: "new"})
    assert resolution.imports == ()
    assert "another resource" in resolution.unresolved[0].reason


# Updates and deletions


def test_an_update_is_recorded_when_its_record_changed() -> None:
    """And one that is not recorded harms nothing: the next plan looks at the object."""
    done = [start(A, "update", "old"), complete(A, "update", "old")]
    changed = {A: [body("old", size=2)]}
    only(look(UPDATE, done, before=OLD, now=changed), Kind.RECORDED)
    only(look(UPDATE, done[:1], before=OLD, now=changed), Kind.RECORDED)
    only(look(UPDATE, done, before=OLD, now=OLD), Kind.UPDATED_NOT_RECORDED)
    evidence = look(UPDATE, done, before=OLD)
    only(evidence, Kind.UPDATED_NOT_RECORDED)
    assert evidence.settled


def test_the_changed_record_of_a_drifted_object_proves_nothing() -> None:
    """The first write of the state records the drift, whether the update was made or not."""
    drifted = planned(A, "update", before_id="old", drifted=True)
    changed = {A: [body("old", size=2)]}
    begun = look(drifted, [start(A, "update", "old")], before=OLD, now=changed)
    only(begun, Kind.OPERATION_UNKNOWN)
    only(look(drifted, before=OLD, now=changed), Kind.NEVER_STARTED)


def test_an_update_that_did_not_end_well_is_said_so() -> None:
    """Open or failed, the state knows the object: nothing is to be imported."""
    begun = look(UPDATE, [start(A, "update", "old")], before=OLD)
    only(begun, Kind.OPERATION_UNKNOWN)
    assert not begun.settled
    assert imports(begun, {}).unresolved == ()
    failed = look(UPDATE, [start(A, "update", "old"), errored(A, "update")], before=OLD)
    only(failed, Kind.FAILED)


@pytest.mark.parametrize(
    ("lines", "now", "kind"),
    [
        ((), None, Kind.NEVER_STARTED),
        (deleted(A, "old")[:1], None, Kind.OPERATION_UNKNOWN),
        (deleted(A, "old"), None, Kind.DELETED_NOT_RECORDED),
        (deleted(A, "old"), OLD, Kind.DELETED_NOT_RECORDED),
        (deleted(A, "old"), {}, Kind.RECORDED),
        (deleted(A, "old")[:1], {}, Kind.RECORDED),
        ((), {}, Kind.RECORDED),
        ([start(A, "delete", "old"), errored(A, "delete")], None, Kind.FAILED),
        (deleted(A, "old"), {A: [body("theirs")]}, Kind.RECORDED),
    ],
)
def test_a_deletion_is_recorded_when_the_object_is_not_in_the_state(
    lines: Iterable[bytes], now: Held | None, kind: Kind
) -> None:
    """A deletion that is not recorded harms nothing: the next plan looks and sees."""
    only(look(DELETE, lines, before=OLD, now=now), kind)


def test_forgetting_is_done_by_writing_the_state() -> None:
    """The stream says nothing of it."""
    forget = planned(A, "forget", before_id="old")
    only(look(forget, before=OLD), Kind.NEVER_STARTED)
    only(look(forget, before=OLD, now={}), Kind.RECORDED)


def test_imports_and_moves_are_done_by_writing_the_state() -> None:
    """The stream says nothing of them either."""
    taking = planned(A, "no-op", before_id="x", importing=True)
    only(look(taking, before={}), Kind.NEVER_STARTED)
    only(look(taking, before={}, now={A: [body("x")]}), Kind.RECORDED)
    moving = planned(B, "no-op", before_id="old", previous_address=A)
    only(look(moving, before=OLD), Kind.NEVER_STARTED)
    only(look(moving, before=OLD, now={B: OLD[A]}), Kind.RECORDED)


# What nobody could see


@pytest.mark.parametrize("data", [b"", b"{", b'{"serial":9,"lineage":"8c1f","encrypted_data":"x"}', None])
def test_a_state_that_nobody_can_look_into_settles_nothing(data: bytes | None) -> None:
    """The journal alone speaks then, against the state before: it is what a backup brings back."""
    evidence = compare(
        intent(DELETE, planned(B, "create")), created(B, "b"), read_contents(data), read_contents(state(OLD))
    )
    first, second = evidence.outcomes
    assert first.kind is Kind.NEVER_STARTED
    assert second.kind is Kind.CREATED_NOT_RECORDED
    assert evidence.unseen is not None
    assert not evidence.settled
    blind = compare(intent(DELETE, UPDATE, DEPOSED), (), read_contents(data))
    assert [one.kind for one in blind.outcomes] == [Kind.NEVER_STARTED] * 3


def test_a_state_of_another_lineage_is_not_looked_into() -> None:
    """It is another state."""
    other = read_contents(state({}, lineage="other", serial=9))
    evidence = compare(intent(DELETE), deleted(A, "old"), other, read_contents(state(OLD)))
    only(evidence, Kind.DELETED_NOT_RECORDED)
    assert "lineage" in (evidence.unseen or "")


def test_without_the_state_before_ids_and_the_serial_decide() -> None:
    """A backup may be gone."""
    lines = [*deleted(A, "old"), *created(A, "new")]
    for kept, kind in (
        (state(OLD), Kind.REPLACED_NOT_RECORDED),
        (state(OLD, serial=9), Kind.REPLACED_NOT_RECORDED),
        (state(NEW, serial=9), Kind.RECORDED),
        (state({}, serial=9), Kind.REPLACED_NOT_RECORDED),
    ):
        (finding,) = compare(intent(DELETE_FIRST), lines, read_contents(kept)).outcomes
        assert finding.kind is kind


def test_what_the_plan_does_not_name_is_found_all_the_same() -> None:
    """A create that no planned change makes should not be; it is not hidden."""
    evidence = look(UPDATE, created("lab_object.z", "z"), before=OLD)
    assert [one.kind for one in evidence.unplanned] == [Kind.CREATED_NOT_RECORDED]
    assert not evidence.settled
    assert imports(evidence, {}).unresolved[0].address == "lab_object.z"
    assert imports(evidence, {"lab_object.z": "z"}).imports[0].id == "z"
    twice = look(CREATE, [*created(A, "one"), *created(A, "two")])
    assert {one.id for one in twice.not_recorded} == {"one", "two"}


def test_an_action_that_is_not_known_hides_nothing() -> None:
    """Neither in the plan nor in the stream."""
    odd = planned(A, "transmute", before_id="old")
    only(look(odd, before=OLD, now=OLD), Kind.NEVER_STARTED)
    only(look(odd, [start(A, "update", "old")], before=OLD), Kind.OPERATION_UNKNOWN)
    lines = [start(A, "conjure"), complete(A, "conjure", "new")]
    only(look(CREATE, lines), Kind.CREATED_NOT_RECORDED)


def test_a_create_that_no_plan_asked_for_is_found_under_a_planned_address() -> None:
    """An address that was only to be updated has a new object beside the old one: it is looked after."""
    evidence = look(UPDATE, created(A, "new"), before=OLD)
    (other_id,) = evidence.unplanned
    assert other_id.kind is Kind.CREATED_NOT_RECORDED
    assert other_id.id == "new"
    assert not evidence.settled


def test_a_further_try_does_not_hide_what_the_first_one_made() -> None:
    """A create that was complete counts, whatever was begun under its address after it."""
    evidence = look(CREATE, [*created(A, "one"), start(A, "create")])
    (finding,) = evidence.outcomes
    assert finding.kind is Kind.CREATED_NOT_RECORDED
    assert finding.id == "one"


def test_a_new_object_with_the_id_of_a_deposed_one_is_not_recorded_by_it() -> None:
    """Before the first write nothing in the state is of this run, whatever it is called."""
    before = {A: [body("new", deposed="aa11")]}
    finding = look(CREATE, created(A, "new"), before=before).outcomes[0]
    assert finding.kind is Kind.CREATED_NOT_RECORDED


@pytest.mark.parametrize("serial", [1, 7])
def test_a_state_that_is_gone_is_not_an_unwritten_one(serial: int) -> None:
    """There was a state when the plan was made: that there is none now settles nothing."""
    evidence = compare(intent(CREATE, serial=serial), (), NO_STATE, read_contents(state({}, serial=serial)))
    assert "no longer exists" in (evidence.unseen or "")
    assert not evidence.settled


@pytest.mark.parametrize(
    ("meant", "kept", "written"),
    [
        (intent(CREATE), state({}), False),
        (intent(CREATE), state({}, serial=8), True),
        (intent(CREATE), state({}, serial=6), True),
        (intent(CREATE, serial=0, lineage=""), state({}, serial=0), True),
        (intent(CREATE, serial=0, lineage=""), None, False),
    ],
)
def test_a_state_was_written_unless_it_is_the_one_of_the_plan(
    meant: PlanIntent, kept: bytes | None, *, written: bool
) -> None:
    """A later serial is a write, and so are an earlier one and a first state where there was none."""
    assert compare(meant, (), read_contents(kept)).written is written


def test_a_state_before_that_cannot_be_read_is_not_an_empty_one() -> None:
    """The object that was to be replaced is gone from the state: it may be deleted and a new one made."""
    evidence = compare(
        intent(DELETE_FIRST), (), read_contents(state({}, serial=9)), read_contents(b"{damaged")
    )
    only(evidence, Kind.DELETED_THEN_UNKNOWN)


def test_a_backup_brings_back_the_record_of_the_old_object() -> None:
    """Where nobody can look into the state, an import makes way for the new object in the one before."""
    evidence = compare(
        intent(DELETE_FIRST),
        [*deleted(A, "old"), *created(A, "new")],
        read_contents(b"{damaged"),
        read_contents(state(OLD)),
    )
    finding = only(evidence, Kind.REPLACED_NOT_RECORDED)
    assert finding.conflict.taken_out == (InstanceKey(address=A),)


def test_a_record_without_an_id_may_be_of_the_object_to_be_deleted() -> None:
    """Only two ids that differ prove that another resource stands there."""
    nameless = planned(A, "delete")
    for change, now in ((DELETE, {A: [body(None, size=2)]}), (nameless, OLD)):
        only(compare(intent(change), (), read_contents(state(now, serial=9))), Kind.NEVER_STARTED)
    only(compare(intent(DELETE), (), read_contents(state(NEW, serial=9))), Kind.RECORDED)


def test_the_only_deletion_of_an_address_is_the_planned_one() -> None:
    """Also where the engine names the object by another id than the plan knew."""
    only(look(DELETE, deleted(A, "renamed"), before=OLD), Kind.DELETED_NOT_RECORDED)


def test_an_object_to_be_imported_is_not_missed_before_its_import() -> None:
    """Without the state before, a record that was never there is no sign of a deletion."""
    change = planned(A, "delete", "create", before_id="old", importing=True)
    only(compare(intent(change), (), read_contents(state({}, serial=9))), Kind.NEVER_STARTED)


# The journal


def test_a_cut_last_line_is_noticed_and_believed_in_nothing() -> None:
    """Half a line that says `complete` is no end; noise after it is no cut."""
    lines = [*created(B, "b"), start(A, "create"), complete(A, "create", "new")[:-20]]
    evidence = look((CREATE, planned(B, "create")), lines)
    assert evidence.cut
    assert evidence.outcomes[0].kind is Kind.CREATE_UNKNOWN
    assert not look(CREATE, [*lines, b"\n", b"a word of a provider\n"]).cut


def test_changes_that_run_side_by_side_are_kept_apart() -> None:
    """Ten at once is the rule: each line counts for its own address."""
    lines = [
        start(A, "create"),
        start(B, "create"),
        start("lab_object.c", "delete", "c"),
        complete(B, "create", "b"),
        complete("lab_object.c", "delete"),
    ]
    changes = (CREATE, planned(B, "create"), planned("lab_object.c", "delete", before_id="c"))
    kinds = [one.kind for one in look(changes, lines, before={"lab_object.c": [body("c")]}).outcomes]
    assert kinds == [Kind.CREATE_UNKNOWN, Kind.CREATED_NOT_RECORDED, Kind.DELETED_NOT_RECORDED]


@pytest.mark.parametrize("engine", ["terraform-1.11.4", "terraform-1.15.5", "tofu-1.12.6"])
def test_a_real_apply_is_understood_wherever_it_is_cut(engine: str) -> None:
    """Of a real run: cut before, between and after; with its state, and with none."""
    lines = (STREAMS / "streams" / f"{engine}-apply-fails-apply.jsonl").read_bytes().splitlines(keepends=True)
    kept = read_contents((STREAMS / "states" / f"{engine}-apply-fails.json").read_bytes())
    a, b = (planned(f"terraform_data.{name}", "create", type="terraform_data") for name in "ab")
    meant = intent(a, b, serial=0, lineage="")
    recorded = compare(meant, lines, kept, NO_STATE)
    assert recorded.recorded == recorded.planned == 2
    first, second = compare(meant, lines, NO_STATE, NO_STATE).outcomes
    assert first.kind is Kind.CREATED_NOT_RECORDED
    assert first.id == kept.current["terraform_data.a"].id
    assert second.kind is Kind.FAILED_MAY_EXIST
    assert second.provisioned
    seen: set[Kind] = set()
    for cut in range(len(lines) + 1):
        one, two = compare(meant, lines[:cut], NO_STATE, NO_STATE).outcomes
        seen |= {one.kind, two.kind}
    assert seen == {
        Kind.NEVER_STARTED,
        Kind.CREATE_UNKNOWN,
        Kind.CREATED_NOT_RECORDED,
        Kind.FAILED_MAY_EXIST,
    }


@pytest.mark.parametrize("engine", ["terraform-1.11.4", "terraform-1.15.5", "tofu-1.12.6"])
def test_a_finished_apply_is_settled(engine: str) -> None:
    """Its plan, its stream and what it wrote agree, and nothing is left to say."""
    changes = planned_changes(read_plan((STREAMS / "plans" / f"{engine}-create.json").read_bytes()))
    lines = (STREAMS / "streams" / f"{engine}-create-apply.jsonl").read_bytes().splitlines()
    without_state = compare(intent(*changes, serial=0, lineage=""), lines, NO_STATE, NO_STATE)
    assert without_state.ended
    assert {one.address for one in without_state.not_recorded} == {one.address for one in changes}
    ids = {one.address: one.id for one in without_state.not_recorded}
    resources = [
        {
            "mode": "managed",
            "type": one.type,
            "name": one.address.split(".")[-1].split("[")[0],
            **({"module": ".".join(one.address.split(".")[:-2])} if one.address.startswith("module") else {}),
            "instances": [{"attributes": {"id": ids[one.address]}, **_index(one.address)}],
        }
        for one in changes
    ]
    saved = json.dumps({"version": 4, "serial": 3, "lineage": "l", "resources": resources}).encode()
    settled = compare(intent(*changes, serial=0, lineage=""), lines, read_contents(saved), NO_STATE)
    assert settled.settled
    assert settled.recorded == len(changes)


def _index(address: str) -> dict[str, Any]:
    key = address.rpartition("[")[2].rstrip("]") if address.endswith("]") else ""
    return {"index_key": json.loads(key)} if key else {}


def test_the_figures_of_the_screen() -> None:
    """Recorded 2 of 5. Created and not recorded: 1. Started, end unknown: 1."""
    changes = [planned(f"lab_object.o{number}", "create") for number in range(5)]
    lines = [
        *created("lab_object.o0", "0"),
        *created("lab_object.o1", "1"),
        *created("lab_object.o2", "2", at="2026-01-02T14:09:12Z"),
        start("lab_object.o3", "create", at="2026-01-02T14:09:29Z"),
    ]
    now = {"lab_object.o0": [body("0")], "lab_object.o1": [body("1")]}
    evidence = look(changes, lines, now=now)
    assert (evidence.recorded, evidence.planned) == (2, 5)
    assert [(one.address, one.id) for one in evidence.not_recorded] == [("lab_object.o2", "2")]
    assert [one.address for one in evidence.end_unknown] == ["lab_object.o3"]
    assert evidence.last_output == "2026-01-02T14:09:29Z"
