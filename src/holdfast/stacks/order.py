"""Dependencies between stacks: what `depends_on` means, in which order to go, what waits for what."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from holdfast.config.problems import Problems, did_you_mean
from holdfast.kernel.errors import Place
from holdfast.stacks.stack import Stack

Graph = Mapping[str, Collection[str]]
"""From a stack's name to the names it depends on."""

_SEE = "See `holdfast stacks` for the names there are."


class Dependency(Struct, frozen=True, kw_only=True):
    """One text of `depends_on`, filled in for one stack."""

    stack: str
    text: str
    glob: str | None = None
    """The text as a glob, where it was written as one; what placeholders gave is taken literally."""
    place: Place
    shared: bool = True
    """The entry makes many stacks: one of them may be what the others wait for, and waits not for itself."""


def resolve(
    wishes: Iterable[Dependency],
    names: Collection[str],
    problems: Problems,
    *,
    complete: bool = True,
) -> dict[str, tuple[str, ...]]:
    """From each stack with wishes to the stacks it depends on, sorted.

    A glob may match nothing for one stack, but not for all of an entry: that is a mistake in writing. While
    some names are not known (`complete` is false) nobody is told that a name does not exist.
    """
    known = set(names)
    ordered = sorted(known)
    found: dict[str, set[str]] = {}
    hits: dict[tuple[Place, str], bool] = {}
    matches: dict[str, tuple[str, ...]] = {}
    for wish in wishes:
        mine = found.setdefault(wish.stack, set())
        if wish.text in known:
            if not (wish.shared and wish.text == wish.stack):
                mine.add(wish.text)
        elif wish.glob is not None:
            if wish.glob not in matches:
                matches[wish.glob] = tuple(fnmatch.filter(ordered, wish.glob))
            hit = matches[wish.glob]
            mine.update(name for name in hit if name != wish.stack)
            hits[wish.place, wish.glob] = bool(hit)
        elif complete:
            problems.add(
                "HF-STACK-7",
                f"{wish.stack} depends on `{wish.text}`, and there is no such stack",
                place=wish.place,
                hint=lambda text=wish.text: did_you_mean(text, ordered) or _SEE,  # type: ignore[misc] # bound here
            )
    if complete:
        _barren_globs(hits, problems)
    return {name: tuple(sorted(one)) for name, one in found.items()}


def _barren_globs(hits: Mapping[tuple[Place, str], bool], problems: Problems) -> None:
    places = {place for place, _ in hits}
    fruitful = {place for (place, _), hit in hits.items() if hit}
    for place in places - fruitful:
        glob = next(text for at, text in hits if at == place)
        problems.add(
            "HF-STACK-14",
            f"`{glob}` in depends_on matches no stack at all",
            place=place,
            hint=_SEE,
        )


def cycles(graph: Graph) -> tuple[tuple[str, ...], ...]:
    """Every circle found by going along the smallest names, its beginning repeated at its end."""
    left = {name: {other for other in needs if other in graph} for name, needs in graph.items()}
    found: list[tuple[str, ...]] = []
    while left := _in_circles(left):
        path = [min(left)]
        while (following := min(left[path[-1]])) not in path:
            path.append(following)
        circle = path[path.index(following) :]
        start = circle.index(min(circle))
        found.append((*circle[start:], *circle[: start + 1]))
        for name in circle:
            del left[name]
        left = {name: needs - set(circle) for name, needs in left.items()}
    return tuple(found)


def _in_circles(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Without the stacks that can be ordered: those that reach no circle."""
    done = {name for wave in _layers(graph) for name in wave}
    return {name: needs - done for name, needs in graph.items() if name not in done}


def _layers(graph: Graph) -> list[list[str]]:
    """Each layer depends only on earlier ones. What is in a circle, or behind one, is in none."""
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
    """The stacks in groups: each group depends only on groups before it; by name within a group.

    `among` are all stacks of the repository: a stack that is not selected still keeps two others in order.
    """
    chosen = {stack.name: stack for stack in stacks}
    everything = {stack.name: stack.depends_on for stack in (*among, *stacks)}
    level: dict[str, int] = {}
    for layer in _layers(everything):
        for name in layer:
            below = [level[other] + (other in chosen) for other in everything[name] if other in level]
            level[name] = max(below, default=0)
    if missing := sorted(chosen.keys() - level.keys()):
        raise ValueError(f"no order: {', '.join(missing)} depend on each other in a circle")
    groups: dict[int, list[Stack]] = {}
    for name in sorted(chosen):
        groups.setdefault(level[name], []).append(chosen[name])
    return tuple(tuple(groups[number]) for number in sorted(groups))


def ordered(stacks: Sequence[Stack], *, among: Sequence[Stack] = ()) -> tuple[Stack, ...]:
    """Each stack after what it depends on; by name where that leaves a choice."""
    return tuple(stack for wave in waves(stacks, among=among) for stack in wave)


def dependents_of(name: str, stacks: Iterable[Stack]) -> tuple[str, ...]:
    """Every stack that waits for this one, directly or through others, by name."""
    waiting: dict[str, list[str]] = {}
    for stack in stacks:
        for other in stack.depends_on:
            waiting.setdefault(other, []).append(stack.name)
    found: set[str] = set()
    queue = [name]
    while queue:
        for dependent in waiting.get(queue.pop(), ()):
            if dependent not in found:
                found.add(dependent)
                queue.append(dependent)
    return tuple(sorted(found - {name}))
