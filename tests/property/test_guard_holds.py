"""Whatever the plan and the policy: what is protected stays, and more danger is never allowed more."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from guard_made import ALL_LOSING, RANK, plan, provisioned, resource, situation
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from holdfast.config.guard import (
    ANY,
    Budget,
    Effect,
    Freeze,
    GuardRules,
    GuardSettings,
    RequiredApprovals,
    strictest,
)
from holdfast.guard.decision import Allow, Decision, Deny, NeedApproval, Reason
from holdfast.guard.evaluate import (
    StackDeletions,
    decision_from_reasons,
    evaluate_change,
    evaluate_plan,
    policy_version,
    with_override,
)
from holdfast.guard.plan_context import PlanContext
from holdfast.guard.policy import Policy, policy_for
from holdfast.kernel.errors import EngineError
from holdfast.terraform.plan.model import KNOWN_FORMATS, read_plan

SECRET = "hunter2-very-secret"
ADDRESSES = ("x.y", "x.y[0]", 'x.z["a"]', "module.m.x.y", "module.m[1].aws_db_instance.d", "lab_object.o")
PATTERNS = ("x.y", "x.z", "module.m", "module.m[1]", "lab_object.o", "x.none")
KNOWN = (("no-op",), ("create",), ("read",), ("update",), *ALL_LOSING)
UNKNOWN = (("transmute",), ("delete", "transmute"), ("create", "update"), ())
BEFORE = st.sampled_from(
    (
        {"id": SECRET},
        {"tags": {"keep": "yes", "secret": SECRET}},
        {"labels": {"KEEP": SECRET}},
        {"tags": SECRET},
        {"tags": [SECRET]},
        None,
    )
)


@st.composite
def changes(draw: st.DrawFn, actions: tuple[tuple[str, ...], ...] = KNOWN) -> dict[str, Any]:
    found = resource(draw(st.sampled_from(ADDRESSES)), *draw(st.sampled_from(actions)), before=draw(BEFORE))
    if draw(st.booleans()):
        found["previous_address"] = draw(st.sampled_from(ADDRESSES))
    if draw(st.booleans()):
        found["deposed"] = "abcd1234"
    if draw(st.booleans()):
        found["change"]["importing"] = {"id": "an id"}
    return found


EFFECTS = st.sampled_from(tuple(Effect))
BUDGETS = (
    st.builds(Budget, number=st.integers(0, 4))
    | st.builds(Budget, percent=st.integers(0, 100))
    | st.just(ANY)
)
FREEZES = st.builds(
    Freeze,
    start=st.integers(0, 10079),
    end=st.integers(10080, 20159),
    every=st.sampled_from((10080, None)),
    zone=st.sampled_from(("UTC", "Europe/Berlin", "Nowhere/Land")),
    text=st.just("then"),
    effect=st.sampled_from((Effect.APPROVE, Effect.DENY)),
)
TAGS = st.tuples(st.sampled_from(("keep", "tier")), st.sampled_from(((), ("*",), ("yes",), ("no",))))
POLICIES = st.builds(
    Policy,
    per_stack=BUDGETS,
    stateful=EFFECTS,
    addresses=st.lists(st.sampled_from(PATTERNS), max_size=2).map(tuple),
    types=st.lists(st.sampled_from(("lab_*", "x")), max_size=1).map(tuple),
    except_types=st.lists(st.sampled_from(("aws_db_instance", "lab_object")), max_size=1).map(tuple),
    tags=st.lists(TAGS, max_size=2).map(tuple),
    removed_outputs=EFFECTS,
    actions=EFFECTS,
    provisioners=EFFECTS,
    destroy=EFFECTS,
    target=EFFECTS,
    max_changes=st.none() | st.integers(0, 4),
    approvals=st.integers(0, 2),
    freeze=st.lists(FREEZES, max_size=1).map(tuple),
)
SITUATIONS = st.builds(
    situation,
    production=st.booleans(),
    destroy=st.booleans(),
    targeted=st.booleans(),
    read_outputs=st.sampled_from((frozenset[str](), frozenset({"o"}))),
)
MORE = st.fixed_dictionaries(
    {},
    optional={
        "output_changes": st.just({"o": {"actions": ["delete"]}}),
        "action_invocations": st.just([{"address": "action.x.y"}]),
        "configuration": st.just(provisioned("x.y", "lab_object.o")),
        "complete": st.booleans(),
    },
)
LISTS = st.lists(changes(), max_size=4)


def rank(decision: Decision) -> tuple[int, int]:
    return RANK[type(decision)], 0 if isinstance(decision, Allow) else decision.approvals


def covered(address: str | None, pattern: str) -> bool:
    return address is not None and (address == pattern or address.startswith((f"{pattern}.", f"{pattern}[")))


@settings(max_examples=120)
@given(
    st.lists(changes(actions=ALL_LOSING), min_size=1, max_size=3),
    POLICIES,
    st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2),
    SITUATIONS,
    MORE,
)
def test_no_allowed_plan_loses_a_protected_address(
    found: list[dict[str, Any]], policy: Policy, patterns: list[str], case: PlanContext, more: dict[str, Any]
) -> None:
    """Neither by delete, nor by replace in any order, nor by forget, whatever the budget."""
    protecting = msgspec.structs.replace(policy, addresses=tuple(patterns))
    decision = evaluate_plan(plan(*found, prior=5, **more), protecting, case)
    for change in found:
        names = (change["address"], change.get("previous_address"))
        if any(covered(name, one) for name in names for one in patterns):
            assert isinstance(decision, Deny)
            assert change["address"] in {one.address for one in decision.reasons if one.code == "HF-GUARD-6"}


@settings(max_examples=120)
@given(LISTS, changes(actions=(*KNOWN, *UNKNOWN)), POLICIES, SITUATIONS, MORE, st.data())
def test_one_change_more_never_loosens(
    found: list[dict[str, Any]],
    added: dict[str, Any],
    policy: Policy,
    case: PlanContext,
    more: dict[str, Any],
    data: st.DataObject,
) -> None:
    """With the same state before: a plan that does more is as denied, or more."""
    prior = data.draw(st.integers(0, 6))
    where = data.draw(st.integers(0, len(found)))
    less = evaluate_plan(plan(*found, prior=prior, **more), policy, case)
    greater = evaluate_plan(plan(*found[:where], added, *found[where:], prior=prior, **more), policy, case)
    assert rank(greater) >= rank(less)


TIGHTER: tuple[Any, ...] = (
    st.tuples(st.just("addresses"), st.sampled_from(PATTERNS)),
    st.tuples(st.just("types"), st.sampled_from(("x", "lab_object", "aws_*"))),
    st.tuples(st.just("tags"), TAGS),
    st.tuples(st.just("freeze"), FREEZES),
)


@settings(max_examples=120)
@given(LISTS, POLICIES, SITUATIONS, MORE, st.one_of(TIGHTER))
def test_one_protection_more_never_loosens(
    found: list[dict[str, Any]],
    policy: Policy,
    case: PlanContext,
    more: dict[str, Any],
    added: tuple[str, Any],
) -> None:
    """An address, a type, a tag or a freeze more."""
    name, one = added
    less = evaluate_plan(plan(*found, prior=5, **more), policy, case)
    tighter = msgspec.structs.replace(policy, **{name: (*getattr(policy, name), one)})
    assert rank(evaluate_plan(plan(*found, prior=5, **more), tighter, case)) >= rank(less)
    assert policy_version(tighter) != policy_version(policy)


@settings(max_examples=120)
@given(LISTS, POLICIES, POLICIES, SITUATIONS, MORE)
def test_stricter_rules_never_loosen(
    found: list[dict[str, Any]], policy: Policy, other: Policy, case: PlanContext, more: dict[str, Any]
) -> None:
    """Of two policies the stricter half of every rule is as strict as either."""
    effects = ("stateful", "removed_outputs", "actions", "provisioners", "destroy", "target")
    most = [one for one in (policy.max_changes, other.max_changes) if one is not None]
    prior = max(0, 5 - sum("importing" in one["change"] for one in found))
    numbers = [one.per_stack.allows(prior) for one in (policy, other)]
    both = msgspec.structs.replace(
        policy,
        per_stack=Budget(number=min((one for one in numbers if one is not None), default=None)),
        except_types=tuple({*policy.except_types} & {*other.except_types}),
        max_changes=min(most, default=None),
        approvals=max(policy.approvals, other.approvals),
        **{name: strictest(getattr(policy, name), getattr(other, name)) for name in effects},
        **{
            name: (*getattr(policy, name), *getattr(other, name))
            for name in ("addresses", "types", "tags", "freeze")
        },
    )
    made = plan(*found, prior=5, **more)
    assert rank(evaluate_plan(made, both, case)) >= max(
        rank(evaluate_plan(made, policy, case))[:1], rank(evaluate_plan(made, other, case))[:1]
    )


@given(LISTS, changes(actions=UNKNOWN), POLICIES, SITUATIONS, MORE)
def test_what_is_unknown_is_never_allowed_nor_overridden(
    found: list[dict[str, Any]],
    unknown: dict[str, Any],
    policy: Policy,
    case: PlanContext,
    more: dict[str, Any],
) -> None:
    """Nothing in a policy helps, and neither does a person."""
    decision = evaluate_plan(plan(*found, unknown, **more), policy, case)
    assert isinstance(decision, Deny)
    assert isinstance(with_override(decision), Deny)


@given(st.text(max_size=40), st.sampled_from(KNOWN), POLICIES, SITUATIONS)
def test_an_unknown_reason_or_mode_is_never_allowed(
    text: str, actions: tuple[str, ...], policy: Policy, case: PlanContext
) -> None:
    """Any text that this version does not know."""
    for change in (
        resource("x.y", *actions, action_reason=f"{text}?"),
        resource("x.y", *actions, mode=f"{text}?"),
    ):
        assert isinstance(evaluate_plan(plan(change), policy, case), Deny)


@given(st.text(max_size=10) | st.from_regex(r"[0-9]\.[0-9]{1,2}", fullmatch=True))
def test_an_unknown_format_is_not_even_read(version: str) -> None:
    """There is no plan to evaluate_plan."""
    if version in KNOWN_FORMATS:
        return
    with pytest.raises(EngineError):
        read_plan(json.dumps({"format_version": version, "resource_changes": []}).encode())


REASONS = st.lists(
    st.builds(
        Reason,
        code=st.sampled_from([f"HF-GUARD-{number}" for number in range(17)]),
        message=st.just("m"),
        effect=EFFECTS,
    ),
    max_size=6,
)


@given(REASONS, REASONS, st.integers(0, 3))
def test_one_rule_more_never_loosens(some: list[Reason], more: list[Reason], approvals: int) -> None:
    """Whatever further rules find; and an override only ever lifts."""
    less, greater = (
        decision_from_reasons(some, approvals=approvals),
        decision_from_reasons([*some, *more], approvals=approvals),
    )
    assert rank(greater) >= rank(less)
    assert RANK[type(with_override(greater))] <= RANK[type(greater)]
    left = with_override(greater)
    if isinstance(left, Allow | NeedApproval):
        assert all(one.effect is not Effect.DENY for one in left.reasons)


RULES = st.builds(
    GuardRules,
    per_stack=st.none() | BUDGETS,
    removed_outputs=st.none() | EFFECTS,
    actions=st.none() | EFFECTS,
    provisioners=st.none() | EFFECTS,
    destroy=st.none() | EFFECTS,
    target=st.none() | EFFECTS,
    approvals=st.none() | st.builds(RequiredApprovals, count=st.integers(0, 2), verified=st.booleans()),
)


@given(LISTS, RULES, SITUATIONS, MORE)
def test_production_is_never_milder(
    found: list[dict[str, Any]], rules: GuardRules, case: PlanContext, more: dict[str, Any]
) -> None:
    """With rules that name no environment: what is denied elsewhere is denied in production."""
    made, said = plan(*found, prior=5, **more), GuardSettings(rules=rules)

    def judged(*, production: bool) -> int:
        policy = policy_for(said, environment=None, production=production)
        return RANK[type(evaluate_plan(made, policy, structs.replace(case, production=production)))]

    assert judged(production=True) >= judged(production=False)


@given(LISTS, POLICIES, SITUATIONS)
def test_no_value_of_a_resource_is_shown(
    found: list[dict[str, Any]], policy: Policy, case: PlanContext
) -> None:
    """Reasons name addresses and rules; what an object holds may be secret."""
    assert SECRET not in repr(evaluate_plan(plan(*found), policy, case))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20)), max_size=5), BUDGETS, st.integers(1, 3))
def test_losing_more_never_loosens_the_budget_of_a_change(
    stacks: list[tuple[int, int]], budget: Budget, more: int
) -> None:
    """In any one of its stacks; and a stack that loses nothing is never held up."""
    policy = Policy(per_change=budget)

    def judged(extra: int) -> set[str]:
        given = [
            StackDeletions(
                stack=str(number), policy=policy, deleted=lost + (extra if number == 0 else 0), prior=prior
            )
            for number, (lost, prior) in enumerate(stacks)
        ]
        assert not set(evaluate_change(given)) & {one.stack for one in given if not one.deleted}
        return set(evaluate_change(given))

    assert judged(0) <= judged(more)


MISSING = st.lists(st.sampled_from(ADDRESSES), min_size=1, max_size=4, unique=True)


@settings(max_examples=120)
@given(LISTS, MISSING, POLICIES, SITUATIONS, MORE)
def test_a_missing_resource_is_never_dropped_in_production_without_an_override(
    found: list[dict[str, Any]], missing: list[str], policy: Policy, case: PlanContext, more: dict[str, Any]
) -> None:
    """No setting allows it: neither a budget, nor an effect, nor what else is in the plan. A destroy may."""
    drift = [resource(address, "delete") for address in missing]
    case = structs.replace(case, production=True, destroy=False)
    strict = structs.replace(
        policy, missing=policy_for(GuardSettings(), environment="prod", production=True).missing
    )
    document = plan(*found, prior=3, resource_drift=drift, applyable=True, **more)
    assert isinstance(evaluate_plan(document, strict, case), Deny)


@settings(max_examples=120)
@given(LISTS, MISSING, POLICIES, SITUATIONS, MORE)
def test_a_stack_without_any_of_its_resources_is_refused_everywhere(
    found: list[dict[str, Any]], missing: list[str], policy: Policy, case: PlanContext, more: dict[str, Any]
) -> None:
    """Two or more missing and none left: refused whatever the policy, unless it is destroyed."""
    drift = [resource(address, "delete") for address in missing]
    document = plan(*found, prior=0, resource_drift=drift, applyable=True, **more)
    decision = evaluate_plan(document, policy, case)
    stopped = any(reason.code == "HF-GUARD-21" for reason in decision.reasons)
    assert stopped == (len(missing) > 1 and not case.destroy)
    assert not stopped or isinstance(decision, Deny)


@settings(max_examples=120)
@given(LISTS, MISSING, POLICIES, SITUATIONS, MORE)
def test_one_missing_resource_more_never_loosens(
    found: list[dict[str, Any]], missing: list[str], policy: Policy, case: PlanContext, more: dict[str, Any]
) -> None:
    drift = [resource(address, "delete") for address in missing]
    fewer = evaluate_plan(plan(*found, prior=3, resource_drift=drift[1:], **more), policy, case)
    assert rank(evaluate_plan(plan(*found, prior=3, resource_drift=drift, **more), policy, case)) >= rank(
        fewer
    )
