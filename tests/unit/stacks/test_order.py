"""Dependencies: what they mean, in which order to go, what waits."""

from __future__ import annotations

import pytest

from holdfast.config.problems import Problems
from holdfast.config.stack_rules import RuleKind
from holdfast.kernel.errors import Place
from holdfast.stacks.order import Dependency, cycles, dependents_of, resolve, waves
from holdfast.stacks.stack import Stack

PLACE = Place(file="holdfast.yaml", line=1, column=1)


def stack(name: str, *depends_on: str) -> Stack:
    return Stack(name=name, kind=RuleKind.NAMED, place=PLACE, module=".", depends_on=depends_on)


def wish(name: str, text: str, *, glob: bool = False, shared: bool = True) -> Dependency:
    return Dependency(stack=name, text=text, glob=text if glob else None, place=PLACE, shared=shared)


def test_a_name_and_a_glob() -> None:
    """A glob never makes a stack depend on itself."""
    problems = Problems()
    found = resolve([wish("a/x", "b"), wish("a/x", "a/*", glob=True)], ["a/x", "a/y", "b"], problems)
    assert found == {"a/x": ("a/y", "b")}
    assert not len(problems)


def test_an_unknown_name_is_reported_with_the_nearest() -> None:
    """A slip of the pen in a dependency is found."""
    problems = Problems()
    resolve([wish("a", "netwrok")], ["a", "network"], problems)
    (problem,) = problems.sorted()
    assert (problem.code, problem.hint) == ("HF-STACK-7", "Did you mean `network`?")


def test_a_hint_names_other_stacks_that_exist() -> None:
    """Never the stack itself, and no command: none works before the mistake is corrected."""
    for names, hint in ((["dev/a", "x"], "The stacks are x."), (["dev/a"], "There is no other stack.")):
        problems = Problems()
        resolve([wish("dev/a", "dev/b")], names, problems)
        assert [problem.hint for problem in problems.sorted()] == [hint]


def test_a_glob_may_match_nothing_for_one_but_not_for_all() -> None:
    """A glob that matches no stack at all is a mistake in writing."""
    problems = Problems()
    resolve([wish("a", "b/*", glob=True), wish("c", "d/*", glob=True)], ["a", "c", "d/1"], problems)
    assert not len(problems)
    resolve([wish("a", "b/*", glob=True)], ["a"], problems)
    assert [one.code for one in problems.sorted()] == ["HF-STACK-14"]


def test_a_stack_of_many_does_not_wait_for_itself() -> None:
    """An entry that finds network may say `depends_on: [network]`; a stack by hand cannot name itself."""
    assert resolve([wish("a", "a")], ["a"], Problems()) == {"a": ()}
    assert resolve([wish("a", "a", shared=False)], ["a"], Problems()) == {"a": ("a",)}


@pytest.mark.parametrize(
    ("graph", "found"),
    [
        ({"a": ["b"], "b": []}, ()),
        ({"a": ["a"]}, (("a", "a"),)),
        ({"a": ["b"], "b": ["a"], "c": ["a"]}, (("a", "b", "a"),)),
        ({"z": ["y"], "y": ["x"], "x": ["y"]}, (("x", "y", "x"),)),
        ({"a": ["b"], "b": ["a"], "c": ["d"], "d": ["c"]}, (("a", "b", "a"), ("c", "d", "c"))),
        ({"a": ["gone"]}, ()),
    ],
)
def test_circles_are_shown_with_their_path(
    graph: dict[str, list[str]], found: tuple[tuple[str, ...], ...]
) -> None:
    """Each circle with the way round, and nothing that only leads to one."""
    assert cycles(graph) == found


def test_waves() -> None:
    """A wave holds what can go at once, by name."""
    stacks = [stack("d", "b", "c"), stack("c", "a"), stack("b", "a"), stack("a"), stack("e")]
    assert [[one.name for one in wave] for wave in waves(stacks)] == [["a", "e"], ["b", "c"], ["d"]]


def test_a_stack_that_is_not_selected_still_keeps_order() -> None:
    """A → b → c: with b left out, c still comes before a."""
    every = [stack("a", "b"), stack("b", "c"), stack("c")]
    chosen = [every[0], every[2]]
    assert [[one.name for one in wave] for wave in waves(chosen, among=every)] == [["c"], ["a"]]


def test_a_circle_has_no_order() -> None:
    """Nothing is quietly left out of a change."""
    with pytest.raises(ValueError, match="a, b"):
        waves([stack("a", "b"), stack("b", "a")])


def test_a_long_chain() -> None:
    """Two thousand stacks in a row are no trouble."""
    chain = [stack(f"s{i:04}", *([f"s{i - 1:04}"] if i else [])) for i in range(2000)]
    assert len(waves(chain)) == 2000
    assert len(dependents_of("s0000", chain)) == 1999


def test_what_waits_for_a_stack() -> None:
    """Directly and through others."""
    stacks = [stack("a"), stack("b", "a"), stack("c", "b"), stack("d")]
    assert dependents_of("a", stacks) == ("b", "c")
