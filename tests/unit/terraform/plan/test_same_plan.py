from __future__ import annotations

import copy
from typing import Any

import pytest
from plan_documents import change, plan

from holdfast.terraform.plan.same_plan import Mocks, plan_differences

ACTION = {"address": "action.lab_call.a", "type": "lab_call", "name": "a", "config_values": {"to": "x"}}


def document() -> dict[str, Any]:
    moved = change("lab_object.a", "delete", "create", after={"name": "a"}, previous_address="lab_object.old")
    moved["change"] |= {"replace_paths": [["name"]], "before": {"name": "b"}}
    imported = change("lab_object.b", "no-op", after={"name": "b"}, importing={"id": "vpc-mock"})
    outputs = {"url": {"actions": ["update"], "before": "x", "after": None, "after_unknown": True}}
    return {
        "resource_changes": [moved, imported],
        "output_changes": outputs,
        "action_invocations": [dict(ACTION)],
    }


def differences(new: dict[str, Any], mocks: Mocks | None = None) -> tuple[str, ...]:
    shown, now = document(), copy.deepcopy(new)
    plans = [plan(one.pop("resource_changes"), **one) for one in (shown, now)]
    return plan_differences(plans[0], plans[1], mocks or Mocks())


def test_the_same_plan_has_no_differences() -> None:
    """An unknown output may get any value, also the one it has."""
    new = document()
    assert differences(new) == ()
    for actions, value in ((["update"], "y"), (["no-op"], "x")):
        new["output_changes"]["url"] = {"actions": actions, "before": "x", "after": value}
        assert differences(new) == ()


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("resource_changes", 0, "provider_name"), "other/lab", "with another provider"),
        (("resource_changes", 0, "previous_address"), None, "another previous address (none)"),
        (("resource_changes", 0, "change", "replace_paths"), [["body"]], "another reason to replace it"),
        (("resource_changes", 0, "change", "before"), {"name": "c"}, "another current value of name"),
        (("resource_changes", 0, "change", "after"), {"name": "c"}, "another value of name"),
        (
            ("resource_changes", 0, "change", "actions"),
            ["delete"],
            "would delete lab_object.a, not replace it",
        ),
        (("resource_changes", 1, "change", "importing"), {"id": "vpc-2"}, "another import (vpc-2)"),
        (("resource_changes", 1, "change", "importing"), None, "no longer import lab_object.b"),
        (("output_changes", "url", "actions"), ["delete"], "output url"),
        (("output_changes", "more"), {"actions": ["create"], "after": 1}, "output more"),
        (("output_changes",), {}, "output url"),
        (("action_invocations",), [ACTION, ACTION], "also invoke action.lab_call.a"),
        (("action_invocations",), [], "no longer invoke action.lab_call.a"),
        (("action_invocations", 0, "config_values"), {"to": "y"}, "another value of to"),
        (
            ("deferred_changes",),
            [{"resource_change": change("lab_object.c", "create"), "reason": "x"}],
            "postpone",
        ),
        (("errored",), True, "could not complete"),
    ],
)
def test_every_part_of_a_plan_counts(path: tuple[str | int, ...], value: Any, says: str) -> None:
    new: Any = document()
    part = new
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    found = differences(new)
    assert len(found) == 1, found
    assert says in found[0]


def test_what_is_lost_is_named_first() -> None:
    new = document()
    new["resource_changes"] += [
        change("lab_object.c", "create"),
        change("lab_object.d", "delete", deposed="k"),
    ]
    assert differences(new) == (
        "it would also delete lab_object.d (deposed k)",
        "it would also create lab_object.c",
    )


@pytest.mark.parametrize(
    ("mock", "shown", "new", "same"),
    [
        ("vpc-mock", "vpc-mock", "vpc-1", True),
        ("vpc-mock", "vpc-mock", None, True),
        ("vpc-mock", "a/vpc-mock/b/vpc-mock", "a/1/b/2", True),
        ("vpc-mock", "a/vpc-mock/b", "a/1/c", False),
        ("abc", "x-abc", "x-1", False),
        ("abc", "abc", "1", True),
        (0, 0, 7, True),
        (0, False, True, False),
        (True, True, False, False),
        ("", "", "x", False),
        (["s-0"], ["s-0"], ["s-1", "s-2"], True),
        ([], [], ["s-1"], False),
        ({"id": "vpc-mock"}, ["vpc-mock", 1], ["vpc-1", 1], True),
        ({"id": "vpc-mock"}, ["vpc-mock", 1], ["vpc-1", 2], False),
    ],
)
def test_a_mock_counts_where_it_can_be_recognised(mock: Any, shown: Any, new: Any, *, same: bool) -> None:
    """A short text only as a whole; true, false, null and empty values not at all."""
    before, after = (plan([change("lab_object.a", "create", after={"x": value})]) for value in (shown, new))
    assert (plan_differences(before, after, Mocks([mock])) == ()) is same


def test_the_id_of_an_import_may_be_a_mock() -> None:
    new = document()
    new["resource_changes"][1]["change"]["importing"] = {"id": "vpc-2"}
    assert differences(new, Mocks(["vpc-mock"])) == ()
