from __future__ import annotations

import json
from typing import Any

import pytest
from guard_made import situation

from holdfast.config.guard import Effect
from holdfast.guard.decision import Allow, Decision, Deny
from holdfast.guard.evaluate import evaluate_plan
from holdfast.guard.policy import ELSEWHERE
from holdfast.terraform.plan.model import Plan, read_plan


def plan(**parts: Any) -> Plan:
    return read_plan(json.dumps({"format_version": "1.2", "terraform_version": "1.15.5", **parts}).encode())


def decision_on(**parts: Any) -> Decision:
    return evaluate_plan(plan(**parts), ELSEWHERE, situation(production=False))


def resource(*actions: str, reason: str | None = None, mode: str = "managed") -> dict[str, Any]:
    return {
        "address": "a.b",
        "mode": mode,
        "type": "a",
        "name": "b",
        "provider_name": "p",
        "change": {"actions": list(actions), "before": None, "after": None},
        "action_reason": reason,
    }


@pytest.mark.parametrize(
    "actions",
    [
        ("no-op",),
        ("create",),
        ("read",),
        ("update",),
        ("delete",),
        ("delete", "create"),
        ("create", "delete"),
        ("forget",),
        ("create", "forget"),
    ],
)
def test_what_is_known_is_allowed(actions: tuple[str, ...]) -> None:
    """Outside production, no built-in rule denies a known action."""
    assert isinstance(decision_on(resource_changes=[resource(*actions)]), Allow)


@pytest.mark.parametrize(
    "change",
    [
        resource("transmute"),
        resource("create", "update"),
        resource(),
        resource("update", reason="the_moon"),
        resource("update", mode="dreamt"),
    ],
)
def test_what_is_not_known_is_denied_with_its_address(change: dict[str, Any]) -> None:
    """An unknown action, pair, reason or mode is denied, and the reason names where."""
    decision = decision_on(resource_changes=[resource("create"), change])
    assert isinstance(decision, Deny)
    denials = [reason for reason in decision.reasons if reason.effect is Effect.DENY]
    assert [(reason.code, reason.address) for reason in denials] == [("HF-GUARD-0", "a.b")]


def test_an_unknown_output_or_deferred_change_is_denied() -> None:
    """Not only resources: whatever is not understood denies the plan."""
    outputs = {"o": {"actions": ["transmute"], "before": None, "after": None}}
    assert isinstance(decision_on(output_changes=outputs), Deny)
    deferred = [{"reason": "later", "resource_change": resource("transmute")}]
    assert isinstance(decision_on(deferred_changes=deferred), Deny)
