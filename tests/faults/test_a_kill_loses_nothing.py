"""SIGKILL of whoever has a part in an apply, at every moment of it, wherever the state lives.

In the end no object is unknown to both state and reconcile, nothing was made twice, nothing is locked or left
running, and the change is done. `make test` plays twenty of these, `make test-faults` hundreds at random.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from faults_scenarios import CHOSEN, Engine, Scenario, drawn, parse
from faults_story import Violation, played
from faults_world import World, places
from lab_stacks import with_engine
from program import Program

from provider.service import LabService


def _scenarios() -> tuple[Scenario, ...]:
    """Those named in SCENARIO, or FAULTS of them drawn with SEED, or the chosen twenty."""
    if named := os.environ.get("SCENARIO"):
        return tuple(parse(text) for text in named.split())
    if number := os.environ.get("FAULTS"):
        return tuple(itertools.islice(drawn(int(os.environ["SEED"])), int(number)))
    return CHOSEN


@pytest.mark.faults
@pytest.mark.parametrize("scenario", _scenarios(), ids=str)
def test_a_kill_loses_nothing(
    scenario: Scenario,
    with_lab: Program,
    terraform_folder: Path,
    scratch: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """Whoever is killed, whenever: nothing is lost, made twice, locked for ever or leaked."""
    if scenario.engine is Engine.BINARY:
        with_engine(with_lab, "binary", terraform_folder)
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
