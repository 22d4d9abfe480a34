"""The apply after a reconcile is compared with the interrupted one, address by address and by action."""

from __future__ import annotations

import itertools

import pytest
from plan_documents import change, plan
from recovery_made import intent, planned

from holdfast.changes.reconciliation import changes_outside_intent

A, B = "lab_object.a", "lab_object.b"
CREATE, UPDATE, DELETE = ("create",), ("update",), ("delete",)
DELETE_FIRST, CREATE_FIRST = ("delete", "create"), ("create", "delete")
FORGET, CREATE_FORGET, FORGET_CREATE = ("forget",), ("create", "forget"), ("forget", "create")
ACTIONS = (CREATE, UPDATE, DELETE, DELETE_FIRST, CREATE_FIRST, FORGET, CREATE_FORGET, FORGET_CREATE)
REPLACEMENTS = (DELETE_FIRST, CREATE_FIRST, CREATE_FORGET, FORGET_CREATE)
CONTINUED = {
    *((actions, actions) for actions in ACTIONS),
    (CREATE, UPDATE),
    *((actions, then) for actions in REPLACEMENTS for then in (CREATE, UPDATE)),
}


@pytest.mark.parametrize(("was", "now"), tuple(itertools.product(ACTIONS, ACTIONS)))
def test_only_the_same_action_or_what_is_left_of_it_is_continued(
    was: tuple[str, ...], now: tuple[str, ...]
) -> None:
    """No update becomes a deletion or a replacement, and no create deletes anything."""
    outside = changes_outside_intent(intent(planned(A, *was)), plan([change(A, *now)]))
    assert outside == (() if (was, now) in CONTINUED else (f"{A}: {', '.join(now)}",))


def test_what_was_not_planned_at_all_is_outside() -> None:
    """Another address or deposed object, an unknown action, an import, a move, an action of a provider."""
    meant = intent(planned(A, "update"))
    for new in (
        change(B, "create"),
        change(A, "delete", deposed="aa11"),
        change(A, "explode"),
        change(A, "update", importing={"id": "x"}),
        change(A, "update", previous_address=B),
    ):
        assert changes_outside_intent(meant, plan([new])), new
    invoked = plan([], action_invocations=[{"address": "action.lab_x.y", "type": "lab_x", "name": "y"}])
    assert changes_outside_intent(meant, invoked) == ("action.lab_x.y: action",)
    assert changes_outside_intent(meant, plan([change(B, "read"), change(B, "no-op")])) == ()


def test_the_old_half_of_a_replacement_is_continued() -> None:
    """It is deposed under a key that the plan did not know; after another action it is not ours to delete."""
    left = plan([change(A, "delete", deposed="aa11")])
    assert changes_outside_intent(intent(planned(A, "create", "delete")), left) == ()
    assert changes_outside_intent(intent(planned(A, "delete", "create")), left) == (f"{A}: delete",)
