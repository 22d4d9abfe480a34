"""Readers of changed outputs, and selections with their dependents and dependencies."""

from __future__ import annotations

from typing import Any

from checkouts import checkout
from hypothesis import given
from hypothesis import strategies as st

from holdfast.changes.readers import unselected_readers, with_readers
from holdfast.changes.selection import Selection, expand_selection
from holdfast.config.stack_rules import RuleKind
from holdfast.kernel.errors import Place
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.stacks.stack import Selected, Stack
from holdfast.terraform.plan.model import read_plan

CONFIG = """
version: 1
stacks:
  - { name: net, module: net }
  - { name: app, module: app, inputs: { v: { output: net.vpc }, z: { output: net.zone } } }
  - { name: dns, module: app, inputs: { v: { output: net.vpc } } }
  - { name: other, module: app, depends_on: [net] }
"""


def planned(outputs: dict[str, list[str]], *selected: str, status: Status = Status.PLANNED) -> Any:
    made = checkout({"net/main.tf": "", "app/main.tf": ""}, config=CONFIG)
    by_name = {stack.name: stack for stack in made.all_stacks}
    changes = ",".join(
        f'"{name}": {{"actions": {str(actions).replace(chr(39), chr(34))}}}'
        for name, actions in outputs.items()
    )
    plan = read_plan(f'{{"format_version": "1.2", "output_changes": {{{changes}}}}}'.encode())
    results = (
        StackResult(stack=by_name["net"], status=status, plan=plan),
        *(StackResult(stack=by_name[name], status=Status.UNCHANGED) for name in selected),
    )
    return with_readers(results, made.code, made.all_stacks)


def test_each_changed_output_names_its_readers() -> None:
    """A plain `depends_on` reads nothing; what does not change concerns nobody."""
    results = planned({"vpc": ["update"], "zone": ["delete"], "same": ["no-op"]}, "dns")
    assert [(one.stack, one.outputs, one.selected) for one in results[0].readers] == [
        ("app", ("vpc", "zone"), False),
        ("dns", ("vpc",), True),
    ]
    assert results[0].notes == (
        "removes outputs that others read: zone (app)",
        "changes outputs that others read: vpc (app, dns)",
    )
    assert unselected_readers(results) == (
        "Not selected, but reading outputs that change: app (vpc, zone). Add them with --dependents."
    )


def test_a_new_output_is_no_news_for_those_who_wait_for_it() -> None:
    results = planned({"vpc": ["create"]}, "app", "dns")
    assert (results[0].notes, unselected_readers(results)) == ((), None)
    assert unselected_readers(planned({"vpc": ["no-op"]})) is None


def test_after_an_apply_the_next_step_is_a_plan() -> None:
    text = unselected_readers(planned({"zone": ["update"]}, status=Status.APPLIED))
    assert text == "Not selected, but reading outputs that changed: app (zone). Plan them: holdfast plan app"


GRAPHS = st.lists(st.sets(st.integers(0, 6), max_size=3), min_size=1, max_size=7)


@given(
    graph=GRAPHS,
    chosen=st.sets(st.integers(0, 6), min_size=1),
    dependents=st.booleans(),
    dependencies=st.booleans(),
)
def test_an_expanded_selection_is_closed(
    *, graph: list[set[int]], chosen: set[int], dependents: bool, dependencies: bool
) -> None:
    """It keeps what was selected, misses no dependent or dependency, and has a reason for each addition."""
    stacks = [
        Stack(
            name=str(number),
            kind=RuleKind.NAMED,
            place=Place(file="holdfast.yaml"),
            module=".",
            depends_on=tuple(str(other) for other in sorted(needs) if other < number),
        )
        for number, needs in enumerate(graph)
    ]
    first = tuple(Selected(stack=stack, reasons=()) for stack in stacks if int(stack.name) in chosen)
    before = Selection(selected=first, removed=(), total=len(stacks), changed=None, named=True)
    after = expand_selection(before, stacks, dependents=dependents, dependencies=dependencies)
    names = {one.stack.name for one in after.selected}
    assert names >= {one.stack.name for one in first}
    assert after.added == len(names) - len(first)
    added = [one for one in after.selected if one.stack.name not in {old.stack.name for old in first}]
    assert all(one.reasons for one in added)
    for stack in stacks:
        if dependencies and stack.name in names:
            assert set(stack.depends_on) <= names
        if dependents and not dependencies and names & set(stack.depends_on):
            assert stack.name in names
    if not dependents and not dependencies:
        assert after.selected == first
