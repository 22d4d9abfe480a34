"""The apply after a reconcile is compared with the interrupted one, address by address and by action."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from msgspec import structs
from plan_documents import change, plan
from recovery_made import intent, planned

from holdfast.changes import reconciliation
from holdfast.changes.reconciliation import changes_outside_intent
from holdfast.config.stack_rules import RuleKind
from holdfast.kernel.errors import Place
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.stacks.stack import Stack
from holdfast.terraform.argv import PlanOptions

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


STACK = Stack(name="a", kind=RuleKind.NAMED, place=Place(file="holdfast.yaml"), module="a")


class Run:
    """Plans what the test says, and remembers what was asked of it."""

    stack = STACK

    def __init__(self, **result: Any) -> None:
        self.result = StackResult(stack=STACK, status=Status.PLANNED, **result)
        self.options: PlanOptions | None = None
        self.applied = False

    async def plan(self, options: PlanOptions) -> StackResult:
        self.options = options
        return self.result

    async def apply(self) -> StackResult:
        self.applied = True
        return self.result


@pytest.mark.parametrize("destroy", [True, False])
def test_only_a_destroy_is_continued_as_a_destroy(*, destroy: bool) -> None:
    """A normal plan would create everything again; a destroy would delete what was not meant."""
    run: Any = Run(plan=plan([change(A, "delete")]))
    meant = structs.replace(intent(planned(A, "delete")), destroy=destroy)
    asyncio.run(reconciliation._apply_rest(run, meant, None, ()))
    assert (run.options.destroy, run.applied) == (destroy, True)


@pytest.mark.parametrize(("actions", "repeated"), [(CREATE, True), (UPDATE, False)])
def test_a_create_that_may_have_succeeded_is_not_repeated(
    actions: tuple[str, ...], *, repeated: bool
) -> None:
    """Without a person to ask: the resource may exist. What is known to exist is continued."""
    run: Any = Run(plan=plan([change(A, *actions)]))
    result = asyncio.run(reconciliation._apply_rest(run, intent(planned(A, "create")), None, (A,)))
    assert run.applied is not repeated
    assert any("may exist anyway" in note for note in result.notes) is repeated


def test_a_rest_is_not_applied_with_other_values_of_variables() -> None:
    """The interrupted run had values from the command line: a plan without them is another one."""
    run: Any = Run(plan=plan([change(A, "update")]))
    meant = structs.replace(intent(planned(A, "update")), variables=("-var size",))
    result = asyncio.run(reconciliation._apply_rest(run, meant, None, ()))
    assert not run.applied
    assert any("-var size" in note for note in result.notes)
