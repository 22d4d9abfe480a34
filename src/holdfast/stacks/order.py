"""Dependencies between stacks: resolves `depends_on`, finds cycles, and puts stacks in order."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from holdfast.config.problems import Problems, did_you_mean
from holdfast.kernel.errors import Place
from holdfast.kernel.text import first_names
from holdfast.stacks.stack import Derived, Stack, may_be

Graph = Mapping[str, Collection[str]]
"""From a stack's name to the names it depends on."""

_MOST_NAMES = 8


class Dependency(Struct, frozen=True, kw_only=True):
    """One text of `depends_on`, filled in for one stack."""

    stack: str
    text: str
    glob: str | None = None
    """The text as a glob, if it was written as one; the values of placeholders are escaped."""
    place: Place
    shared: bool = True
    """The entry defines many stacks: the others may depend on one of them, which ignores itself."""
    source: str = ""
    """What the dependency follows from, such as `input vpc_id`; empty for `depends_on`."""


def resolve(
    dependencies: Iterable[Dependency],
    names: Collection[str],
    problems: Problems,
    *,
    complete: bool = True,
) -> dict[str, tuple[str, ...]]:
    """From each stack with dependencies to the stacks it depends on, sorted.

    A glob may match nothing for one stack, but not for all stacks of an entry: then it is a typo.
    Unknown names are reported only if all names are known (`complete`).
    """
    known = set(names)
    ordered = sorted(known)
    resolved: dict[str, set[str]] = {}
    matched: dict[tuple[Place, str], bool] = {}
    matches: dict[str, list[str]] = {}
    for dependency in dependencies:
        stack, text, glob = dependency.stack, dependency.text, dependency.glob
        own = resolved.setdefault(stack, set())
        if text in known:
            if not (dependency.shared and text == stack):
                own.add(text)
        elif glob is not None:
            if glob not in matches:
                matches[glob] = fnmatch.filter(ordered, glob)
            own.update(name for name in matches[glob] if name != stack)
            matched[dependency.place, glob] = bool(matches[glob])
        elif entry := next((name for name in ordered if may_be(name, text)), None):
            own.add(entry)
        elif complete:
            what = f"the {dependency.source} of {stack} reads" if dependency.source else f"{stack} depends on"
            problems.add(
                "HF-STACK-7",
                f"{what} `{text}`, which does not exist",
                place=dependency.place,
                hint=lambda text=text, stack=stack: _hint(text, [name for name in ordered if name != stack]),  # type: ignore[misc] # bound here
            )
    if complete:
        _report_unmatched_globs(matched, ordered, problems)
    return {name: tuple(sorted(needs)) for name, needs in resolved.items()}


def _hint(text: str, names: Sequence[str]) -> str:
    whole = text.rpartition(".")[0]
    if whole in names:
        return f"An input reads a whole output of {whole}: write {whole}.OUTPUT"
    return did_you_mean(text, names) or _all_names(names)


def _all_names(names: Sequence[str]) -> str:
    """`holdfast stacks` lists none until the mistake is corrected."""
    return f"The stacks are {first_names(names, _MOST_NAMES)}." if names else "There is no other stack."


def _report_unmatched_globs(
    matched: Mapping[tuple[Place, str], bool], names: Sequence[str], problems: Problems
) -> None:
    unmatched: dict[Place, str] = {}
    for place, glob in matched:
        unmatched.setdefault(place, glob)
    for (place, _), any_match in matched.items():
        if any_match:
            unmatched.pop(place, None)
    for place, glob in unmatched.items():
        message = f"`{glob}` in depends_on matches no stack"
        problems.add("HF-STACK-14", message, place=place, hint=_all_names(names))


def without_mutual_reads(graph: Graph, reads: Graph) -> dict[str, set[str]]:
    """The graph with its `reads`, except those that would close a cycle.

    Code with stacks that read each other's state works once each was applied without the other: no order
    follows from it. HF126 reports them.
    """
    whole = {name: {*graph.get(name, ()), *reads.get(name, ())} for name in {*graph, *reads}}
    while True:
        closing = {
            (name, other)
            for cycle in cycles(whole)
            for name, other in pairwise(cycle)
            if other not in graph.get(name, ())
        }
        if not closing:
            return whole
        for name, other in closing:
            whole[name].discard(other)


