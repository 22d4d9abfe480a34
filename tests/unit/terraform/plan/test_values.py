from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.secrets.redact import Redactor
from holdfast.terraform.plan.model import Plan, read_plan
from holdfast.terraform.plan.values import Difference, Differences, differences, sensitive_values

PLANS = Path(__file__).parents[1] / "plans"
ENGINES = ("terraform-1.11.4", "terraform-1.15.5", "tofu-1.12.6")


def plan_of(change: dict[str, Any], **more: Any) -> Plan:
    resource = {"address": "x.y", "mode": "managed", "change": {"actions": ["update"], **change}}
    return read_plan(json.dumps({"format_version": "1.2", "resource_changes": [resource], **more}).encode())


def shown(change: dict[str, Any], **limits: int) -> Differences:
    return differences(plan_of(change).changes[0], clean=str, **limits)


def pairs(change: dict[str, Any]) -> dict[str, tuple[str | None, str | None]]:
    return {found.path: (found.before, found.after) for found in shown(change).shown}


@pytest.mark.parametrize("engine", ENGINES)
def test_recorded_differences_are_shown_and_secrets_are_not(engine: str) -> None:
    """A real update shows what changes, with the password masked, even where Terraform forgot the mark."""
    plan = read_plan((PLANS / f"{engine}-changes.json").read_bytes())
    redactor = Redactor(sensitive_values(plan))
    (updated,) = [change for change in plan.changes if change.name == "updated"]
    found = {each.path: each for each in differences(updated, clean=redactor.clean).shown}
    assert (found["input.a"].before, found["input.a"].after) == ("1", "2")
    assert (found["input.b[1]"].before, found["input.b[1]"].after) == ("y", "z")
    assert (found["input.b[2]"].before, found["input.b[2]"].after) == (None, "w")
    assert found["input.password"] == Difference(
        path="input.password",
        before="(sensitive)",
        after="(sensitive)",
        sensitive=True,
        forces_replacement=False,
    )
    assert found["output"].after == "(known after apply)"
    assert "secret-value" not in repr(found)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_forces_a_replacement_comes_first(engine: str) -> None:
    """The reader of a replacement sees its cause before anything else."""
    plan = read_plan((PLANS / f"{engine}-changes.json").read_bytes())
    (replaced,) = [change for change in plan.changes if change.name == "replaced"]
    first, *rest = differences(replaced, clean=str).shown
    assert (first.path, first.before, first.after, first.forces_replacement) == (
        "triggers_replace",
        "one",
        "two",
        True,
    )
    assert not any(each.forces_replacement for each in rest)


def test_equal_parts_are_left_out() -> None:
    """Only what differs is shown."""
    assert pairs({"before": {"a": 1, "b": [1, 2]}, "after": {"a": 1, "b": [1, 3]}}) == {"b[1]": ("2", "3")}


def test_unknown_values_are_shown_as_known_after_apply() -> None:
    """An unknown value is not shown as a removal."""
    change = {
        "before": {"id": "a", "l": [1]},
        "after": {"l": [1]},
        "after_unknown": {"id": True, "l": [False, True]},
    }
    assert pairs(change) == {"id": ("a", "(known after apply)"), "l[1]": (None, "(known after apply)")}


@pytest.mark.parametrize(
    ("before_mask", "after_mask"),
    [
        (True, False),
        (False, True),
        ({"p": True}, {}),
        ({}, {"p": True}),
        ({"p": {"deep": [True]}}, {}),
        ({}, {"p": [False, True]}),
        ({}, [True]),
        ([False, {"x": True}], {}),
    ],
)
def test_a_mask_on_either_side_hides_both(before_mask: Any, after_mask: Any) -> None:
    """A value that was or becomes sensitive is shown on neither side, whatever shape the mask has."""
    change = {
        "before": {"p": {"deep": ["hunter2"]}},
        "after": {"p": ["hunter3", "hunter4"]},
        "before_sensitive": before_mask,
        "after_sensitive": after_mask,
    }
    found = shown(change)
    assert found.shown
    assert "hunter" not in repr(found)
    assert all(each.sensitive for each in found.shown)


def test_a_list_that_outgrows_its_mask_is_hidden() -> None:
    """Where a mask has no place for an element, the element counts as secret."""
    change = {"before": {"l": []}, "after": {"l": ["hunter1", "hunter2"]}, "after_sensitive": {"l": [True]}}
    assert "hunter" not in repr(shown(change))


