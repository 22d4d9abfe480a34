"""`init` may hold back every stack: until you complete the entries, no plan is reported as fine."""

from __future__ import annotations

from program import Program

MODULE = """
# terraform {
#   backend "s3" {
#     bucket = "states"
#   }
# }
resource "terraform_data" "x" {}
"""


def test_without_any_stack_a_plan_is_refused(holdfast: Program) -> None:
    """Exit 64 with the next step; completing one entry is enough to plan it, and the rest is mentioned."""
    holdfast.write("live/a/main.tf", MODULE)
    holdfast.write("prod/app/b/main.tf", MODULE)
    assert "0 stacks, 2 held back" in holdfast.ok("init").out
    for command in (("plan",), ("apply", "--yes"), ("plan", "--changed", "live/a/main.tf")):
        (error,) = holdfast.json(*command, code=64)["errors"]
        assert error["code"] == "HF-USE-42"
        assert "2 entries of holdfast.yaml are held back as comments" in error["message"]
        assert error["hint"].endswith("holdfast stacks")
    note = " ! 2 entries of holdfast.yaml are held back as comments"
    assert note in holdfast.ok("stacks").err
    assert note in holdfast.ok("check").err

    file = holdfast.folder / "holdfast.yaml"
    before, _, rest = file.read_text().partition("stacks: []")
    entry = "stacks:\n  - { name: a, module: live/a }\n"
    file.write_text(f"{before}{entry}{rest.replace('#  - ', '#  ', 1)}")
    assert holdfast.results("plan")["a"]["status"] == "planned"
    assert "1 entry of holdfast.yaml is held back" in holdfast.ok("stacks").err


def test_a_repository_without_stacks_has_nothing_to_plan(holdfast: Program) -> None:
    """An empty list is no mistake, and the examples in the starter are not held back."""
    holdfast.ok("init")
    assert holdfast.json("plan")["stacks"] == []
