from __future__ import annotations

import re
from typing import Any

import pytest
from plan_documents import LAB, change, plan

from holdfast.config.engine import MEANINGLESS
from holdfast.runs.auto_replan import ApplyOutcome, creates_in_doubt, extra_changes, may_replan
from holdfast.terraform.diagnostics import Diagnostic
from holdfast.terraform.tables.transient import RefusedCreate, shipped_refused

SLOW_DOWN = "Throttling: Rate exceeded"
NOT_READY = "the shelf is not ready"
ROWS = (RefusedCreate(provider="labs/lab", text=NOT_READY),)
PLAN = plan(
    [
        change("lab_object.made", "create"),
        change("lab_object.changed", "update"),
        change("lab_object.gone", "delete"),
    ]
)


def error(text: str, address: str | None = None) -> Diagnostic:
    return Diagnostic(severity="error", summary="It was refused", detail=text, address=address)


def failed(text: str, address: str, action: str, **more: Any) -> ApplyOutcome:
    return ApplyOutcome(errors=(error(text, address),), failed={address: action}, **more)


@pytest.mark.parametrize(
    ("end", "says"),
    [
        (failed(SLOW_DOWN, "lab_object.changed", "update"), ("aws-throttled",)),
        (failed(SLOW_DOWN, "lab_object.gone", "delete"), ("aws-throttled",)),
        (failed(NOT_READY, "lab_object.made", "create"), (f"labs/lab: {NOT_READY}",)),
        (failed(f"{NOT_READY}. {SLOW_DOWN}", "lab_object.made", "create"), ("aws-throttled",)),
        (ApplyOutcome(errors=(error(SLOW_DOWN),)), ("aws-throttled",)),
    ],
)
def test_a_clean_and_passing_failure_may_be_followed(end: ApplyOutcome, says: tuple[str, ...]) -> None:
    """Updates and deletes that failed for a moment, and creates that a row shows as refused."""
    assert may_replan(end, PLAN, ROWS) == says


@pytest.mark.parametrize(
    "end",
    [
        failed(SLOW_DOWN, "lab_object.made", "create"),
        failed("429 Too Many Requests", "lab_object.made", "create"),
        failed("it is Tuesday", "lab_object.changed", "update"),
        failed(NOT_READY, "lab_object.changed", "update"),
        failed(f"{NOT_READY}: Plugin did not respond", "lab_object.made", "create"),
        failed(f"{SLOW_DOWN}: Failed to save state", "lab_object.changed", "update"),
        failed(SLOW_DOWN, "lab_object.changed", "transmute"),
        failed(SLOW_DOWN, "lab_object.changed", "update", open=frozenset({"lab_object.gone"})),
        failed(SLOW_DOWN, "lab_object.changed", "update", steps_failed=True),
        ApplyOutcome(errors=(error(NOT_READY),), failed={"lab_object.made": "create"}),
        ApplyOutcome(errors=(error(SLOW_DOWN), error("it is Tuesday"))),
        ApplyOutcome(
            errors=(error(NOT_READY, "lab_object.made"), error(SLOW_DOWN, "lab_object.made")),
            failed={"lab_object.made": "create"},
        ),
        ApplyOutcome(errors=()),
        failed(f"{NOT_READY}. {SLOW_DOWN}", "lab_object.made", "transmute"),
        ApplyOutcome(errors=(error(SLOW_DOWN),), failed={"lab_object.made": "create"}),
        ApplyOutcome(errors=(error("it is Tuesday"), error(SLOW_DOWN))),
    ],
)
def test_anything_else_is_for_a_person(end: ApplyOutcome) -> None:
    """One doubt is enough: a create without proof, an error that no row knows, a change without an end."""
    assert may_replan(end, PLAN, ROWS) is None


def test_creates_that_may_exist_are_named() -> None:
    """Those that failed, but for those that a row of their own provider shows as refused."""
    end = ApplyOutcome(
        errors=(error(NOT_READY, "lab_object.made"), error(NOT_READY, "lab_object.other")),
        failed={"lab_object.made": "create", "lab_object.other": "create", "lab_object.gone": "delete"},
    )
    other = change("lab_object.other", "create", provider="example.com/labs/else")
    both = plan([change("lab_object.made", "create"), other])
    assert creates_in_doubt(end, both, ROWS) == ("lab_object.other",)
    assert creates_in_doubt(end, both, ()) == ("lab_object.made", "lab_object.other")


OLD = change("lab_object.it", "update", after={"body": "x"}, unknown={"tag": True})


@pytest.mark.parametrize(
    "new",
    [
        OLD,
        change("lab_object.it", "no-op", after={"body": "z"}),
        change("lab_object.it", "update", after={"body": "x", "tag": "known by now"}),
        change("lab_object.other", "no-op"),
    ],
)
def test_the_same_or_less_is_within(new: dict[str, Any]) -> None:
    """What was shown, what is done by now, and what was not known yet."""
    assert not extra_changes(plan([OLD]), plan([new]))