def test_long_values_are_cut_after_cleaning() -> None:
    """Half a secret at the end of a cut text is still a secret."""
    change = {"before": {"a": None}, "after": {"a": "x" * 70 + "hunter2-very-secret"}}
    (change_,) = plan_of(change).changes
    (found,) = differences(change_, clean=Redactor(["hunter2-very-secret"]).clean).shown
    assert found.after == "x" * 70 + "***"
    (cut,) = shown({"before": {"a": None}, "after": {"a": "y" * 1000}}, width=10).shown
    assert cut.after == "yyyyyyyyy…"


def test_the_number_of_differences_is_bounded() -> None:
    """A thousand changed attributes do not fill the screen, and their number is shown."""
    change = {"before": None, "after": {f"a{number}": number for number in range(1000)}}
    found = shown(change, at_most=5)
    assert len(found.shown) == 5
    assert found.hidden == 995


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain text", "plain text"),
        ("", '""'),
        ("5", '"5"'),
        (5, "5"),
        (1.10, "1.1"),
        (12345678901234567890123, "12345678901234567890123"),
        ("true", '"true"'),
        (True, "true"),
        (" padded", '" padded"'),
        ("two\nlines", '"two\\nlines"'),
        ("\x1b[31mred", '"\\u001b[31mred"'),
        ("(known after apply)", '"(known after apply)"'),
        ("a\u202eb", '"a\\u202eb"'),
        ({}, "{}"),
        ([], "[]"),
    ],
)
def test_values_are_written_so_that_they_cannot_mislead(value: Any, text: str) -> None:
    """Text that looks like something else is quoted; control characters never reach a terminal."""
    (found,) = shown({"before": {"a": None}, "after": {"a": value}}).shown
    assert found.after == text


@pytest.mark.parametrize("engine", ENGINES)
def test_recorded_secrets_are_all_found(engine: str) -> None:
    """The redactor learns every value that the plan itself calls sensitive, and nothing else."""
    created = read_plan((PLANS / f"{engine}-create.json").read_bytes())
    assert sensitive_values(created) == {"hunter2-very-secret"}
    changed = read_plan((PLANS / f"{engine}-changes.json").read_bytes())
    assert sensitive_values(changed) == {"first-secret-value", "second-secret-value"}


def test_secrets_are_found_wherever_a_plan_keeps_them() -> None:
    """Drift, state, outputs, variables, defaults, module calls, actions: each may be the only place."""
    masked = {
        "actions": ["no-op"],
        "before": {"a": ["in-drift", "no"]},
        "before_sensitive": {"a": [True, False]},
    }
    plan = plan_of(
        {"before": None, "after": {"n": 12345678, "t": True, "s": "in-change"}, "after_sensitive": True},
        resource_drift=[{"address": "d", "change": masked}],
        output_changes={"o": {"actions": ["create"], "after": {"k": "in-output"}, "after_sensitive": True}},
        variables={"v": {"value": "in-variable"}, "w": {"value": "open"}},
        prior_state={
            "values": {
                "outputs": {"p": {"sensitive": True, "value": "in-prior-output"}},
                "root_module": {
                    "child_modules": [
                        {
                            "resources": [
                                {"mode": "data", "values": {"s": "in-data"}, "sensitive_values": {"s": True}}
                            ]
                        }
                    ]
                },
            }
        },
        action_invocations=[
            {"address": "action.a.b", "config_values": {"t": "in-action"}, "config_sensitive": {"t": True}}
        ],
        configuration={
            "root_module": {
                "variables": {
                    "v": {"sensitive": True, "default": "in-default"},
                    "w": {"default": "open-too"},
                },
                "module_calls": {
                    "m": {
                        "expressions": {
                            "k": {"constant_value": "in-call"},
                            "r": {"references": ["var.v"]},
                            "open": {"constant_value": "no"},
                        },
                        "module": {
                            "variables": {"k": {"sensitive": True}, "r": {"sensitive": True}, "open": {}}
                        },
                    }
                },
            }
        },
    )
    assert sensitive_values(plan) == {
        "12345678",
        "in-change",
        "in-drift",
        "in-output",
        "in-variable",
        "in-prior-output",
        "in-data",
        "in-action",
        "in-default",
        "in-call",
    }
