"""Order: every stack after what it depends on, and a circle exactly when there is no order."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.config.stack_rules import RuleKind
from holdfast.kernel.errors import Place
from holdfast.stacks.order import cycles, dependents_of, waves
from holdfast.stacks.stack import Stack

NAMES = tuple("abcdefgh")
GRAPHS = st.dictionaries(
    st.sampled_from(NAMES), st.sets(st.sampled_from(NAMES), max_size=3), min_size=1, max_size=8
).map(lambda graph: {name: {one for one in needs if one in graph} for name, needs in graph.items()})
DAGS = GRAPHS.map(lambda graph: {name: {one for one in needs if one < name} for name, needs in graph.items()})


def stacks(graph: Mapping[str, set[str]]) -> list[Stack]:
    return [
        Stack(
            name=name,
            kind=RuleKind.NAMED,
            place=Place(file="f"),
            module=".",
            depends_on=tuple(sorted(needs)),
        )
        for name, needs in graph.items()
    ]


@given(GRAPHS)
def test_a_circle_exactly_when_there_is_no_order(graph: dict[str, set[str]]) -> None:
    """Each circle shown is one, and without circles everything has its turn after what it needs."""
    circles = cycles(graph)
    for circle in circles:
        assert circle[0] == circle[-1]
        assert all(after in graph[before] for before, after in itertools.pairwise(circle))
    if circles:
        with pytest.raises(ValueError, match="cycle"):
            waves(stacks(graph))
        return
    found = [[one.name for one in wave] for wave in waves(stacks(graph))]
    turn = {name: number for number, wave in enumerate(found) for name in wave}
    assert turn.keys() == graph.keys()
    assert all(turn[need] < turn[name] for name, needs in graph.items() for need in needs)
    assert all(wave == sorted(wave) for wave in found)


@given(graph=DAGS, data=st.data())
@example(graph={"a": set(), "b": {"a"}, "c": {"b"}}, data=None)
def test_a_selection_keeps_the_order_of_the_whole(
    graph: dict[str, set[str]], data: st.DataObject | None
) -> None:
    """Leaving stacks out never lets one go before what it waits for through them."""
    every = stacks(graph)
    chosen = data.draw(st.sets(st.sampled_from(sorted(graph)))) if data is not None else {"a", "c"}
    selected = [one for one in every if one.name in chosen]
    turn = {one.name: number for number, wave in enumerate(waves(selected, among=every)) for one in wave}
    assert turn.keys() == chosen
    for name in chosen:
        assert all(turn[name] < turn[later] for later in dependents_of(name, every) if later in chosen)
