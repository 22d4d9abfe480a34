"""The graph of stacks for Graphviz, for Mermaid, and as an SVG image. Arrows point to what a stack needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from holdfast.stacks.graph import Node, StackGraph
from holdfast.stacks.graph_svg import svg


def dot(graph: StackGraph) -> str:
    lines = ["digraph stacks {", "  rankdir=RL;", '  node [shape=box, fontname="monospace"];']
    for node in _nodes(graph):
        marked = ' [style="bold,filled", fillcolor="#cfe3ff"]' if graph.marks(node) else ""
        lines.append(f"  {_quote(node.name)}{marked};")
    lines += [f"  {_quote(name)} -> {_quote(other)};" for name, other in graph.edges]
    return "\n".join([*lines, "}", ""])


def mermaid(graph: StackGraph) -> str:
    """Ids are numbers: names may contain what Mermaid reads as syntax."""
    ids = {node.name: f"s{number}" for number, node in enumerate(_nodes(graph), start=1)}
    lines = ["flowchart RL"]
    lines += [f'  {ids[node.name]}["{_entities(node.name)}"]' for node in _nodes(graph)]
    lines += [f"  {ids[name]} --> {ids[other]}" for name, other in graph.edges]
    marked = [ids[node.name] for node in _nodes(graph) if graph.marks(node)]
    if marked:
        lines.append("  classDef selected fill:#cfe3ff,stroke:#0550ae,stroke-width:3px,color:#000")
        lines.append(f"  class {','.join(marked)} selected")
    return "\n".join([*lines, ""])


FORMATS: Mapping[str, Callable[[StackGraph], str]] = {"dot": dot, "mermaid": mermaid, "svg": svg}


def _nodes(graph: StackGraph) -> tuple[Node, ...]:
    return tuple(node for wave in graph.waves for node in wave)


def _quote(name: str) -> str:
    """A string of dot, which escapes quotes and backslashes as JSON does."""
    return json.dumps(name, ensure_ascii=False)


def _entities(name: str) -> str:
    """Mermaid writes special characters as `#NUMBER;`."""
    return "".join(char if char.isalnum() or char in "-_./ " else f"#{ord(char)};" for char in name)
