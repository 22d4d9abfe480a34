"""A rename gets the `moved` block that keeps what exists; a doubtful one gets nothing."""

from __future__ import annotations

from typing import Any

import pytest
from plan_documents import plan

from holdfast.terraform.plan.moves import Move, suggested_moves


def resource(address: str, action: str, **values: Any) -> dict[str, Any]:
    """`values` are its arguments; the id is computed."""
    module, _, rest = address.rpartition(".x.")
    name, _, index = rest.partition("[")
    key: Any = index.rstrip("]").strip('"')
    document: dict[str, Any] = {
        "address": address,
        "mode": "managed",
        "type": "x",
        "name": name,
        "provider_name": "p",
        "module_address": module or None,
    }
    if index:
        document["index"] = int(key) if key.isdigit() else key
    known = {"before": {"id": "i-1", "note": "", **values}, "after": None}
    if action == "create":
        known = {"before": None, "after": {"note": None, **values}}
    elif action == "no-op":
        known = {"before": values, "after": values}
    return {**document, "change": {"actions": [action], **known, "after_unknown": {"id": action == "create"}}}


def moves(*resources: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [(move.old, move.new, move.resources) for move in suggested_moves(plan(resources))]


def test_a_renamed_resource_is_recognised() -> None:
    """Same type, same values: what only the provider knows is ignored, unset is unset."""
    assert moves(
        resource("module.m.x.old", "delete", name="n"), resource("module.m.x.new", "create", name="n")
    ) == [("module.m.x.old", "module.m.x.new", 1)]
    assert Move("x.old", "x.new", 1).block == ("moved {", "  from = x.old", "  to   = x.new", "}")


@pytest.mark.parametrize(
    "created",
    [
        resource("module.m.x.new", "create", name="other"),
        resource("module.m.x.new", "create"),
        {**resource("module.m.x.new", "create", name="n"), "type": "y"},
        {**resource("module.m.x.new", "create", name="n"), "provider_name": "q"},
    ],
)
def test_other_values_or_types_are_no_rename(created: dict[str, Any]) -> None:
    """Nor is a resource of which nothing is known before it exists."""
    assert moves(resource("module.m.x.old", "delete", name="n"), created) == []


def test_a_renamed_module_is_one_block() -> None:
    """Everything in it moves with it; a resource that stays keeps the module where it is."""
    renamed = [
        *(resource(f"module.old.x.{name}", "delete", name=name) for name in "ab"),
        *(resource(f"module.new.x.{name}", "create", name=name) for name in "ab"),
    ]
    assert moves(*renamed) == [("module.old", "module.new", 2)]
    assert moves(*renamed, resource("module.old.x.c", "no-op", name="c")) == [
        ("module.old.x.a", "module.new.x.a", 1),
        ("module.old.x.b", "module.new.x.b", 1),
    ]


def test_renamed_instances_are_matched_by_their_key() -> None:
    """Equal ones too; where nothing says which is which, nothing is suggested."""
    assert moves(
        *(resource(f'module.m.x.old["{key}"]', "delete", size=1) for key in "ab"),
        *(resource(f'module.m.x.new["{key}"]', "create", size=1) for key in "ab"),
    ) == [("module.m.x.old", "module.m.x.new", 2)]
    assert (
        moves(
            *(resource(f"module.m.x.{name}", "delete", size=1) for name in "ab"),
            *(resource(f"module.m.x.{name}", "create", size=1) for name in "cd"),
        )
        == []
    )
