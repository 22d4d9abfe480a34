"""Drift on a server without Terraform: a worker that says what a test wants it to have found."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from drift_made import FakeTime, observed
from server_made import KEY, ListLog

from holdfast.config.server import DriftServerSettings
from holdfast.database.database import Database
from holdfast.drift.observation import Observation
from holdfast.drift.stack_drift import checked, failed
from holdfast.identity.principal import DEFAULT_TENANT
from holdfast.notify.alerts.alert import Alert
from holdfast.server.audit_log import TenantStores
from holdfast.server.drift.keeper import DriftKeeper
from holdfast.store.drift import StackDrift
from holdfast.store.server_drift.rows import DriftRows, DriftStack
from holdfast.store.server_runs.contents import DriftTask, drift_list_name, read_options
from holdfast.store.server_runs.phases import ChangePhase
from holdfast.store.server_runs.rows import Change, ChangeRows
from holdfast.store.server_runs.sources import RepositoryRows
from holdfast.system import clock

NIGHTLY: Final = "0 3 * * *"


class PlayedDrift:
    """One repository with some stacks, a keeper, and a worker that ends its changes."""

    def __init__(self, database: Database, stacks: Sequence[str], now: FakeTime, **settings: Any) -> None:
        self.database, self.now = database, now
        self.stores = TenantStores(database, KEY)
        self.store = self.stores.of(DEFAULT_TENANT)
        self.store.id()
        self.rows, self.changes = DriftRows(database), ChangeRows(database)
        self.schedule: dict[str, Any] = {"schedule": NIGHTLY, "zone": "UTC", "spread": 0.0}
        self.stacks = list(stacks)
        self.broken: set[str] = set()
        self.found: dict[str, tuple[Observation, ...]] = {}
        self.heals: dict[str, tuple[str, ...]] = {}
        self.told: list[Alert] = []
        self.looked: list[tuple[datetime, str]] = []
        self.applied: list[str] = []
        self.settings = {"at_once": 1000, "refresh": 900.0, **settings}
        self.repository = RepositoryRows(database).add(
            DEFAULT_TENANT, name="infra", url="https://git/infra", branch="main", credentials=None, by="t"
        )
        self.restart()

    def restart(self) -> None:
        self.keeper = DriftKeeper(
            database=self.database,
            stores=self.stores,
            settings=DriftServerSettings(**self.settings),
            log=ListLog(),
            sink=self.told.extend,
            now=self.now,
        )

    def row(self, stack: str) -> DriftStack:
        row = self.rows.of(DEFAULT_TENANT, stack)
        assert row is not None
        return row

    def all_rows(self) -> dict[str, DriftStack]:
        return {row.stack: row for row in self.rows.list(DEFAULT_TENANT, limit=10_000)}

    def queued(self) -> list[Change]:
        return list(self.changes.list(DEFAULT_TENANT, phases=[ChangePhase.QUEUED], limit=2000))

    def step(self) -> int:
        """The keeper does what is due, and the worker all that was submitted. How many changes."""
        self.keeper.run()
        changes = self.queued()
        for change in reversed(changes):
            self.work(change)
        return len(changes)

    def settle(self) -> None:
        while self.step():
            pass

    def work(self, change: Change) -> None:
        task = read_options(self.store.encrypted, change.id).drift
        if task is DriftTask.LIST:
            named = ("environment", "target")
            stacks = [{"stack": name, "production": False, **dict.fromkeys(named)} for name in self.stacks]
            document = {**self.schedule, "stacks": stacks}
            self.store.encrypted.write(drift_list_name(change.id), msgspec.json.encode(document))
        for stack in change.patterns or ():
            if task is DriftTask.HEAL:
                self.applied.append(stack)
                self.found.pop(stack, None)
            else:
                self.looked.append((self.now(), stack))
                self.store.drift.update(stack, lambda known, stack=stack: self._look(stack, known))  # type: ignore[misc]
        self.end(change)

    def _look(self, stack: str, known: StackDrift | None) -> StackDrift:
        if stack in self.broken:
            return failed(known, stack, "dev", "s", self.now())
        after = checked(
            known, stack, "dev", "s", self.now(),
            observed=self.found.get(stack, ()), unapplied=False, new_id=clock.new_id,
        )  # fmt: skip
        return msgspec.structs.replace(after, healing=self.heals.get(stack, ()) if after.open else ())

    def end(self, change: Change) -> None:
        with self.database.transaction() as connection:
            connection.execute("update changes set phase = 'done' where id = %s", (change.id,))

    def drift_in(self, stack: str) -> None:
        self.found[stack] = (observed(),)

    def pass_until(self, moment: datetime, *, step: timedelta = timedelta(minutes=20)) -> None:
        while self.now() < moment:
            self.now.moment = min(moment, self.now() + step)
            self.settle()