@pytest.mark.parametrize(
    "new",
    [
        change("lab_object.other", "update", after={"body": "x"}),
        change("lab_object.it", "create", after={"body": "x"}),
        change("lab_object.it", "delete", "create", after={"body": "x"}),
        change("lab_object.it", "update", after={"body": "y"}),
        change("lab_object.it", "update", after={"body": "x", "more": 1}),
        change("lab_object.it", "update", after={"body": "x", "more": None}),
        change("lab_object.it", "update", after={}, unknown={"body": True}),
        change("lab_object.it", "update", after={"body": "x"}, unknown={"other": True}),
        {**OLD, "deposed": "12345678"},
        {**OLD, "previous_address": "lab_object.before"},
        change("lab_object.it", "update", after={"body": "x"}, importing={"id": "7"}),
        change("lab_object.it", "update", after={"body": "x"}, provider="example.com/labs/else"),
    ],
)
def test_more_or_other_is_beyond(new: dict[str, Any]) -> None:
    """Another object, another way, another value: nobody was shown that."""
    assert extra_changes(plan([OLD]), plan([new])) == (new["address"],)


@pytest.mark.parametrize(
    ("shown", "now", "unknown"),
    [
        (1, True, False),
        (0, None, False),
        ([1], [1, 2], False),
        ([1, 2], [1], False),
        ([1, 2], [2, 1], False),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, False),
        ({}, {}, True),
        (None, None, {"a": True}),
        ([None], [None], [True]),
    ],
)
def test_a_value_is_the_one_that_was_shown(shown: object, now: object, *, unknown: object) -> None:
    """Of the same type, with the same parts, and as well known as it was."""
    old = change("lab_object.it", "update", after={"v": shown})
    new = change("lab_object.it", "update", after={"v": now}, unknown={"v": unknown})
    assert extra_changes(plan([old]), plan([new])) == ("lab_object.it",)
    assert not extra_changes(plan([old]), plan([old]))
    assert not extra_changes(
        plan([change("lab_object.it", "update", after={}, unknown={"v": True})]), plan([new])
    )


def test_a_plan_that_broke_off_is_never_within() -> None:
    """Nobody knows what else it would do."""
    assert extra_changes(plan([OLD]), plan([OLD], errored=True)) == ("the plan itself",)


def test_what_was_read_may_be_read_again() -> None:
    """To read does nothing."""
    read = {**change("lab_object.it", "read"), "mode": "data", "address": "data.lab_object.it"}
    assert not extra_changes(plan([read]), plan([read]), done=frozenset({"data.lab_object.it"}))


def test_what_is_done_is_not_done_again() -> None:
    """A change that was made and comes again (`-replace`, a provider that never settles) is one too many."""
    assert extra_changes(plan([OLD]), plan([OLD]), done=frozenset({"lab_object.it"})) == ("lab_object.it",)


def test_outputs_and_actions_count_too() -> None:
    """An output or a provider's action that was not in the plan before is more."""
    invocation = {"address": "action.lab_call.it", "type": "lab_call", "name": "it", "provider_name": LAB}
    acting = plan([OLD], action_invocations=[invocation])
    assert extra_changes(plan([OLD]), acting) == ("action.lab_call.it",)
    assert not extra_changes(acting, acting)
    was, is_ = (
        plan([], output_changes={"out": {"actions": ["create"], "after": value, "after_unknown": False}})
        for value in ("x", "y")
    )
    assert extra_changes(was, is_) == ("output.out",)
    assert extra_changes(plan([]), was) == ("output.out",)
    assert not extra_changes(was, was)


def test_an_action_is_the_same_only_for_the_same_reason() -> None:
    """Another trigger or another event is another call."""

    def calling(by: str, event: str) -> Any:
        trigger = {"triggering_resource_address": by, "action_trigger_event": event}
        invocation = {"address": "action.lab_call.it", "lifecycle_action_trigger": trigger}
        return plan([OLD], action_invocations=[invocation])

    shown = calling("lab_object.it", "after_create")
    assert not extra_changes(shown, shown)
    for other in (calling("lab_object.other", "after_create"), calling("lab_object.it", "before_update")):
        assert extra_changes(shown, other) == ("action.lab_call.it",)


@pytest.mark.parametrize(
    ("shown", "now"),
    [
        (("delete", None), ("update", None)),
        (("update", None), ("delete", None)),
        (("no-op", "x"), ("update", "x")),
        (("update", "x"), ("transmute", "x")),
    ],
)
def test_an_output_changes_only_as_it_was_shown(shown: tuple[str, object], now: tuple[str, object]) -> None:
    """One that was to go is not kept, one that was to stay neither goes nor changes."""
    was, is_ = (
        plan([], output_changes={"out": {"actions": [action], "before": "y", "after": value}})
        for action, value in (shown, now)
    )
    assert extra_changes(was, is_) == ("output.out",)


@pytest.mark.parametrize("text", ["429", "Too Many Requests", "HTTP status code: 429 Too Many Requests", ""])
def test_too_many_requests_alone_is_no_row(text: str) -> None:
    """A bare 429 proves nothing about a create, so no table may hold it."""
    assert re.fullmatch(MEANINGLESS, text)
    assert not any(row.text == text for row in shipped_refused())


def test_the_shipped_rows_are_for_real_providers() -> None:
    """Each names a provider with its namespace, so that it holds in every registry and for no other."""
    assert shipped_refused()
    for row in shipped_refused():
        assert row.provider.count("/") == 1
        assert row.matches(f"registry.terraform.io/{row.provider}", f"Error:\n {row.text.upper()}.")
        assert row.matches(f"registry.opentofu.org/{row.provider}", row.text)
        assert not row.matches(f"registry.terraform.io/other-{row.provider}", row.text)
