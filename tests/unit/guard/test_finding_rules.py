"""What the checks found, as the guard takes it."""

from __future__ import annotations

import msgspec
import pytest
from guard_made import codes, plan, resource, situation

from holdfast.config.guard import Effect, GuardRules, GuardSettings
from holdfast.guard.decision import NAMES
from holdfast.guard.evaluate import evaluate_plan, with_override
from holdfast.guard.plan_context import StackFinding
from holdfast.guard.policy import ELSEWHERE, IN_PRODUCTION, policy_for

DENIED = StackFinding(rule="rego.main.deny", message="not here", address="x.y", policy=True)
UNASKED = StackFinding(rule="HF908", message="rego: nobody can evaluate it", policy=True)
LEAKED = StackFinding(rule="HF207", message="a secret", where="main.tf:4")
CHANGES = plan(resource("x.y", "create"))


@pytest.mark.parametrize("policy", [IN_PRODUCTION, ELSEWHERE], ids=["production", "elsewhere"])
@pytest.mark.parametrize("found", [DENIED, UNASKED], ids=["denied", "unasked"])
def test_what_a_policy_denies_is_refused_everywhere(policy: object, found: StackFinding) -> None:
    """So is a plan about which the policies gave no answer."""
    rules = IN_PRODUCTION if policy is IN_PRODUCTION else ELSEWHERE
    decision = evaluate_plan(CHANGES, rules, situation(findings=(found, LEAKED)))
    assert NAMES[type(decision)] == "deny"
    assert codes(decision) == ["HF-GUARD-18"]
    assert decision.reasons[0].address == found.address
    assert NAMES[type(with_override(decision))] == "allow"


@pytest.mark.parametrize(
    ("effect", "decision"),
    [(Effect.ALLOW, "allow"), (Effect.WARN, "allow"), (Effect.APPROVE, "approval"), (Effect.DENY, "deny")],
)
def test_errors_hold_up_a_stack_only_where_that_is_said(effect: Effect, decision: str) -> None:
    """They are shown in any case, so a warning of the guard would only say it twice."""
    policy = msgspec.structs.replace(IN_PRODUCTION, findings=effect)
    made = evaluate_plan(CHANGES, policy, situation(findings=(LEAKED,)))
    assert NAMES[type(made)] == decision
    assert codes(made) == (["HF-GUARD-19"] if decision != "allow" else [])
    if made.reasons:
        assert (made.reasons[0].message, made.reasons[0].rule) == ("main.tf:4: a secret", "check HF207")


def test_a_policy_about_code_says_where() -> None:
    """The same is often said of a file and of the plan: one reason for each, and each tells which it is."""
    in_file = StackFinding(rule="rego.main.deny", message="not here", where="a/main.tf:3", policy=True)
    made = evaluate_plan(CHANGES, IN_PRODUCTION, situation(findings=(in_file, DENIED)))
    assert [one.message for one in made.reasons] == ["a/main.tf:3: not here", "not here"]


def test_what_a_policy_says_is_no_finding_of_the_checks() -> None:
    """Each is one reason, with the effect that the guard has for its kind."""
    policy = msgspec.structs.replace(IN_PRODUCTION, findings=Effect.APPROVE)
    made = evaluate_plan(CHANGES, policy, situation(findings=(DENIED, LEAKED)))
    assert [(one.code, one.effect) for one in made.reasons] == [
        ("HF-GUARD-18", Effect.DENY),
        ("HF-GUARD-19", Effect.APPROVE),
    ]


def test_a_plan_without_changes_is_not_held_up() -> None:
    """There is nothing to apply."""
    policy = msgspec.structs.replace(IN_PRODUCTION, findings=Effect.DENY)
    unchanged = plan(resource("x.y", "no-op"))
    assert codes(evaluate_plan(unchanged, policy, situation(findings=(DENIED, LEAKED)))) == []


def test_production_can_be_made_milder_only_by_its_name() -> None:
    """What is said for all environments cannot let a denied plan into production."""
    mild = GuardRules(policies=Effect.WARN)
    settings = GuardSettings(rules=mild)
    assert policy_for(settings, environment="prod", production=True).policies is Effect.DENY
    assert policy_for(settings, environment="dev", production=False).policies is Effect.WARN
    named = GuardSettings(environments={"prod": mild})
    assert policy_for(named, environment="prod", production=True).policies is Effect.WARN
