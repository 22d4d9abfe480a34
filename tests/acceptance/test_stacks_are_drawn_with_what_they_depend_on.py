"""`holdfast graph`: stacks, their dependencies and the selection, in every format."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from program import Program

NEEDS = {"network": [], "db": ["network"], "app": ["db", "network"], "other": []}


def repository(holdfast: Program) -> None:
    stacks = ", ".join(
        f"{{name: prod/{name}, module: m, environment: prod, depends_on: {[f'prod/{one}' for one in needs]}}}"
        for name, needs in NEEDS.items()
    )
    holdfast.write("holdfast.yaml", f"version: 1\nstacks: [{stacks}]\n")
    holdfast.write("m/main.tf", 'output "x" {\n  value = 1\n}\n')


def test_the_whole_repository_by_wave(holdfast: Program) -> None:
    repository(holdfast)
    shown = holdfast.ok("graph").out
    assert "4 stacks in 3 waves" in shown
    assert shown.index("prod/other") < shown.index("wave 2") < shown.index("prod/db ")
    assert "prod/app      needs prod/db, prod/network" in shown
    assert "→" not in shown
    document = holdfast.json("graph")
    assert {one["name"]: (one["wave"], one["selected"]) for one in document["stacks"]} == {
        "prod/network": (1, True), "prod/other": (1, True), "prod/db": (2, True), "prod/app": (3, True),
    }  # fmt: skip
    assert holdfast.json("graph", "--format", "png", code=64)["errors"][0]["code"] == "HF-USE-22"


def test_a_selection_is_marked_among_its_relatives(holdfast: Program) -> None:
    """By name, and by a changed file; stacks that have nothing to do with it are left out."""
    repository(holdfast)
    shown = holdfast.ok("graph", "prod/db").out
    assert "   → prod/db" in shown
    assert "     prod/app" in shown
    assert "prod/other" not in shown
    assert shown == holdfast.ok("graph", "prod/db", "--changed", "m/main.tf").out
    dot = holdfast.ok("graph", "prod/db", "--format", "dot").out
    assert re.search(r'^  "prod/db" \[style="bold,filled"', dot, re.MULTILINE)
    assert '  "prod/app" -> "prod/db";\n' in dot
    mermaid = holdfast.ok("graph", "prod/db", "--format", "mermaid").out
    ids = dict(re.findall(r'(s\d+)\["([^"]+)"\]', mermaid))
    edges = {(ids[one], ids[other]) for one, other in re.findall(r"(s\d+) --> (s\d+)", mermaid)}
    assert edges == {("prod/db", "prod/network"), ("prod/app", "prod/db"), ("prod/app", "prod/network")}
    assert [ids[one] for one in re.findall(r"class (s\d+) selected", mermaid)] == ["prod/db"]
    image = ET.fromstring(holdfast.ok("graph", "prod/db", "--format", "svg").out)  # noqa: S314 - our own
    svg = "{http://www.w3.org/2000/svg}"
    marked = [group for group in image.iter(f"{svg}g") if group.get("class") == "selected"]
    assert [group.findtext(f"{svg}text") for group in marked] == ["prod/db"]
    assert len([path for path in image.iter(f"{svg}path") if path.get("marker-end")]) == 3
