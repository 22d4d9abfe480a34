"""A plan is an import of one address, or the reason why it is not is said."""

from __future__ import annotations

import pytest
from guard_made import plan as plan_of
from guard_made import resource
from results_made import stack

from holdfast.changes.imports import why_not_imported
from holdfast.terraform.plan.model import Plan


def planned(*changes: tuple[str, list[str], str | None]) -> Plan:
    return plan_of(
        *(
            resource(address, *actions, **({"importing": {"id": id_}} if id_ else {}))
            for address, actions, id_ in changes
        )
    )


def test_nothing_but_the_import_is_an_import() -> None:
    """Reading a data source and what does not change do no harm."""
    plan = planned(("t.x", ["no-op"], "i-1"), ("t.y", ["no-op"], None), ("t.z", ["read"], None))
    assert why_not_imported(stack("a"), plan, "t.x") is None


@pytest.mark.parametrize(
    ("plan", "code", "text"),
    [
        (planned(("t.x", ["update"], "i-1")), "HF-IMP-1", "t.x (update)"),
        (planned(("t.x", ["no-op"], "i-1"), ("t.y", ["create"], None)), "HF-IMP-1", "t.y (create)"),
        (planned(("t.x", ["no-op"], "i-1"), ("t.y", ["no-op"], "i-2")), "HF-IMP-1", "t.y (no-op)"),
        (planned(("t.x", ["delete", "create"], "i-1")), "HF-IMP-1", "t.x (delete, create)"),
        (planned(("t.x", ["no-op"], None)), "HF-IMP-2", "already in its state"),
        (planned(("t.y", ["no-op"], "i-1")), "HF-IMP-2", "does not plan to import t.x"),
    ],
)
def test_anything_else_is_refused(plan: Plan, code: str, text: str) -> None:
    problem = why_not_imported(stack("a"), plan, "t.x")
    assert problem is not None
    assert problem.code == code
    assert text in problem.message
