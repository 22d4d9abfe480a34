"""What holds for a stack, its version, budgets over a change, and what an override leaves."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from guard_made import codes, plan, resource, situation

from holdfast.config.guard import (
    ANY,
    NONE,
    Budget,
    Effect,
    Freeze,
    GuardRules,
    GuardSettings,
    RequiredApprovals,
)
from holdfast.guard import evaluate
from holdfast.guard.decision import Allow, Deny, NeedApproval, Reason
from holdfast.guard.evaluate import (
    StackDeletions,
    decision_from_reasons,
    evaluate_change,
    evaluate_plan,
    policy_version,
    stack_deletions,
    with_override,
    with_reasons,
)
from holdfast.guard.policy import ELSEWHERE, IN_PRODUCTION, Policy, policy_for

DELETED = plan(resource("x.kept", "no-op"), resource("x.y", "delete"))


def policy(environment: str | None = "prod", *, production: bool = True, **rules: Any) -> Policy:
    own = rules.pop("own", {})
    settings = GuardSettings(rules=GuardRules(**rules), environments={"prod": GuardRules(**own)})
    return policy_for(settings, environment=environment, production=production)


def test_without_a_word_the_built_in_rules_hold() -> None:
    """Strict in production, and where nobody says what it is."""
    assert policy() == policy(None) == policy("else") == IN_PRODUCTION
    assert policy("dev", production=False) == ELSEWHERE
    assert IN_PRODUCTION.per_stack == NONE


def test_what_is_said_for_all_makes_production_only_stricter() -> None:
    """A budget meant for development never loosens production."""
    rules: dict[str, Any] = {
        "per_stack": Budget(number=9),
        "actions": Effect.ALLOW,
        "target": Effect.DENY,
        "approvals": RequiredApprovals(count=1),
        "max_changes": 5,
    }
    found = policy(**rules)
    assert (found.per_stack, found.actions, found.target) == (NONE, Effect.APPROVE, Effect.DENY)
    assert (found.approvals, found.max_changes) == (1, 5)
    other = policy("dev", production=False, **rules)
    assert (other.per_stack, other.actions) == (Budget(number=9), Effect.ALLOW)


def test_an_environment_can_be_named_and_loosened() -> None:
    """What is said of it replaces, and lists are added."""
    freeze = Freeze(start=0, end=1, every=None, zone="UTC", text="")
    found = policy(
        approvals=RequiredApprovals(count=2, verified=True),
        addresses=("a.b",),
        own={
            "per_stack": Budget(percent=5),
            "destroy": Effect.WARN,
            "approvals": RequiredApprovals(count=0),
            "addresses": ("c.d", "a.b"),
            "except_types": ("aws_eip",),
            "freeze": (freeze,),
        },
    )
    assert (found.per_stack, found.destroy, found.approvals) == (Budget(percent=5), Effect.WARN, 0)
    assert (found.addresses, found.except_types) == (("a.b", "c.d"), ("aws_eip",))
    assert found.freeze == (freeze,)
    assert found.stateful is Effect.DENY
    assert not found.verified


def test_the_version_of_a_policy_is_that_of_its_content() -> None:
    """Any rule changed is another version; the same rules are the same."""
    assert policy_version(policy()) == policy_version(policy())
    others = [
        policy("dev", production=False),
        policy(addresses=("a.b",)),
        policy(tags=(("a", ("b",)),)),
        policy(own={"per_stack": ANY}),
        policy(freeze=(Freeze(start=0, end=1, every=None, zone="UTC", text=""),)),
        policy(approvals=RequiredApprovals(count=1)),
        policy(approvals=RequiredApprovals(count=1, verified=True)),
    ]
    assert len({policy_version(one) for one in (policy(), *others)}) == len(others) + 1


def losses(stack: str, found: Policy, lost: int, prior: int = 10) -> StackDeletions:
    return StackDeletions(stack=stack, policy=found, deleted=lost, prior=prior)


def test_the_budget_of_a_change_is_for_all_its_stacks_together() -> None:
    """Those that lose something are held up, the others are not."""
    shared = msgspec.structs.replace(ELSEWHERE, per_change=Budget(number=3))
    within = evaluate_change([losses("a", shared, 1), losses("b", shared, 2), losses("c", shared, 0)])
    assert within == {}
    over = evaluate_change([losses("a", shared, 2), losses("b", shared, 2), losses("c", shared, 0)])
    assert set(over) == {"a", "b"}
    assert over["a"][0].code == "HF-GUARD-5"
    assert over["a"][0].message == (
        "4 resources in 2 stacks would be deleted, replaced or forgotten; the budget of a change is 3"
    )


def test_a_share_is_of_all_stacks_and_environments_have_their_own() -> None:
    """An environment with a budget of its own does not spend that of the others."""
    shared = msgspec.structs.replace(ELSEWHERE, per_change=Budget(percent=10))
    own = policy("prod", own={"per_change": Budget(number=0)})
    found = evaluate_change([losses("a", shared, 2), losses("b", shared, 0), losses("p", own, 1)])
    assert set(found) == {"p"}
    assert "1 resource in 1 stack of prod" in found["p"][0].message
    assert set(evaluate_change([losses("a", shared, 3), losses("b", shared, 0)])) == {"a"}


def test_what_a_stack_would_lose_is_counted_from_its_plan() -> None:
    """As the rules of one stack count it."""
    found = stack_deletions(DELETED, ELSEWHERE, situation(production=False))
    assert (found.stack, found.deleted, found.prior) == ("dev/db", 1, 2)


def test_further_reasons_never_make_it_milder() -> None:
    """A change's budget turns an allowed stack into a denied one."""
    allowed = evaluate_plan(DELETED, ELSEWHERE, situation(production=False))
    assert isinstance(allowed, Allow)
    reason = Reason(code="HF-GUARD-5", message="too much")
    denied = with_reasons(allowed, (reason,))
    assert isinstance(denied, Deny)
    assert codes(denied) == ["HF-GUARD-5", "HF-GUARD-1"]
    assert with_reasons(denied, ()) == denied


