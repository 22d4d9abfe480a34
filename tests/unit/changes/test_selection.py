from __future__ import annotations

import pytest
from checkouts import ONE_STACK, configuration
from results_made import stack

from holdfast.changes.selection import Selection, changed_policies, parse_path_list, select_named
from holdfast.kernel.errors import UsageError
from holdfast.stacks.stack import RemovedStack

STACKS = (stack("dev/db"), stack("prod/db"), stack("prod/queue"))


def names(*arguments: str) -> list[str]:
    return [one.stack.name for one in select_named(STACKS, list(arguments))]


def test_no_argument_is_all() -> None:
    """Without a name every stack is meant."""
    assert names() == ["dev/db", "prod/db", "prod/queue"]


def test_globs_and_names_add_up() -> None:
    """Each argument adds what it means; the order is the repository's."""
    assert names("prod/queue", "*/db") == ["dev/db", "prod/db", "prod/queue"]
    assert names("prod/*") == ["prod/db", "prod/queue"]


def test_an_argument_that_means_nothing_is_a_mistake() -> None:
    """A misspelt name is exit 64 with the nearest one, never an empty selection."""
    with pytest.raises(UsageError) as error:
        names("prod/*", "prod/dbb")
    assert error.value.problem.code == "HF-USE-8"
    assert error.value.problem.hint == "Did you mean `prod/db`?"
    with pytest.raises(UsageError, match="nowhere"):
        names("env:nowhere")


def test_what_a_change_took_away_can_still_be_named() -> None:
    """The name of a removed stack is no mistake."""
    gone = RemovedStack(stack=None, name="old/db", variables=None, reason="gone")
    assert select_named(STACKS, ["old/db"], removed=(gone,)) == ()


@pytest.mark.parametrize(
    ("data", "paths"),
    [
        (b"", ()),
        (b"\n\n  \n", ()),
        (b"a.tf\nb c.tf\n", ("a.tf", "b c.tf")),
        (b"a.tf\r\nb.tf", ("a.tf", "b.tf")),
        (b" leading and trailing ", (" leading and trailing ",)),
        ("größe/ü.tfvars\n".encode(), ("größe/ü.tfvars",)),
        (b"a\0b\nc\0", ("a", "b\nc")),
        (b'"gr\\303\\266\\303\\237e.tfvars"\n', ('"gr\\303\\266\\303\\237e.tfvars"', "größe.tfvars")),
        (b'"tab\\there \\"x\\" \\\\"\n', ('"tab\\there \\"x\\" \\\\"', 'tab\there "x" \\')),
        (b"\xff.tf\n", ("\udcff.tf",)),
    ],
)
def test_paths_from_standard_input(data: bytes, paths: tuple[str, ...]) -> None:
    """Lines, NUL-ended names, and names in Git's quotes: no way of listing files loses one."""
    assert parse_path_list(data) == paths


def selection(count: int, *policies: str) -> Selection:
    selected = select_named(STACKS, [one.name for one in STACKS[:count]]) if count else ()
    return Selection(
        selected=selected,
        removed=(),
        total=len(STACKS),
        changed=frozenset({"a", "b"}),
        named=False,
        policies=policies,
    )


def test_stacks_that_changed_policies_were_not_asked_about_are_told() -> None:
    """A policy selects no stack and may speak of any: with the command that asks about all of them."""
    said = selection(0, "policy/a.rego", "policy/b.rego").unchecked
    assert said is not None
    assert said.startswith(
        "policies changed (policy/a.rego and 1 more), and 3 stacks were not checked with them: run"
    )
    assert "and 1 stack was not checked" in str(selection(2, "policy/a.rego").unchecked)
    assert selection(3, "policy/a.rego").unchecked is None
    assert selection(1).unchecked is None


def test_changed_policies_are_told_where_they_are_asked() -> None:
    """Those that are turned off hold nothing up, changed or not."""
    changed = ["main.tf", "policy/b.rego", "policy/a.rego", "policy/a_test.rego"]
    assert changed_policies(configuration(), changed) == ("policy/a.rego", "policy/b.rego")
    off = configuration(f"{ONE_STACK}checks: {{ tools: {{ rego: off }} }}\n")
    assert changed_policies(off, changed) == ()
