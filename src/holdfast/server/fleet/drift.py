"""Compares devices with their states, by plans that only refresh, when workers have nothing else to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.config.server import FleetSettings
from holdfast.database.database import Database
from holdfast.identity.principal import Principal
from holdfast.identity.roles import Role
from holdfast.server.audit_log import TenantStores
from holdfast.store.database_blobs import write_several
from holdfast.store.fleet import drift
from holdfast.store.fleet.blueprints import BlueprintRows
from holdfast.store.fleet.queue import take_queue
from holdfast.store.server_runs.contents import ChangeOptions, options_name, result_name
from holdfast.system import clock

SCHEDULE: Final = "schedule"
"""The kind of the principal: no person asked for it."""
_AT_ONCE: Final = 4
_LOOKED: Final = frozenset({"planned", "unchanged", "waiting", "refused"})


class DriftFinding(Struct, frozen=True, kw_only=True):
    address: str
    attribute: str
    """Empty: the whole resource, which no longer exists."""
    before: Any
    after: Any


class FleetDrift(Struct, frozen=True, kw_only=True):
    database: Database
    stores: TenantStores
    settings: FleetSettings

    def run(self) -> int:
        """Record what was found, and look at the next devices. How many were recorded."""
        checked = self._record()
        if self.settings.drift_interval is not None:
            with self.database.transaction() as connection:
                due = drift.due_devices(
                    connection,
                    interval=self.settings.drift_interval,
                    sample=self.settings.drift_sample,
                    at_once=_AT_ONCE,
                )
            for device in due:
                self.look(device.tenant, device.blueprint, device.resource_id)
        return checked

    def look(self, tenant: str, blueprint: str, resource_id: str) -> bool:
        """At one device now. False: it does not exist, or is being looked at."""
        self.stores.of(tenant).id()  # Who has the queue needs no second connection.
        with self.database.transaction() as connection:
            take_queue(connection)
            device = drift.one_device(connection, tenant, blueprint, resource_id)
            if device is None:
                return False
            self._submit(connection, device)
        return True

    def _submit(self, connection: Any, device: drift.DueDevice) -> None:
        who = Principal(
            id="", name="drift of devices", kind=SCHEDULE, role=Role.PLANNER, tenant=device.tenant
        )
        change = drift.submit_look(connection, device, who)
        options = {options_name(change): msgspec.json.encode(ChangeOptions(refresh_only=True))}
        write_several(self.stores.of(device.tenant).encrypted, options, connection)

    def _record(self) -> int:
        with self.database.transaction() as connection:
            devices = drift.checked_devices(connection)
        offered = BlueprintRows(self.database).all() if devices else {}
        for device in devices:
            known = offered.get(device.blueprint)
            found = self._found(device, known.not_read if known is not None else ())
            with self.database.transaction() as connection:
                drift.record_drift(connection, device, found)
        return len(devices)

    def _found(self, device: drift.CheckedDevice, not_read: Sequence[str]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        if device.run is not None:
            blob = self.stores.of(device.tenant).encrypted.read(result_name(device.run))
            result = msgspec.json.decode(blob.data, type=dict[str, Any]) if blob is not None else {}
        return drift_record(device, result, not_read)


# Pure


def drift_record(
    device: drift.CheckedDevice, result: Mapping[str, Any], not_read: Sequence[str]
) -> dict[str, Any]:
    """What its row says, without values. A device that could not be compared is never in sync."""
    looked = device.status in _LOOKED
    drifted = any(findings_of(result))
    return {
        "status": "not_checked" if not looked else "drifted" if drifted else "in_sync",
        "checked": clock.now().isoformat(),
        "run": device.run,
        "not_looked_at": list(not_read),
    }


def findings_of(result: Mapping[str, Any]) -> Iterator[DriftFinding]:
    for resource in result.get("resources") or ():
        if not resource["drift"]:
            continue
        before, after = resource["before"] or {}, resource["after"]
        if after is None:
            yield DriftFinding(address=resource["address"], attribute="", before=None, after=None)
            continue
        for name in sorted(before.keys() | after.keys()):
            if before.get(name) != after.get(name):
                yield DriftFinding(
                    address=resource["address"],
                    attribute=name,
                    before=before.get(name),
                    after=after.get(name),
                )
