"""What a pattern covers, which tags are found, and what the table of types says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from guard_made import plan, resource

from holdfast.guard.deletion_rules import covering, protecting_tag
from holdfast.terraform.plan.tags import Tags, tags_before
from holdfast.terraform.tables.stateful_types import stateful_types

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("pattern", "address", "covered"),
    [
        ("x.y", "x.y", True),
        ("x.y", "x.y[0]", True),
        ("x.y", 'x.y["a.b"]', True),
        ("x.y", "x.yy", False),
        ("x.y", "module.m.x.y", False),
        ("x.y[0]", "x.y[0]", True),
        ("x.y[0]", "x.y[1]", False),
        ("x.y[0]", "x.y0", False),
        ("module.m", "module.m.x.y", True),
        ("module.m", "module.m[3].x.y", True),
        ("module.m", "module.mm.x.y", False),
        ("*x.y", "module.m[0].module.n.x.y[1]", True),
        ("*.x.*", "module.m.x.y", True),
        ("x.*prod*", "x.my-prod-db", True),
        ("x.*prod*", "x.dev", False),
        ("x.a*b*c", "x.abcbc", True),
        ("x.a*b*c", "x.acb", False),
        ("x?y", "x.y", False),
        ("*", "x.y", True),
    ],
)
def test_what_a_pattern_covers(pattern: str, address: str, covered: bool) -> None:  # noqa: FBT001  a column of the table
    """What it names and all that is in it; `*` is any text, and nothing else is special."""
    assert (covering(address, (pattern,)) == pattern) is covered


def test_no_pattern_takes_long() -> None:
    """Stars and a text made to go astray in."""
    assert covering("a" * 5000, ("*a" * 7 + "*b",)) is None


def tags(before: Any) -> Tags:
    return tags_before(plan(resource("x.y", "delete", before=before)).changes[0])


@pytest.mark.parametrize(
    ("before", "found"),
    [
        ({"id": "1"}, ()),
        ({"tags": {}}, ()),
        ({"tags": {"a": "b"}, "tags_all": {"a": "b", "c": "d"}}, (("a", "b"), ("c", "d"))),
        ({"labels": {"a": True, "n": 3}}, (("a", "true"), ("n", "3"))),
        ({"tag": [{"key": "a", "value": "b", "propagate_at_launch": True}]}, (("a", "b"),)),
        ({"tags": ["gold", "tier:one"]}, (("gold", ""), ("tier:one", ""), ("tier", "one"))),
        ({"metadata": [{"labels": {"a": "b"}, "annotations": {"c": "d"}}]}, (("a", "b"), ("c", "d"))),
        ({"metadata": {"labels": "of another kind"}}, ()),
        ({"defined_tags": {"ops.keep": "yes"}}, (("ops.keep", "yes"),)),
        ({"tags": {"a": ["b"]}}, (("a", None),)),
    ],
    ids=str,
)
def test_tags_are_found_where_providers_put_them(before: Any, found: tuple[Any, ...]) -> None:
    """As a mapping, as blocks, as a list of words, or inside `metadata`."""
    assert tags(before) == Tags(pairs=found)


@pytest.mark.parametrize("before", [None, "text", [1], {"tags": "text"}, {"labels": [{"a": 1}]}], ids=str)
def test_what_is_no_tag_is_not_passed_over(before: Any) -> None:
    """It is said that something there cannot be read."""
    assert tags(before).unreadable


def test_a_name_alone_protects_with_any_value() -> None:
    """An empty list of values is not a list that nothing matches."""
    change = plan(resource("x.y", "delete", before={"tags": {"keep": ""}})).changes[0]
    assert protecting_tag(change, (("keep", ()),)) is not None
    assert protecting_tag(change, (("keep", ("*",)),)) is not None
    assert protecting_tag(change, (("keep", ("yes",)),)) is None


def test_every_row_of_the_table_can_be_said() -> None:
    """What is lost, and what would protect it."""
    table = stateful_types()
    assert len(table) > 250
    assert {name.split("_")[0] for name in table} == {"aws", "azurerm", "google", "kubernetes", "helm"}
    for row in table.values():
        assert row.loss
        assert all(text.startswith("`") for text in row.protections)
    assert table["aws_memorydb_cluster"].protections == ("`final_snapshot_name`",)
    assert table["aws_secretsmanager_secret"].protections[0] == "`recovery_window_in_days >= 7`"
    assert '`immutability = "Locked" or "Unlocked"`' in table["azurerm_recovery_services_vault"].protections
    assert table["azurerm_subscription"].protections == (
        "`subscription.prevent_cancellation_on_destroy = true` in the provider's features",
    )


def test_the_table_has_no_type_twice() -> None:
    """JSON would keep the last one without a word."""
    text = (ROOT / "src/holdfast/terraform/tables/stateful_types.json").read_text("utf-8")
    pairs = json.loads(text, object_pairs_hook=list)
    names = [name for name, _ in pairs]
    assert len(names) == len(set(names)) == len(stateful_types())


def test_every_protected_type_is_on_the_page() -> None:
    """A type that is denied in production is documented."""
    page = (ROOT / "docs" / "stateful-types.md").read_text("utf-8")
    assert [name for name in stateful_types() if f"`{name}`" not in page] == []
