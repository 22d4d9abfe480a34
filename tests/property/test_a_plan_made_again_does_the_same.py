"""A plan that takes the place of a saved one does exactly what that one showed."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from plan_documents import change, plan

from holdfast.terraform.plan.same_plan import Mocks, plan_differences

ADDRESSES = [f"lab_object.o{number}" for number in range(4)]
ACTIONS = [
    *(("no-op",), ("create",), ("update",), ("delete",), ("forget",), ("read",)),
    *(("delete", "create"), ("create", "delete"), ("create", "forget"), ("do", "something")),
]
SCALARS = (
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "x", "mock-vpc", "a-mock-vpc-b"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
OBJECTS = st.dictionaries(st.sampled_from("ab"), VALUES, max_size=2)
MOCKS = Mocks(["mock-vpc"])


@st.composite
def changes(draw: st.DrawFn) -> list[dict[str, Any]]:
    chosen = draw(st.sets(st.sampled_from(ADDRESSES)))
    made = []
    for address in sorted(chosen):
        one = change(
            address,
            *draw(st.sampled_from(ACTIONS)),
            after=draw(OBJECTS),
            unknown=draw(st.dictionaries(st.sampled_from("cd"), st.just(value=True), max_size=2)),
            deposed=draw(st.sampled_from([None, "d1"])),
        )
        one["change"]["before"] = draw(OBJECTS)
        made.append(one)
    return made


def effects(made: list[dict[str, Any]]) -> dict[tuple[str, str | None], tuple[str, ...]]:
    return {
        (one["address"], one["deposed"]): tuple(one["change"]["actions"])
        for one in made
        if one["change"]["actions"] != ["no-op"]
    }


def only_reads(names: dict[tuple[str, str | None], tuple[str, ...]]) -> bool:
    return all(actions == ("read",) for actions in names.values())


@settings(max_examples=200, deadline=None)
@given(changes())
def test_an_identical_plan_is_accepted(made: list[dict[str, Any]]) -> None:
    assert plan_differences(plan(made), plan(made)) == ()
    assert plan_differences(plan(made), plan(made), MOCKS) == ()


@settings(max_examples=200, deadline=None)
@given(changes(), changes())
def test_a_plan_with_any_other_action_is_not_accepted(
    shown: list[dict[str, Any]], new: list[dict[str, Any]]
) -> None:
    """Whatever is accepted has the same actions at the same addresses; only a read may be missing."""
    if plan_differences(plan(shown), plan(new), MOCKS):
        return
    before, after = effects(shown), effects(new)
    assert after.items() <= before.items()
    assert only_reads(dict(before.items() - after.items()))


@settings(max_examples=100, deadline=None)
@given(changes(), st.data())
def test_one_change_with_other_actions_is_found(shown: list[dict[str, Any]], data: st.DataObject) -> None:
    """Even if nothing else differs."""
    assume(shown)
    new = copy.deepcopy(shown)
    one = data.draw(st.sampled_from(new))["change"]
    before = one["actions"]
    one["actions"] = list(data.draw(st.sampled_from([a for a in ACTIONS if list(a) != before])))
    less = before == ["read"] and one["actions"] == ["no-op"]
    assert bool(plan_differences(plan(shown), plan(new), MOCKS)) is not less


@settings(max_examples=200, deadline=None)
@given(changes(), st.sampled_from(ACTIONS[1:]), st.data())
def test_one_change_more_or_less_is_found(
    shown: list[dict[str, Any]], actions: tuple[str, ...], data: st.DataObject
) -> None:
    """Also a second one of an address that is there already."""
    address = data.draw(st.sampled_from([*ADDRESSES, "lab_object.extra"]))
    extra = change(address, *actions, after={}, deposed=None)
    more = [*shown, extra]
    assert plan_differences(plan(shown), plan(more), MOCKS)
    if actions != ("read",):
        assert plan_differences(plan(more), plan(shown), MOCKS)


@settings(max_examples=200, deadline=None)
@given(OBJECTS, VALUES, VALUES)
def test_only_what_was_unknown_may_have_any_value(known: Any, value: Any, other: Any) -> None:
    """`(known after apply)` becomes any value; a value that was shown becomes no other, and not unknown."""
    shown = plan([change("lab_object.a", "update", after=known, unknown={"z": True})])
    assert not plan_differences(shown, plan([change("lab_object.a", "update", after={**known, "z": value})]))
    assert not plan_differences(shown, shown)
    one = plan([change("lab_object.a", "update", after={**known, "z": value})])
    two = plan([change("lab_object.a", "update", after={**known, "z": other})])
    assume(repr(value) != repr(other))
    assert plan_differences(one, two)
    assert plan_differences(one, shown), "a known value does not become unknown"
    before = [change("lab_object.a", "delete"), change("lab_object.a", "delete")]
    before[0]["change"]["before"], before[1]["change"]["before"] = {"z": value}, {"z": other}
    assert plan_differences(plan(before[:1]), plan(before[1:])), "nor does what is deleted"


@settings(max_examples=200, deadline=None)
@given(st.text("ab-", max_size=3), st.text("ab-", max_size=3), st.text(max_size=6))
def test_a_mock_matches_any_value_at_its_place_only(left: str, right: str, real: str) -> None:
    """The text around it must be the same, and nothing else becomes any value."""

    def named(text: str) -> Any:
        return plan([change("lab_object.a", "create", after={"name": text, "list": [text, "x"]})])

    shown = named(f"{left}mock-vpc{right}")
    assert not plan_differences(shown, named(f"{left}{real}{right}"), MOCKS)
    assert plan_differences(shown, named(f"{left}{real}{right}"), Mocks(["another"])) or real == "mock-vpc"
    if left or right:
        assert plan_differences(shown, named(f"!{left}{real}{right}!"), MOCKS)
    assert plan_differences(named("x"), named(real), MOCKS) or real == "x"
