"""The graph of stacks and their dependencies, ready to be drawn. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from holdfast.stacks.order import waves
from holdfast.stacks.stack import Stack


class Node(Struct, frozen=True, kw_only=True):
    name: str
    environment: str | None
    production: bool
    depends_on: tuple[str, ...]


class StackGraph(Struct, frozen=True, kw_only=True):
    waves: tuple[tuple[Node, ...], ...]
    """A stack depends only on stacks of earlier waves."""
    selected: frozenset[str]

    def marks(self, node: Node) -> bool:
        """Whether the stack is selected. If all are, none is marked."""
        return node.name in self.selected and len(self.selected) < sum(map(len, self.waves))

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """From each stack to one that it depends on."""
        return tuple((node.name, other) for wave in self.waves for node in wave for other in node.depends_on)


def stack_graph(stacks: Iterable[Stack], selected: Collection[str]) -> StackGraph:
    """The selected stacks, everything they depend on, and everything that depends on them."""
    by_name = {stack.name: stack for stack in stacks}
    dependents: dict[str, list[str]] = {}
    for stack in by_name.values():
        for other in stack.depends_on:
            dependents.setdefault(other, []).append(stack.name)
    shown = _reach(selected, {name: stack.depends_on for name, stack in by_name.items()})
    shown |= _reach(selected, dependents)
    groups = waves(tuple(stack for name, stack in by_name.items() if name in shown))
    return StackGraph(
        waves=tuple(tuple(map(_node, group)) for group in groups),
        selected=frozenset(selected),
    )


def _node(stack: Stack) -> Node:
    return Node(
        name=stack.name,
        environment=stack.environment,
        production=stack.production,
        depends_on=stack.depends_on,
    )


def _reach(start: Collection[str], edges: Mapping[str, Collection[str]]) -> set[str]:
    reached, queue = set(start), list(start)
    while queue:
        for name in edges.get(queue.pop(), ()):
            if name not in reached:
                reached.add(name)
                queue.append(name)
    return reached
