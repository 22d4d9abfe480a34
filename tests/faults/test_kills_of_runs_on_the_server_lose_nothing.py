"""SIGKILL of workers, supervisors, Terraform, the server and PostgreSQL during runs on the server.

In the end every run is final, nothing was applied twice or out of order, every object is in a state, and
nothing is locked. `make test` plays chosen moments, `make test-faults` hundreds of runs at random.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Program
from server_faults import CHOSEN, Scenario, World, drawn
from server_faults_checks import Checks, Violation
from server_fleet import Fleet, machines_there

from holdfast.secrets.server_key import load_server_key
from holdfast.system.environment import Environment
from provider.service import LabService

_RUNS = 20
"""In one scenario."""


def _scenarios() -> tuple[Scenario, ...]:
    if "SERVER_FAULTS" not in os.environ:
        return CHOSEN
    number, seed = int(os.environ["SERVER_FAULTS"]), int(os.environ.get("SEED", "0"))
    return tuple(drawn(seed + place, _RUNS) for place in range(-(-number // _RUNS)))


@pytest.mark.faults
@pytest.mark.parametrize(
    "scenario", _scenarios() or [pytest.param(None, marks=pytest.mark.skip("SERVER_FAULTS=0"))], ids=str
)
def test_kills_of_runs_on_the_server_lose_nothing(
    scenario: Scenario,
    with_lab: Program,
    tmp_path: Path,
    terraform_folder: Path,
    scratch: Path,
    record_property: Callable[[str, object], None],
) -> None:
    with_lab.environment["PATH"] = f"{terraform_folder}:{with_lab.environment['PATH']}"
    with_lab.environment["TMPDIR"] = str(scratch)
    record_property("scenario", str(scenario))
    fleet = Fleet(
        with_lab, tmp_path, workers=scenario.workers, machines=scenario.machines if machines_there() else 1
    )
    with LabService() as lab, fleet.kept(), fleet.database() as database:
        world = World(fleet, database, lab)
        key = load_server_key(Environment(variables={}), fleet.data)
        assert key is not None
        checks = Checks(world, key.key)
        try:
            world.play(scenario)
            checks.settle()
            checks.check()
        except Violation as broken:
            record_property("violation", broken.what)
            raise
        finally:
            record_property("server", world.played.document())
