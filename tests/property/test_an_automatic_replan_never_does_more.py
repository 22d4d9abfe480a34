"""A plan that follows by itself does nothing that the plan before it did not show."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from plan_documents import change, plan

from holdfast.runs.auto_replan import ApplyOutcome, creates_in_doubt, extra_changes, may_replan
from holdfast.terraform.diagnostics import Diagnostic
from holdfast.terraform.tables.transient import RefusedCreate

ADDRESSES = [f"lab_object.o{number}" for number in range(4)]
ACTIONS = [("no-op",), ("create",), ("update",), ("delete",), ("delete", "create"), ("create", "delete")]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
TEXTS = ["Throttling: Rate exceeded", "the shelf is not ready", "it is Tuesday", "429 Too Many Requests"]
ROWS = (RefusedCreate(provider="labs/lab", text="the shelf is not ready"),)


@st.composite
def changes(draw: st.DrawFn) -> list[dict[str, Any]]:
    chosen = draw(st.sets(st.sampled_from(ADDRESSES)))
    return [
        change(
            address,
            *draw(st.sampled_from(ACTIONS)),
            after=draw(st.dictionaries(st.sampled_from("ab"), VALUES, max_size=2)),
            unknown=draw(st.dictionaries(st.sampled_from("cd"), st.just(value=True), max_size=2)),
        )
        for address in sorted(chosen)
    ]


def effects(made: list[dict[str, Any]]) -> dict[str, tuple[str, ...]]:
    return {
        one["address"]: tuple(one["change"]["actions"])
        for one in made
        if one["change"]["actions"] != ["no-op"]
    }


@settings(max_examples=100, deadline=None)
@given(changes(), changes(), st.frozensets(st.sampled_from(ADDRESSES)))
def test_nothing_is_done_that_was_not_shown(
    old: list[dict[str, Any]], new: list[dict[str, Any]], done: frozenset[str]
) -> None:
    """Whatever is within has only effects of the plan before, to the same values, and none that is done."""
    if extra_changes(plan(old), plan(new), done=done):
        return
    assert effects(new).items() <= effects(old).items()
    assert not effects(new).keys() & done
    before = {one["address"]: one["change"] for one in old}
    for one in new:
        if one["address"] in effects(new):
            shown = before[one["address"]]
            for name, value in one["change"]["after"].items():
                assert shown["after_unknown"].get(name) or shown["after"].get(name) == value


@settings(max_examples=100, deadline=None)
@given(changes(), st.data())
def test_less_is_always_within(old: list[dict[str, Any]], data: st.DataObject) -> None:
    """The same plan, or any part of it, is allowed; and with one change more it is not."""
    left = [one for one in old if data.draw(st.booleans())]
    assert not extra_changes(plan(old), plan(left))
    extra = change("lab_object.extra", *data.draw(st.sampled_from(ACTIONS[1:])), after={})
    assert extra_changes(plan(old), plan([*left, extra]))


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.sampled_from(ADDRESSES), st.sampled_from(["create", "update", "delete"])),
    st.dictionaries(st.sampled_from([*ADDRESSES, None]), st.sampled_from(TEXTS)),
    st.sampled_from([ROWS, ()]),
)
def test_no_create_without_proof_is_followed(
    failed: dict[str, str], errors: dict[str | None, str], rows: tuple[RefusedCreate, ...]
) -> None:
    """Whenever something may follow, each failed create has its refusal, and every error passes."""
    made = plan([change(address, action) for address, action in failed.items()])
    end = ApplyOutcome(
        failed=failed,
        errors=tuple(
            Diagnostic(severity="error", summary="no", detail=text, address=address)
            for address, text in errors.items()
        ),
    )
    if may_replan(end, made, rows) is None:
        return
    assert creates_in_doubt(end, made, rows) == ()
    assert not {"it is Tuesday", "429 Too Many Requests"} & set(errors.values())
    for address, action in failed.items():
        assert action != "create" or (rows and errors[address] == "the shelf is not ready")
