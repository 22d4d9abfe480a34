from __future__ import annotations

from pathlib import Path

import pytest
from context_made import change_context
from memory_blobs import MemoryBlobs

from holdfast.changes.continuation import choose_change, record_change
from holdfast.kernel.errors import UsageError
from holdfast.plans.context import ChangeContext
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
    record.finish(opened.store, opened.control.tell, statuses)


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
        record.finish(opened.store, opened.control.tell, {"a": Status.APPLIED})
        assert record.left == left
        apply(opened, CHANGE, b=Status.APPLIED)


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
