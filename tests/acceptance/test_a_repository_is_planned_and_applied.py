from __future__ import annotations

import shutil

from program import ROOT, Program


def test_the_accounts_example_is_applied_and_then_unchanged(holdfast: Program) -> None:
    """A team with one variables file per stack plans, applies, and has nothing to do the second time."""
    shutil.copytree(ROOT / "examples/accounts", holdfast.folder, dirs_exist_ok=True)
    planned = holdfast.results("plan")
    assert len(planned) == 12
    assert {one["status"] for one in planned.values()} == {"planned"}
    applied = holdfast.results("apply", "--yes")
    assert {one["status"] for one in applied.values()} == {"applied"}
    role = applied["acme-prod-1/role/reader"]
    assert role["outputs"] == {"role_name": {"value": "acme-prod-1-role-reader", "sensitive": False}}
    assert role["production"] is True
    database = applied["acme-dev-1/database/orders"]
    assert database["outputs"]["password"] == {"value": None, "sensitive": True}
    again = holdfast.json("plan", "--detailed-exitcode")
    assert {one["status"] for one in again["stacks"]} == {"unchanged"}
    assert again["summary"]["unchanged"] == 12
