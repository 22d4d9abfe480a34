from __future__ import annotations

from pathlib import Path

import pytest
from context_made import change_context
from memory_blobs import MemoryBlobs
from msgspec import structs
from results_made import stack

from holdfast.changes.continuation import RecordedChange, choose_change, record_change
from holdfast.guard.decision import Deny, Reason
from holdfast.kernel.errors import UsageError
from holdfast.plans.context import ChangeContext
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.store.changes import ChangeRecord
from holdfast.terraform.argv import PlanOptions, VariableOption

OPTIONS = PlanOptions(targets=("a.b",), variables=(VariableOption("size", "3"),))
CHANGE = "01JD7Q0000000000000000CHAN"


@pytest.fixture
def opened(tmp_path: Path) -> ChangeContext:
    return change_context(tmp_path, blobs=MemoryBlobs())


def apply(opened: ChangeContext, change: str, **statuses: Status) -> None:
    record = record_change(opened, dict.fromkeys(statuses, OPTIONS), change=change)
    record.begin(opened.store)
    results = [StackResult(stack=stack(name), status=status) for name, status in statuses.items()]
    record.finish(opened.store, opened.control.tell, results)


def read(opened: ChangeContext) -> ChangeRecord:
    record = opened.store.changes.read(CHANGE)
    assert record is not None
    return record


def test_what_is_left_has_the_options_it_was_planned_with(opened: ChangeContext) -> None:
    """Everything but what was applied, had no changes, or is gone."""
    apply(opened, CHANGE, **{str(status): status for status in Status})
    assert set(read(opened).left) == {str(status) for status in Status} - {"applied", "unchanged", "removed"}
    assert read(opened).stacks["failed"].options == OPTIONS


def test_a_change_that_was_killed_is_left_as_a_whole(opened: ChangeContext) -> None:
    """Its record is written before anything is applied; results of a later apply are added to it."""
    record_change(opened, {"a": OPTIONS, "b": OPTIONS}, change=CHANGE).begin(opened.store)
    assert read(opened).left == ("a", "b")
    apply(opened, CHANGE, a=Status.APPLIED)
    assert read(opened).left == ("b",)


def test_a_bundle_that_is_applied_again_forgets_no_result(opened: ChangeContext) -> None:
    """A stack without a plan in it is left until `--continue` has applied it."""
    missing = {"b": Status.BLOCKED}
    for left in (("b",), ()):
        record = record_change(opened, {"a": OPTIONS}, change=CHANGE, without_plan=missing)
        record.begin(opened.store)
        result = StackResult(stack=stack("a"), status=Status.APPLIED)
        record.finish(opened.store, opened.control.tell, [result])
        assert record.left == left
        apply(opened, CHANGE, b=Status.APPLIED)


def test_a_rejected_plan_is_not_left_to_be_made_again(opened: ChangeContext) -> None:
    """A person decided against it. What the guard refuses is left: a new plan may be allowed."""
    record = record_change(opened, dict.fromkeys("ab", OPTIONS), change=CHANGE)
    record.begin(opened.store)
    results = []
    for name, code in (("a", "HF-GUARD-17"), ("b", "HF-GUARD-1")):
        deny = Deny(reasons=(Reason(code="HF-GUARD-1", message="no"), Reason(code=code, message="no")))
        results.append(StackResult(stack=stack(name), status=Status.REFUSED, decision=deny))
    record.finish(opened.store, opened.control.tell, results)
    assert read(opened).left == ("b",)


def test_a_bundle_does_not_replace_the_base_of_a_known_change(opened: ChangeContext) -> None:
    """It says itself which change it is from."""
    known = structs.replace(record_change(opened, {"a": OPTIONS}, change=CHANGE).record, base=b"main")
    RecordedChange(known).begin(opened.store)
    for base in (None, b"other"):
        record = record_change(opened, {"b": OPTIONS}, change=CHANGE).record
        RecordedChange(structs.replace(record, base=base)).begin(opened.store)
        assert read(opened).base == b"main"
    assert read(opened).left == ("a", "b")


def test_a_change_is_chosen_by_its_id_or_as_the_latest_that_is_not_complete(opened: ChangeContext) -> None:
    """Of changes with nothing left, the latest says so."""
    with pytest.raises(UsageError):
        choose_change(opened.store, None)
    apply(opened, "01A", a=Status.FAILED)
    apply(opened, "01B", a=Status.BLOCKED)
    apply(opened, "01C", a=Status.APPLIED)
    assert choose_change(opened.store, None).id == "01B"
    assert choose_change(opened.store, "01a").id == "01A"
    for wrong in ("01", "02"):
        with pytest.raises(UsageError, match=r"start with 01|no change 02"):
            choose_change(opened.store, wrong)
    apply(opened, "01A", a=Status.APPLIED)
    apply(opened, "01B", a=Status.APPLIED)
    assert choose_change(opened.store, None).id == "01C"


def test_no_value_of_a_variable_is_in_a_repr(opened: ChangeContext) -> None:
    """A record holds what the command line said."""
    apply(opened, CHANGE, a=Status.FAILED)
    assert "3" not in repr(read(opened).stacks["a"])
