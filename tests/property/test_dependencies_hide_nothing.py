"""What one stack's answer means for another never makes an answer better than it was."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from results_made import result, stack

from holdfast.changes.dependencies import needs, with_dependencies
from holdfast.kernel.errors import MOST_SEVERE_FIRST
from holdfast.plans.result import exit_code
from holdfast.plans.status import RESULTS, Status
from holdfast.stacks.order import dependents_of, waves
from holdfast.stacks.stack import Stack

NAMES = [f"s{number}" for number in range(7)]


@st.composite
def repositories(draw: st.DrawFn) -> tuple[Stack, ...]:
    """Stacks that depend on earlier ones only: any graph without a circle."""
    return tuple(
        stack(name, *sorted(draw(st.sets(st.sampled_from(NAMES[:number]))) if number else ()))
        for number, name in enumerate(NAMES)
    )


@st.composite
def planned(draw: st.DrawFn) -> tuple[tuple[Stack, ...], dict[str, Status]]:
    stacks = draw(repositories())
    chosen = draw(st.sets(st.sampled_from(NAMES)))
    statuses = st.sampled_from([one for one in RESULTS if one not in {Status.REMOVED, Status.APPLIED}])
    return stacks, {name: draw(statuses) for name in sorted(chosen)}


CODES = {Status.FAILED: "HF-TF-2", Status.UNKNOWN: "HF-STATE-3"}


@settings(max_examples=200, deadline=None)
@given(planned())
def test_no_exit_gets_better(given_: tuple[tuple[Stack, ...], dict[str, Status]]) -> None:
    """The exit code after looking at dependencies is as grave as before, and each rule holds."""
    stacks, statuses = given_
    by_name = {one.name: one for one in stacks}
    before = {name: result(by_name[name], status, CODES.get(status)) for name, status in statuses.items()}
    after = with_dependencies(before, stacks)
    assert after.keys() == before.keys()
    was, is_ = exit_code(tuple(before.values())), exit_code(tuple(after.values()))
    assert MOST_SEVERE_FIRST.index(is_) <= MOST_SEVERE_FIRST.index(was)
    waits = needs([by_name[name] for name in statuses], stacks)
    for name, one in after.items():
        stopped = [other for other in waits[name] if after[other].status.stops_dependents]
        if stopped:
            assert not one.status.satisfies_dependents
            assert one.status is not Status.PLANNED
        if one.status is Status.BLOCKED and before[name].status is not Status.BLOCKED:
            assert stopped


@settings(max_examples=200, deadline=None)
@given(repositories(), st.sets(st.sampled_from(NAMES)))
def test_waiting_is_the_order_of_the_whole_repository(stacks: tuple[Stack, ...], names: set[str]) -> None:
    """Of two chosen stacks one waits, directly or through chosen ones, exactly if it depends on the other."""
    chosen = [one for one in stacks if one.name in names]
    waits = needs(chosen, stacks)
    reached = {name: set(waits[name]) for name in names}
    for one in chosen:  # earlier ones first, so one pass closes the relation
        for other in tuple(reached[one.name]):
            reached[one.name] |= reached[other]
    for one in chosen:
        behind = set(dependents_of(one.name, stacks)) & names
        assert behind == {name for name in names if one.name in reached[name]}
    level = {one.name: number for number, wave in enumerate(waves(chosen, among=stacks)) for one in wave}
    assert all(level[other] < level[name] for name in names for other in waits[name])
