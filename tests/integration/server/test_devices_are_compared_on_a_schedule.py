"""Which devices the server compares with reality by itself, and when."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fleet_played import PlayedFleet
from postgres_made import MadePostgres

from holdfast.config.server import FleetSettings
from holdfast.database.database import Database
from holdfast.server.fleet.drift import FleetDrift
from holdfast.store.fleet.drift import due_devices

DEVICES = 20
DAY = 86400


@pytest.fixture
def fleet(postgres: MadePostgres) -> Iterator[PlayedFleet]:
    """With devices that exist, one that does not, and one that an event changes now."""
    with postgres.new_database() as address, Database.open(address) as database:
        fleet = PlayedFleet(database)
        for number in range(DEVICES):
            fleet.submit("create", f"d{number}", number)
            fleet.work()
        fleet.submit("delete", "d0")
        fleet.work()
        fleet.submit("update", "d1", 99)
        yield fleet


def due(fleet: PlayedFleet, *, sample: int = 100, at_once: int = 1000, interval: float = DAY) -> set[str]:
    with fleet.database.transaction() as connection:
        found = due_devices(connection, interval=interval, sample=sample, at_once=at_once)
        return {device.resource_id for device in found}


def test_every_device_is_compared_once_in_an_interval(fleet: PlayedFleet) -> None:
    """Some at a time, at a lower priority than any event, and not those that are absent or being changed."""
    everyone = {f"d{number}" for number in range(2, DEVICES)}
    assert due(fleet) == everyone
    looks = FleetDrift(
        database=fleet.database, stores=fleet.stores, settings=FleetSettings(drift_interval=DAY)
    )
    looks.run()
    begun = everyone - due(fleet, at_once=1000)
    assert 0 < len(begun) < len(everyone)
    looks.run()
    assert everyone - due(fleet, at_once=1000) == begun, "more begins only when these have ended"
    later = min(everyone - begun)
    fleet.submit("update", later, 100)
    for device in ("d1", later):
        urgent = fleet.worker.claim()
        assert urgent is not None
        assert urgent.runs[0].stack.endswith(f"/{device}"), "a comparison came before an event"
        fleet.begin(urgent)
        fleet.end(urgent, "applied")
    for _ in begun:
        look = fleet.worker.claim()
        assert look is not None
        fleet.end(look, "unchanged")
    looks.run()
    assert not begun & due(fleet)
    with fleet.database.transaction() as connection:
        connection.execute("update devices set drift_checked = drift_checked - interval '25 hours'")
    assert begun <= due(fleet)


def test_a_sample_is_a_part_of_the_devices(fleet: PlayedFleet) -> None:
    """The same part in the whole interval; a larger sample has all of a smaller one."""
    parts = [due(fleet, sample=percent) for percent in (0, 30, 60, 100)]
    assert parts[0] == set()
    assert parts[0] <= parts[1] <= parts[2] <= parts[3]
    assert len(parts[3]) == DEVICES - 2
    assert due(fleet, sample=30) == parts[1]
    others = [due(fleet, sample=30, interval=DAY + shift) for shift in range(1, 6)]
    assert any(other != parts[1] for other in others), "it is always the same part"
