from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.terraform.plan.model import Plan, read_plan
from holdfast.terraform.plan.values import masked_value, sensitive_values

PLANS = Path(__file__).parents[1] / "plans"
ENGINES = ("terraform-1.11.4", "terraform-1.15.5", "tofu-1.12.6")


def plan_of(change: dict[str, Any], **more: Any) -> Plan:
    resource = {"address": "x.y", "mode": "managed", "change": {"actions": ["update"], **change}}
    return read_plan(json.dumps({"format_version": "1.2", "resource_changes": [resource], **more}).encode())


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


@pytest.mark.parametrize(
    ("value", "mask", "unknown", "masked"),
    [
        ({"a": 1, "p": "x"}, {"p": True}, {}, {"a": 1, "p": None}),
        ({"a": 1}, {}, {"id": True, "no": False}, {"a": 1, "id": "?"}),
        ({"l": [1, 2]}, {"l": [False, True, False]}, {"l": [False, False, True]}, {"l": [1, None, "?"]}),
        ({"l": [1, 2]}, {"l": [True]}, {}, {"l": [None, None]}),
        ({"p": "x"}, {"p": {"deep": True}}, {}, {"p": None}),
        ("x", True, False, None),
        (None, False, {"a": True}, {"a": "?"}),
    ],
)
def test_a_masked_value_has_null_for_each_sensitive_part(
    value: Any, mask: Any, unknown: Any, masked: Any
) -> None:
    """Also where the mask does not fit; unknown parts are marked."""
    assert masked_value(value, (False, mask), unknown, unknown_as="?") == masked
