"""In every format: each stack once, each dependency once, and in the image nothing covers anything else."""

from __future__ import annotations

import itertools
import json
import re
import xml.etree.ElementTree as ET
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.stacks.graph import Node, StackGraph
from holdfast.stacks.graph_formats import FORMATS

SVG = "{http://www.w3.org/2000/svg}"
NAMES = st.text(alphabet='ab/.-_<>&"#[]\\;', min_size=1, max_size=12)


@st.composite
def graphs(draw: st.DrawFn) -> StackGraph:
    names = draw(st.lists(NAMES, min_size=1, max_size=14, unique=True))
    cuts = sorted([*draw(st.lists(st.integers(1, len(names)), max_size=4, unique=True)), 0, len(names)])
    waves: list[tuple[Node, ...]] = []
    for start, end in itertools.pairwise(cuts):
        earlier = names[:start]
        wave = tuple(
            Node(
                name=name,
                environment=None,
                production=draw(st.booleans()),
                depends_on=tuple(draw(st.lists(st.sampled_from(earlier), unique=True)) if earlier else ()),
            )
            for name in names[start:end]
        )
        waves += [wave] if wave else []
    return StackGraph(waves=tuple(waves), selected=frozenset(draw(st.lists(st.sampled_from(names)))))


@given(graph=graphs())
def test_text_formats_hold_the_whole_graph(graph: StackGraph) -> None:
    nodes = [node for wave in graph.waves for node in wave]
    string = r'"((?:[^"\\]|\\.)*)"'
    dot = FORMATS["dot"](graph)
    edges = re.findall(f"^  {string} -> {string};$", dot, re.MULTILINE)
    assert [tuple(json.loads(f'"{text}"') for text in edge) for edge in edges] == list(graph.edges)
    mermaid = FORMATS["mermaid"](graph)
    boxes = dict(re.findall(r'^  (s\d+)\["([^"]*)"\]$', mermaid, re.MULTILINE))
    names = {key: re.sub(r"#(\d+);", lambda code: chr(int(code[1])), text) for key, text in boxes.items()}
    assert list(names.values()) == [node.name for node in nodes]
    arrows = re.findall(r"^  (s\d+) --> (s\d+)$", mermaid, re.MULTILINE)
    assert [(names[one], names[other]) for one, other in arrows] == list(graph.edges)


@given(graph=graphs())
def test_the_image_has_room_for_everything(graph: StackGraph) -> None:
    image = ET.fromstring(FORMATS["svg"](graph))  # noqa: S314 - our own
    groups = [group for group in image.iter(f"{SVG}g") if group.get("class") in {"stack", "selected"}]
    assert sorted(group.findtext(f"{SVG}text") or "" for group in groups) == sorted(
        node.name for wave in graph.waves for node in wave
    )
    paths = [path.get("d", "") for path in image.iter(f"{SVG}path") if path.get("marker-end")]
    assert len(paths) == len(graph.edges)
    boxes = [_box(group.find(f"{SVG}rect")) for group in groups]
    width, height = float(image.get("width", 0)), float(image.get("height", 0))
    for number, (left, top, right, bottom) in enumerate(boxes):
        assert left >= 0 <= top
        assert right <= width
        assert bottom <= height
        for other in boxes[:number]:
            apart = right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top
            assert apart
        for path in paths:
            for x, y in re.findall(r"L(-?[\d.]+),(-?[\d.]+)", path):
                inside = left <= float(x) < right and top < float(y) < bottom
                assert not inside, "an arrow passes through a box"


def _box(rect: Any) -> tuple[float, float, float, float]:
    x, y, width, height = (float(rect.get(name)) for name in ("x", "y", "width", "height"))
    return x, y, x + width, y + height
