"""SIGKILL of workers and of PostgreSQL while clients send events, many of them twice.

In the end each device has the payload of its last event, no event is lost, and the vendor's service was asked
for nothing twice. `make test` plays a few dozen events, `make test-faults` thousands (FLEET_FAULTS).
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from fleet_faults import FleetWorld, drawn, make_site
from program import Program
from server_faults import Client
from server_fleet import Fleet, Victim

from holdfast.identity.principal import DEFAULT_TENANT, Principal
from holdfast.identity.roles import Role
from holdfast.identity.token_rows import TokenRows
from provider.service import LabService

_EVENTS = int(os.environ.get("FLEET_FAULTS", "30"))
_DEVICES = max(6, _EVENTS // 10)
_SEED = int(os.environ.get("SEED", "1"))
_VICTIMS = (Victim.WORKER, Victim.POSTGRES, Victim.WORKERS, Victim.CONNECTION)


@pytest.mark.faults
@pytest.mark.skipif(not _EVENTS, reason="FLEET_FAULTS=0")
def test_kills_lose_no_event_of_a_device(
    with_lab: Program, tmp_path: Path, scratch: Path, record_property: Callable[[str, object], None]
) -> None:
    with_lab.environment["TMPDIR"] = str(scratch)
    dice = random.Random(_SEED)  # noqa: S311 - kills, not keys
    events = drawn(dice, _EVENTS, _DEVICES)
    if "FLEET_FAULTS" in os.environ:
        kills = {place: dice.choice(_VICTIMS) for place in range(dice.randint(10, 60), _EVENTS, 50)}
    else:
        kills = {8: Victim.WORKER, 20: Victim.POSTGRES}
    with LabService() as lab:
        blueprints = make_site(tmp_path / "blueprints", lab)
        fleet = Fleet(with_lab, tmp_path, workers=2, machines=1, blueprints=blueprints)
        with fleet.kept(), fleet.database() as database:
            person = Principal(id="", name="ada", kind="token", role=Role.OPERATOR, tenant=DEFAULT_TENANT)
            token = TokenRows(database).create(person, created_by="tests").text
            world = FleetWorld(fleet, database, lab, Client(fleet.port, token), _SEED)
            world.play(events, kills)
            world.settle(seconds=300 + 2.0 * _EVENTS)
            world.check(events)
            assert any(hit for _, hit in world.kills)
            record_property("events", world.summary())
