"""SIGKILL of whoever has a part in an apply, at every moment of it, wherever the state lives.

In the end no object is unknown to both state and reconcile, nothing was made twice, nothing is locked or left
running, and the change is done. `make test` plays chosen ones, `make test-faults` hundreds at random.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from engines import engine_under_test
from faults_scenarios import CHOSEN, Engine, Scenario, drawn, parse
from faults_story import Violation, played
from faults_world import World, places
from program import Program

from holdfast.terraform.engine.interface import Product
from holdfast.terraform.engine.pool import library_path
from provider.service import LabService

_NAMES = {
    Engine.EMBEDDED: "embedded-terraform",
    Engine.TOFU: "embedded-tofu",
    Engine.BINARY: "terraform",
}


def _scenarios() -> tuple[Scenario, ...]:
    """Those named in SCENARIO, or FAULTS of them drawn with SEED, or the chosen ones.

    They are drawn for the engines in ENGINES, or for those that are installed.
    """
    if named := os.environ.get("SCENARIO"):
        return tuple(parse(text) for text in named.split())
    if number := os.environ.get("FAULTS"):
        installed = [one for one in Engine if one is not Engine.TOFU or library_path(Product.TOFU)]
        engines = [Engine(name) for name in os.environ.get("ENGINES", "").split()] or installed
        return tuple(itertools.islice(drawn(int(os.environ["SEED"]), engines), int(number)))
    return CHOSEN


@pytest.mark.faults
@pytest.mark.parametrize(
    "scenario", _scenarios() or [pytest.param(None, marks=pytest.mark.skip("FAULTS=0"))], ids=str
)
def test_a_kill_loses_nothing(
    scenario: Scenario,
    with_lab: Program,
    tmp_path: Path,
    terraform_folder: Path,
    scratch: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """Whoever is killed, whenever: nothing is lost, made twice, locked for ever or leaked."""
    name = _NAMES[scenario.engine]
    engine_under_test(name, folder=tmp_path / "engine", terraform_folder=terraform_folder).install(with_lab)
    with_lab.environment["TMPDIR"] = str(scratch)
    record_property("scenario", str(scenario))
    with LabService() as lab, places(scenario.home) as at:
        try:
            ending = played(World(scenario, with_lab, lab, at), with_lab.folder, with_lab.home, scratch)
        except Violation as broken:
            record_property("violation", broken.what)
            raise
    record_property("killed", ending.killed)
    record_property("reconciled", ending.reconciled)
