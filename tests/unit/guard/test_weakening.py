from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from holdfast.config.guard import ANY, Budget, Effect, Freeze, RequiredApprovals
from holdfast.guard.decision import Allow, Deny, NeedApproval, Reason
from holdfast.guard.evaluate import unite
from holdfast.guard.policy import Policy
from holdfast.guard.weakening import lowered_since, weaker_settings
from holdfast.store.applied import AppliedAs

FREEZE = Freeze(start=0, end=1, every=None, zone="UTC", text="then")


@pytest.mark.parametrize(
    ("field", "before", "after", "texts"),
    [
        ("per_stack", Budget(number=1), Budget(number=2), ["deletions.per_stack 1 → 2"]),
        ("per_stack", Budget(number=2), Budget(number=1), []),
        ("per_stack", ANY, Budget(number=1), []),
        ("per_stack", Budget(percent=10), Budget(number=1), ["deletions.per_stack 10% → 1"]),
        ("per_stack", Budget(percent=10), Budget(number=0), []),
        ("per_change", Budget(number=1), ANY, ["deletions.per_change 1 → any"]),
        ("destroy", Effect.DENY, Effect.WARN, ["destroy deny → warn"]),
        ("destroy", Effect.WARN, Effect.DENY, []),
        ("addresses", ("a", "b"), ("b", "c"), ["protect.addresses without a"]),
        ("tags", (("t", ("x",)),), (), ["protect.tags without t: x"]),
        ("except_types", ("a",), ("a", "b"), ["protect.except_types with b"]),
        ("except_types", ("a",), (), []),
        ("freeze", (FREEZE,), (), ["freeze without then"]),
        ("max_changes", 5, None, ["max_changes 5 → no limit"]),
        ("max_changes", 5, 6, ["max_changes 5 → 6"]),
        ("max_changes", None, 5, []),
        ("approvals", 2, 1, ["approvals 2 → 1"]),
        ("approvals", 1, 2, []),
        ("verified", True, False, ["approvals verified → unverified"]),
        ("verified", False, True, []),
    ],
)
def test_weaker_settings_are_named_with_their_keys(
    field: str, before: Any, after: Any, texts: list[str]
) -> None:
    """What cannot be compared counts as weaker; what is stricter is not mentioned."""
    then, now = (structs.replace(Policy(), **{field: value}) for value in (before, after))
    assert [weaker.text for weaker in weaker_settings(then, now)] == texts


def test_less_than_at_the_last_apply_is_named() -> None:
    """Under either name of the stack; more protection is no reason."""
    then = AppliedAs(
        environment="prod", production=True, owner="ci", approvals=2, verified=True, addresses=("a",)
    )
    now = AppliedAs(environment="dev", production=False, owner=None, approvals=1, addresses=("b",))
    assert lowered_since((then, then), now) == (
        "production (prod) → dev",
        "owner ci → anyone",
        "approvals 2 → 1",
        "approvals verified → unverified",
        "protect.addresses without a",
    )
    assert lowered_since((now,), structs.replace(then, addresses=("a", "b"))) == ()


def test_of_two_decisions_the_stricter_one_counts() -> None:
    """For each reason and for the approvals; a reason of both is listed once."""
    loss = Reason(code="HF-GUARD-1", message="x", address="a")
    warned = structs.replace(loss, effect=Effect.WARN)
    asked = Reason(code="HF-GUARD-14", message="y", effect=Effect.APPROVE)
    united = unite([NeedApproval(reasons=(asked, warned), approvals=3), Deny(reasons=(loss,))])
    assert united == Deny(reasons=(loss, asked), approvals=3)
    assert unite([Allow(), Allow(reasons=(warned,))]) == Allow(reasons=(warned,))
    verified = NeedApproval(reasons=(asked,), verified=True)
    assert unite([NeedApproval(reasons=(asked,), approvals=2), verified]) == NeedApproval(
        reasons=(asked,), approvals=2, verified=True
    )


def test_fewer_of_the_right_people_are_weaker() -> None:
    """Another group is another rule."""
    dba, two = RequiredApprovals(count=1, group="dba"), RequiredApprovals(count=2, group="dba")
    before = Policy(approvals=1, verified=True, approvers=(dba,))

    def weaker(*after: RequiredApprovals) -> list[str]:
        policy = Policy(approvals=1, verified=True, approvers=after)
        return [change.text for change in weaker_settings(before, policy)]

    assert weaker(dba) == weaker(two) == []
    assert weaker() == ["approvals without an approval of the group dba"]
    assert weaker(RequiredApprovals(count=1, group="net")) == weaker()
