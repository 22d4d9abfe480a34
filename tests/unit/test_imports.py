"""No module imports itself through others, whether at the top, in a function or for type checking only."""

import ast
from collections.abc import Collection, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import holdfast

ROOT = Path(holdfast.__file__).parent


def test_imports_form_no_cycle() -> None:
    files = {_name(file): file for file in ROOT.rglob("*.py")}
    graph = {name: set(_imports(file, files)) for name, file in files.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" imports ".join(reversed(error.args[1]))) from None


def _name(file: Path) -> str:
    return ".".join(("holdfast", *file.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


def _imports(file: Path, known: Collection[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            of_package = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in known else str(node.module) for name in of_package]
        else:
            continue
        yield from (name for name in names if name in known)