def test_further_reasons_keep_the_approvals_that_are_needed() -> None:
    """What an override would leave to be approved is not forgotten over the budget of a change."""
    waiting = evaluate_plan(
        DELETED, msgspec.structs.replace(ELSEWHERE, approvals=2), situation(production=False)
    )
    assert isinstance(waiting, NeedApproval)
    denied = with_reasons(waiting, (Reason(code="HF-GUARD-5", message="too much"),))
    assert isinstance(denied, Deny)
    assert denied.approvals == 2


def test_the_greatest_danger_is_said_first() -> None:
    """What is not understood before all else that denies; what denies before what waits or warns."""
    given = [
        Reason(code="HF-GUARD-0", message="", effect=Effect.WARN),
        Reason(code="HF-GUARD-14", message="", effect=Effect.APPROVE),
        *(Reason(code=f"HF-GUARD-{number}", message="") for number in (1, 10, 3, 7, 6, 0)),
    ]
    assert codes(decision_from_reasons(given)) == [
        *(f"HF-GUARD-{number}" for number in (0, 6, 7, 3, 10, 1)),
        "HF-GUARD-14",
        "HF-GUARD-0",
    ]


def test_an_override_lifts_what_was_denied_and_keeps_approvals() -> None:
    """One person overrides; who must approve still must."""
    strict = msgspec.structs.replace(IN_PRODUCTION, approvals=2)
    left = with_override(evaluate_plan(DELETED, strict, situation()))
    assert isinstance(left, NeedApproval)
    assert left.approvals == 2
    assert codes(left) == ["HF-GUARD-14", "HF-GUARD-1"]
    assert isinstance(with_override(evaluate_plan(DELETED, IN_PRODUCTION, situation())), Allow)


@pytest.mark.parametrize("actions", [("transmute",), ("delete", "transmute")])
def test_what_is_not_understood_is_never_overridden(actions: tuple[str, ...]) -> None:
    """Nobody can answer for what nobody can read."""
    decision = evaluate_plan(plan(resource("x.y", *actions)), IN_PRODUCTION, situation())
    assert isinstance(with_override(decision), Deny)


def test_only_an_environment_by_its_name_can_leave_a_type_unprotected() -> None:
    """What is said for all of them would reach production too."""
    mild = GuardRules(except_types=("aws_db_instance",))
    assert policy_for(GuardSettings(rules=mild), environment="prod", production=True).except_types == ()
    named = GuardSettings(environments={"prod": mild})
    assert policy_for(named, environment="prod", production=True).except_types == ("aws_db_instance",)


@pytest.mark.parametrize(
    ("name", "other"), [("RULES_VERSION", evaluate.RULES_VERSION + 1), ("table_bytes", lambda: b"other")]
)
def test_other_built_in_rules_are_another_version(
    monkeypatch: pytest.MonkeyPatch, name: str, other: object
) -> None:
    """A plan that an older Holdfast judged, or that knew other protected types, is judged again."""
    before = policy_version(IN_PRODUCTION)
    monkeypatch.setattr(evaluate, name, other)
    assert policy_version(IN_PRODUCTION) != before
