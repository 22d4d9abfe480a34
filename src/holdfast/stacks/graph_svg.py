"""The graph of stacks as an SVG image: one column per wave, in a layout of our own. Pure.

An arrow over several waves goes through a free place in each column between, so that it crosses no box.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import pairwise

from msgspec import Struct

from holdfast.stacks.graph import Node, StackGraph

_CHARACTER, _PADDING = 7.3, 14.0
_HEIGHT, _GAP, _LANE = 26.0, 12.0, 10.0
_COLUMN_GAP = 90.0
_MARGIN = 24.0
_SWEEPS = 6
_STYLE = """
  :root { color-scheme: light dark; --page: #fff; --box: #f6f8fa; --line: #8c959f; --text: #1f2328;
          --mark: #0969da; --marked: #ddf4ff; --production: #bc4c00; }
  @media (prefers-color-scheme: dark) {
    :root { --page: #0d1117; --box: #161b22; --line: #6e7681; --text: #e6edf3;
            --mark: #58a6ff; --marked: #0c2d5e; --production: #f0883e; } }
  .page { fill: var(--page) } text { fill: var(--text); font: 12px ui-monospace, Menlo, Consolas, monospace }
  .box { fill: var(--box); stroke: var(--line) } .production { fill: var(--production) }
  .selected .box { fill: var(--marked); stroke: var(--mark); stroke-width: 2.5 }
  .selected text { font-weight: bold } .edge { fill: none; stroke: var(--line) }
  .edge.selected { stroke: var(--mark); stroke-width: 1.8 } .note { opacity: .7; font-size: 11px }
"""


class _Item(Struct, kw_only=True):
    """A place in a column: a box, or a part of an arrow that passes through."""

    node: Node | None
    left: list[_Item]
    right: list[_Item]
    y: float = 0.0

    @property
    def height(self) -> float:
        return _HEIGHT + _GAP if self.node is not None else _LANE


def svg(graph: StackGraph) -> str:
    columns, edges = _columns(graph)
    _place(columns)
    names = [max((len(item.node.name) for item in column if item.node), default=0) for column in columns]
    widths = [length * _CHARACTER + 2 * _PADDING for length in names]
    lefts = [_MARGIN + sum(widths[:number]) + number * _COLUMN_GAP for number in range(len(columns))]
    places = {id(item): number for number, column in enumerate(columns) for item in column}
    top = min((item.y for column in columns for item in column), default=0.0) - _HEIGHT / 2
    bottom = max((item.y for column in columns for item in column), default=0.0)
    width = max(sum(widths) + _COLUMN_GAP * max(len(columns) - 1, 0), 420) + 2 * _MARGIN
    height = bottom - top + _HEIGHT / 2 + 2 * _MARGIN + 24

    def edge(path: list[_Item]) -> str:
        start, end = path[0], path[-1]
        x, parts = (
            lefts[places[id(start)]],
            [f"M{lefts[places[id(start)]]:.1f},{start.y - top + _MARGIN:.1f}"],
        )
        for item in path[1:]:
            left, y = lefts[places[id(item)]], item.y - top + _MARGIN
            right = left + widths[places[id(item)]] + (3 if item is end else 0)
            bend = (x - right) / 2
            parts.append(f"C{x - bend:.1f},{_last_y(parts)} {right + bend:.1f},{y:.1f} {right:.1f},{y:.1f}")
            if item is not end:
                parts.append(f"L{left:.1f},{y:.1f}")
                x = left
        marked = start.node is not None and graph.marks(start.node)
        return (
            f'<path class="edge{" selected" if marked else ""}" d="{" ".join(parts)}" marker-end="url(#to)"/>'
        )

    boxes = (
        _box(graph, item.node, lefts[number], item.y - top + _MARGIN, widths[number])
        for number, column in enumerate(columns)
        for item in column
        if item.node is not None
    )
    return "\n".join([*_frame(graph, width, height), *map(edge, edges), *boxes, "</svg>", ""])


def _last_y(parts: list[str]) -> str:
    return parts[-1].rsplit(",", 1)[1]


def _frame(graph: StackGraph, width: float, height: float) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="Stacks and their dependencies">'
    )
    yield f"<style>{_STYLE}</style>"
    yield (
        '<defs><marker id="to" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'markerUnits="userSpaceOnUse" '
        'orient="auto-start-reverse"><path d="M0,0.5 L7,4 L0,7.5 z" fill="context-stroke"/></marker></defs>'
    )
    yield f'<rect class="page" width="{width:.0f}" height="{height:.0f}"/>'
    notes = ["arrows point to what a stack depends on"]
    nodes = [node for wave in graph.waves for node in wave]
    notes += ["blue: selected"] * any(map(graph.marks, nodes))
    notes += ["orange bar: production"] * any(node.production for node in nodes)
    yield f'<text class="note" x="{_MARGIN}" y="{height - 12:.0f}">{escape(" · ".join(notes))}</text>'


def _box(graph: StackGraph, node: Node, x: float, y: float, width: float) -> str:
    needs = f", needs {', '.join(node.depends_on)}" if node.depends_on else ""
    title = escape(f"{node.name}: {node.environment or 'no environment'}{needs}")
    shape = f'x="{x:.1f}" y="{y - _HEIGHT / 2:.1f}" height="{_HEIGHT:.0f}"'
    bar = f'<rect class="production" {shape} width="4"/>' if node.production else ""
    return (
        f'<g class="{"selected" if graph.marks(node) else "stack"}"><title>{title}</title>'
        f'<rect class="box" {shape} width="{width:.1f}" rx="4"/>{bar}'
        f'<text x="{x + _PADDING:.1f}" y="{y + 4:.1f}">{escape(node.name)}</text></g>'
    )


def _columns(graph: StackGraph) -> tuple[list[list[_Item]], list[list[_Item]]]:
    """The items of each wave, and the items that each arrow goes through, from dependent to dependency."""
    columns = [[_Item(node=node, left=[], right=[]) for node in wave] for wave in graph.waves]
    boxes = {
        item.node.name: (number, item)
        for number, column in enumerate(columns)
        for item in column
        if item.node
    }
    edges: list[list[_Item]] = []
    for name, other in graph.edges:
        (start, item), (end, target) = boxes[name], boxes[other]
        path = [item]
        for number in range(start - 1, end, -1):
            path.append(_Item(node=None, left=[], right=[]))
            columns[number].append(path[-1])
        path.append(target)
        for right, left in pairwise(path):
            right.left.append(left)
            left.right.append(right)
        edges.append(path)
    return columns, edges


def _place(columns: list[list[_Item]]) -> None:
    """Each item near the middle of its neighbours; columns are gone through in both directions in turn."""
    for column in columns:
        _stack(column, [float(number) for number in range(len(column))])
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        for column in columns if forward else reversed(columns):
            wanted = {id(item): _middle(item, item.left if forward else item.right) for item in column}
            column.sort(key=lambda item: wanted[id(item)])
            _stack(column, [wanted[id(item)] for item in column])


def _middle(item: _Item, neighbours: list[_Item]) -> float:
    return sum(other.y for other in neighbours) / len(neighbours) if neighbours else item.y


def _stack(column: list[_Item], wanted: list[float]) -> None:
    """In this order and without overlap, as near as possible to the wanted places."""
    y = float("-inf")
    for number, item in enumerate(column):
        room = (column[number - 1].height + item.height) / 2 if number else 0.0
        y = max(wanted[number], y + room) if number else wanted[number]
        item.y = y
    shift = sum(place - item.y for place, item in zip(wanted, column, strict=True)) / max(len(column), 1)
    for item in column:
        item.y += shift