def report_cycles(
    graph: Graph, derived: Mapping[str, Sequence[Derived]], places: Mapping[str, Place], problems: Problems
) -> None:
    """With what each dependency follows from, where no `depends_on` names it. `places` has all stacks."""
    for cycle in cycles({name: graph.get(name, ()) for name in places}):
        followed = {
            (name, other.stack): f"; {name} reads {other.stack} with {other.source} ({other.place})"
            for name in cycle
            for other in derived.get(name, ())
        }
        sources = "".join(followed.get(edge, "") for edge in pairwise(cycle))
        problems.add(
            "HF-STACK-8",
            f"dependency cycle: {' → '.join(cycle)}{sources}",
            place=places[cycle[0]],
            hint="Remove one of these dependencies.",
        )


def cycles(graph: Graph) -> tuple[tuple[str, ...], ...]:
    """Cycles, found by following the smallest names; each repeats its first name at the end."""
    left = {name: {other for other in needs if other in graph} for name, needs in graph.items()}
    cycles: list[tuple[str, ...]] = []
    while left := _without_ordered(left):
        path = [min(left)]
        while (following := min(left[path[-1]])) not in path:
            path.append(following)
        cycle = path[path.index(following) :]
        start = cycle.index(min(cycle))
        cycles.append((*cycle[start:], *cycle[: start + 1]))
        for name in cycle:
            del left[name]
        left = {name: needs - set(cycle) for name, needs in left.items()}
    return tuple(cycles)


def _without_ordered(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The stacks that cannot be ordered, because they are in a cycle or depend on one."""
    done = {name for wave in _layers(graph) for name in wave}
    return {name: needs - done for name, needs in graph.items() if name not in done}


def _layers(graph: Graph) -> list[list[str]]:
    """Each layer depends only on earlier ones. Stacks in a cycle, or that depend on one, are in none."""
    missing = {name: {other for other in needs if other in graph} for name, needs in graph.items()}
    waiting: dict[str, list[str]] = {name: [] for name in graph}
    for name, needs in missing.items():
        for other in needs:
            waiting[other].append(name)
    layers: list[list[str]] = []
    ready = sorted(name for name, needs in missing.items() if not needs)
    while ready:
        layers.append(ready)
        following: list[str] = []
        for name in ready:
            for dependent in waiting[name]:
                missing[dependent].discard(name)
                if not missing[dependent]:
                    following.append(dependent)
        ready = sorted(following)
    return layers


def waves(stacks: Sequence[Stack], *, among: Sequence[Stack] = ()) -> tuple[tuple[Stack, ...], ...]:
    """The stacks in groups: each group depends only on earlier groups; sorted by name within a group.

    `among` are all stacks of the repository: two stacks may depend on each other through an unselected one.
    """
    chosen = {stack.name: stack for stack in stacks}
    everything = {stack.name: stack.depends_on for stack in (*among, *stacks)}
    level: dict[str, int] = {}
    for layer in _layers(everything):
        for name in layer:
            below = [level[other] + (other in chosen) for other in everything[name] if other in level]
            level[name] = max(below, default=0)
    if missing := sorted(chosen.keys() - level.keys()):
        raise ValueError(f"dependency cycle: {', '.join(missing)}")
    groups: dict[int, list[Stack]] = {}
    for name in sorted(chosen):
        groups.setdefault(level[name], []).append(chosen[name])
    return tuple(tuple(groups[number]) for number in sorted(groups))


def dependents_of(name: str, stacks: Iterable[Stack]) -> tuple[str, ...]:
    """Every stack that depends on this one, directly or through others, by name."""
    direct: dict[str, list[str]] = {}
    for stack in stacks:
        for other in stack.depends_on:
            direct.setdefault(other, []).append(stack.name)
    dependents: set[str] = set()
    queue = [name]
    while queue:
        for dependent in direct.get(queue.pop(), ()):
            if dependent not in dependents:
                dependents.add(dependent)
                queue.append(dependent)
    return tuple(sorted(dependents - {name}))
