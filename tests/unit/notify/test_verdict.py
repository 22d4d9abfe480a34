"""The first line says whether it may be merged."""

from __future__ import annotations

import itertools

import pytest
from reports_made import checked, failed, losing, plain, ready, refused, report

from holdfast.notify.report import ChangeReport, StackReport, Trouble, Verdict, verdict_line, verdict_of
from holdfast.plans.status import RESULTS, Status


@pytest.mark.parametrize(
    ("stacks", "line"),
    [
        ([], "✅ May be merged: no changes"),
        ([plain("a", "unchanged")], "✅ May be merged: no changes"),
        ([ready("a"), plain("b", "unchanged")], "✅ May be merged: 1 new in 1 of 2 stacks"),
        ([ready("a"), losing("b", "x.y", "x.z")], "⚠️ May be merged, with care: 2 deletes"),
        ([ready("a"), plain("b", "removed")], "⚠️ May be merged, with care: check 1 of 2 stacks"),
        ([plain("b", "waiting")], "✋ Approval needed: 1 stack needs one before apply"),
        ([plain("b", "locked")], "⏳ Not yet: 1 stack is locked; plan again later"),
        ([refused("a", "x.y"), ready("b")], "⛔ Do not merge: 1 of 2 stacks is refused"),
        ([refused("a", "x.y"), failed("b")], "⛔ Do not merge: 1 of 2 stacks could not be planned"),
        (
            [plain("a", "unknown"), failed("b")],
            "⛔ Do not merge: the outcome of the last apply of 1 of 2 stacks is unknown",
        ),
    ],
)
def test_the_most_severe_stack_sets_the_verdict(stacks: list[StackReport], line: str) -> None:
    """The most severe stack decides."""
    assert verdict_line(report(*stacks)) == line


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (checked(ready("a")), "⚠️ May be merged, with care: 2 errors found by the checks"),
        (
            checked(plain("a", "unchanged"), errors=1),
            "⚠️ May be merged, with care: 1 error found by the checks",
        ),
        (checked(losing("a", "x.y")), "⚠️ May be merged, with care: 1 delete, 2 errors found by the checks"),
        (checked(ready("a"), errors=0), "✅ May be merged: 1 new in 1 stack"),
        (checked(refused("a", "x.y")), "⛔ Do not merge: 1 stack is refused"),
        (checked(plain("a", "applied"), operation="apply"), "✅ Applied: no resource changes in 1 stack"),
    ],
)
def test_errors_of_the_checks_are_a_reason_to_look(found: ChangeReport, line: str) -> None:
    """What only warns is not; nor is it news once it is applied."""
    assert verdict_line(found) == line


@pytest.mark.parametrize(
    ("stacks", "line"),
    [
        ([plain("a", "applied")], "✅ Applied: no resource changes in 1 stack"),
        ([plain("a", "applied"), plain("b", "cancelled")], "⛔ Failed: 1 of 2 stacks"),
        ([plain("a", "unknown")], "⛔ The outcome of the apply of 1 stack is unknown"),
        ([plain("a", "unchanged")], "✅ Nothing to do"),
    ],
)
def test_an_apply_has_its_own_verdict(stacks: list[StackReport], line: str) -> None:
    """After an apply the question is not whether to merge."""
    assert verdict_line(report(*stacks, operation="apply")) == line


def test_a_change_that_could_not_begin_is_a_failure() -> None:
    """A mistake in the configuration must not leave "may be merged" standing."""
    trouble = Trouble(code="HF-CONF-3", message="not YAML")
    broken = ChangeReport(operation="plan", headline="", stacks=(), troubles=(trouble,))
    assert verdict_of(broken) is Verdict.FAILED
    assert verdict_line(broken) == "⛔ Do not merge: nothing could be planned"


def test_every_status_has_a_verdict() -> None:
    """A status that this table does not know is never fine; all that there are, it knows."""
    good = {Verdict.READY, Verdict.APPLIED, Verdict.NOTHING}
    found = {status: verdict_of(report(plain("a", status.value))) for status in RESULTS}
    assert {status for status, verdict in found.items() if verdict in good} == {
        Status.PLANNED, Status.APPLIED, Status.UNCHANGED,
    }  # fmt: skip
    assert verdict_of(report(plain("a", "made-up"))) is Verdict.UNKNOWN


@pytest.mark.parametrize("decision", ["approval", "deny", "made-up"])
def test_a_ready_plan_that_the_guard_did_not_allow_is_not_ready(decision: str) -> None:
    """The decision counts too, whatever the status says."""
    found = verdict_of(report(StackReport(name="a", status="planned", decision=decision)))
    assert found is (Verdict.APPROVAL if decision == "approval" else Verdict.REFUSED)


def test_adding_a_stack_never_makes_it_better() -> None:
    """Whatever comes in addition, the verdict stays or gets graver."""
    order = list(Verdict)
    kinds = [plain("x", status.value) for status in RESULTS] + [losing("x", "a.b"), refused("x", "a.b")]
    for one, more in itertools.product(kinds, kinds):
        assert order.index(verdict_of(report(one, more))) <= order.index(verdict_of(report(one)))
