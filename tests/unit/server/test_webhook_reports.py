"""The report of a change as it is now: the rows count, whatever a worker wrote before."""

from __future__ import annotations

from typing import Any

import pytest
from reports_made import ready, refused

from holdfast.notify.action_items import add_action_items
from holdfast.notify.report import ChangeReport, StackReport, Verdict, verdict_of, with_earlier_stacks
from holdfast.notify.size_budget import UNLIMITED, Page
from holdfast.notify.webhooks.interface import ApplyMode
from holdfast.server.webhook_reports import current_report, next_step, status_of
from holdfast.store.server_runs.phases import ChangePhase, Operation
from holdfast.store.server_runs.rows import Change, Run


def change(statuses: dict[str, str | None], **more: Any) -> Change:
    nothing: dict[str, Any] = dict.fromkeys(Run.__struct_fields__)
    runs = tuple(
        Run(**{**nothing, "stack": name, "id": f"R-{name}", "status": status})
        for name, status in statuses.items()
    )
    known: dict[str, Any] = dict.fromkeys(Change.__struct_fields__)
    given = {"operation": Operation.PLAN, "phase": ChangePhase.DONE, "runs": runs}
    return Change(**{**known, **given, **more})


def report(*stacks: StackReport, operation: str = "plan") -> ChangeReport:
    return ChangeReport(operation=operation, headline="2 stacks", stacks=stacks, on_server=True)


def test_a_stack_is_shown_as_its_worker_wrote_only_if_its_row_agrees() -> None:
    """A worker wrote `planned`, and died; its run is of unknown outcome."""
    stored = report(ready("a"), ready("b"), ready("stranger"), StackReport(name="gone", status="removed"))
    shown = current_report(change({"a": "planned", "b": "unknown", "c": None}), stored)
    assert [(stack.name, stack.status, bool(stack.diff)) for stack in shown.stacks] == [
        ("a", "planned", True), ("b", "unknown", False), ("c", "unknown", False), ("gone", "removed", False),
    ]  # fmt: skip
    assert (shown.headline, verdict_of(shown)) == ("2 stacks", Verdict.UNKNOWN)


def test_an_error_of_the_change_is_never_hidden_and_hides_nothing() -> None:
    error = {"code": "HF-SRC-4", "message": "there is no such commit", "hint": "Push it."}
    failed = current_report(change({}, error=error), None)
    assert [trouble.code for trouble in failed.troubles] == ["HF-SRC-4"]
    assert verdict_of(failed) is Verdict.FAILED
    partly = current_report(
        change({"a": "applied", "b": "refused"}, error=error, operation=Operation.APPLY),
        report(ready("b"), StackReport(name="a", status="applied"), operation="apply"),
    )
    assert partly.troubles == ()
    assert {stack.name: len(stack.troubles) for stack in partly.stacks} == {"a": 0, "b": 1}


def test_what_an_earlier_pass_said_of_other_stacks_stays() -> None:
    before, now = report(ready("a"), ready("b")), report(StackReport(name="b", status="applied"))
    merged = with_earlier_stacks(now, before)
    assert [(stack.name, stack.status) for stack in merged.stacks] == [("a", "planned"), ("b", "applied")]
    assert with_earlier_stacks(now, None) == now


@pytest.mark.parametrize(
    ("stack", "mode", "said"),
    [
        (ready("a"), ApplyMode.ON_COMMENT, "`holdfast apply` to apply"),
        (ready("a"), ApplyMode.ON_MERGE, "Merging plans and applies this"),
        (refused("a", "x.y"), ApplyMode.ON_COMMENT, "Comment `holdfast plan` to plan again"),
    ],
)
def test_the_next_step_is_named(stack: StackReport, mode: ApplyMode, said: str) -> None:
    assert said in next_step(report(stack), mode)
    assert next_step(report(stack, operation="apply"), mode) == ""


def test_a_status_waits_while_the_change_does() -> None:
    waiting = report(StackReport(name="a", status="waiting"), operation="apply")
    assert status_of(change({}, phase=ChangePhase.WAITING), waiting)[0] == "pending"
    assert status_of(change({}), waiting) == ("failure", "Not applied yet: 1 stack needs an approval")
    assert status_of(change({}), report(ready("a")))[0] == "success"


@pytest.mark.parametrize(
    ("status", "operation", "step"),
    [
        ("waiting", "plan", "- To apply `a`: comment `holdfast apply`."),
        ("waiting", "apply", '- To approve: `holdfast runs approve R-a --reason "why" --server`'),
        ("refused", "plan", "- If this is intentional: `holdfast apply a --server`, and"),
        (
            "refused",
            "apply",
            '- If this is intentional: `holdfast runs override R-a --reason "why" --server`',
        ),
    ],
)
def test_a_plan_on_a_server_is_decided_on_there(status: str, operation: str, step: str) -> None:
    decision = "approval" if status == "waiting" else "deny"
    stack = StackReport(name="a", status=status, decision=decision, digest="d" * 64, run="R-a")
    page = Page(UNLIMITED, 0)
    add_action_items(page, report(stack, operation=operation), 0)
    assert step in page.text()
