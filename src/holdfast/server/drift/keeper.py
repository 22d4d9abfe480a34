"""Looks for drift of the stacks of registered repositories, when workers have nothing else to do.

Every step is a transaction of its own, and may be repeated: several servers on one database may do it, and
one that was killed leaves nothing that the next one does not take up. No stack is dropped: what could not
be looked at is due again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.config.server import DriftServerSettings
from holdfast.database.database import Database
from holdfast.drift.alerts import due_alert
from holdfast.drift.schedule import due_after_failure, next_due
from holdfast.drift.telling import AlertSink, remember
from holdfast.identity.principal import DEFAULT_TENANT, Principal
from holdfast.identity.roles import Role
from holdfast.kernel.errors import HoldfastError
from holdfast.notify.alerts.alert import Alert, AlertKind, Severity
from holdfast.notify.alerts.server_sink import raise_alert
from holdfast.server.audit_log import TenantStores
from holdfast.server.edge import Log
from holdfast.store.drift import StackDrift, StackStatus
from holdfast.store.server_drift import rows
from holdfast.store.server_drift.rows import DriftStack, EndedListing, EndedLook, LookEnd
from holdfast.store.server_runs.contents import ChangeOptions, DriftTask, drift_list_name, write_options
from holdfast.store.server_runs.phases import Operation
from holdfast.store.server_runs.rows import ChangeRows, NewChange
from holdfast.store.server_runs.sources import SourceRows
from holdfast.system import clock

SCHEDULE: Final = "schedule"
"""The kind of the principal: no person asked for it."""
PRIORITY: Final = 0
"""Below plans and applies."""
_LOST: Final = timedelta(minutes=5)


class DriftKeeper(Struct, frozen=True, kw_only=True):
    database: Database
    stores: TenantStores
    settings: DriftServerSettings
    log: Log
    sink: AlertSink | None = None
    now: Callable[[], datetime] = clock.now

    def run(self) -> int:
        """How many listings and looks were recorded."""
        now = self.now()
        with self.database.transaction() as connection:
            rows.know_repositories(connection)
            gone = rows.orphans(connection)
        for tenant, stack in gone:
            self._forget(tenant, stack)
        done = self._record_listings(now) + self._record_looks(now)
        self._submit_listings(now)
        self._submit_looks(now)
        return done

    # Repositories

    def _submit_listings(self, now: datetime) -> None:
        before = now - timedelta(seconds=self.settings.refresh)
        with self.database.transaction() as connection:
            due = [
                (tenant, repository, clock.new_id())
                for tenant, repository in rows.repositories_to_list(connection, before)
            ]
            for tenant, repository, change in due:
                rows.begin_listing(connection, tenant, repository, change, now)
        for tenant, repository, change in due:
            who = _who(tenant, Role.PLANNER)
            source = SourceRows(self.database).add_commit(
                tenant, repository=repository, wanted=None, by=who.name
            )
            reason = "reading the schedule of drift"
            self._submit(tenant, change, source.id, (), who, DriftTask.LIST, Operation.PLAN, reason)

    def _record_listings(self, now: datetime) -> int:
        with self.database.transaction() as connection:
            ended = rows.ended_listings(connection, now - _LOST)
            for listing in ended:
                self._record_listing(connection, listing, now)
        return len(ended)

    def _record_listing(self, connection: Any, listing: EndedListing, now: datetime) -> None:
        name = drift_list_name(listing.change)
        encrypted = self.stores.within(listing.tenant, connection).encrypted
        blob = encrypted.read(name) if not listing.lost else None
        if blob is None:
            error = listing.error or {"code": "HF-DRIFT-8", "message": "the repository could not be read"}
            rows.end_listing(connection, listing, now, schedule=None, error=error)
            return
        encrypted.remove(name)
        document = msgspec.json.decode(blob.data, type=dict[str, Any])
        rows.end_listing(connection, listing, now, schedule=document, error=None)
        schedule, zone, spread = document["schedule"], document["zone"], document["spread"]
        # Also a change of zone or spread makes new moments.
        text = None if schedule is None else f"{schedule} {zone} {spread}"
        for stack in document["stacks"]:
            due = next_due(schedule, zone, spread, f"{listing.tenant}/{stack['stack']}", now)
            rows.know_stack(connection, listing, stack, text, due)
        names = [stack["stack"] for stack in document["stacks"]]
        for tenant, stack in rows.unlisted(connection, listing, names):
            self._tell_gone(tenant, stack)
            rows.forget_stack(connection, tenant, stack)

    # Stacks

    def _submit_looks(self, now: datetime) -> None:
        with self.database.transaction() as connection:
            due = [
                (stack, clock.new_id()) for stack in rows.due_stacks(connection, now, self.settings.at_once)
            ]
            for stack, change in due:
                rows.begin_look(connection, stack, change, now)
        for stack, change in due:
            who = _who(stack.tenant, Role.PLANNER)
            self._submit(
                *(stack.tenant, change, str(stack.source), (stack.stack,), who),
                *(DriftTask.LOOK, Operation.PLAN, "drift"),
            )

    def _record_looks(self, now: datetime) -> int:
        with self.database.transaction() as connection:
            ended = rows.ended_looks(connection, now - _LOST)
            heals = [
                (look, known, clock.new_id())
                for look in ended
                if (known := self._record_look(connection, look, now)) is not None
            ]
            for look, _, change in heals:
                rows.begin_look(connection, look, change, now, healing=True)
        for look, known, change in heals:
            who = _who(look.tenant, Role.OPERATOR)
            reason = f"healing drift: {'; '.join(known.healing)}"
            self._submit(
                *(look.tenant, change, str(look.source), (look.stack,), who),
                *(DriftTask.HEAL, Operation.APPLY, reason),
            )
        return len(ended)

    def _record_look(self, connection: Any, look: EndedLook, now: datetime) -> StackDrift | None:
        """Answers what is known if it is to be healed."""
        store = self.stores.of(look.tenant)
        known = store.drift.of(look.stack)
        tried = known is not None and known.tried is not None and known.tried >= (look.submitted or now)
        if look.healing:
            # It is looked at again; while the plan waits for an approval, at its next moment.
            waits = rows.has_apply(connection, look.tenant, look.stack)
            due = self._regular(look, now) if waits else now
            rows.end_look(connection, look, _end(look, known, now, due=due))
            return None
        worked = tried and known is not None and known.status is not StackStatus.NOT_CHECKED
        attempts = 0 if worked else look.attempts + 1
        regular = self._regular(look, now)
        due = regular if worked else due_after_failure(regular, attempts, now)
        shown = known if tried else None
        rows.end_look(connection, look, _end(look, shown, now, due=due, attempts=attempts))
        if known is None or not worked:
            return None
        self._tell(look, known, now)
        heals = known.healing and not rows.has_apply(connection, look.tenant, look.stack)
        return known if heals else None

    @staticmethod
    def _regular(look: EndedLook, now: datetime) -> datetime | None:
        key = f"{look.tenant}/{look.stack}"
        return next_due(look.cron, look.zone or "UTC", look.spread or 0.0, key, now)

    def _tell(self, look: DriftStack, known: StackDrift, now: datetime) -> None:
        """People hear of it at least once. A failure is logged, and tried again with the next look."""
        about = {
            "tenant": look.tenant,
            "environment": look.environment,
            "production": look.production,
            "target": look.target,
        }
        alert = due_alert(known, now, **about)
        if alert is not None and self._send((alert,)):
            remember(self.stores.of(look.tenant), known, now)

    def _send(self, alerts: Sequence[Alert]) -> bool:
        if self.sink is None:
            return False
        try:
            self.sink(alerts)
        except Exception as error:  # noqa: BLE001 - an alert never fails a look
            known = isinstance(error, HoldfastError)
            message = error.problem.message if known else type(error).__name__  # type: ignore[attr-defined]
            self.log.error("alert waits", message=message)  # noqa: TRY400 - its text may quote a value
            return False
        return True

    def _forget(self, tenant: str, stack: str) -> None:
        self._tell_gone(tenant, stack)
        with self.database.transaction() as connection:
            rows.forget_stack(connection, tenant, stack)

    def _tell_gone(self, tenant: str, stack: str) -> None:
        """A stack that is no longer in its repository raises no alerts any more."""
        known = self.stores.of(tenant).drift.of(stack)
        if known is None or known.alerted is None:
            return
        self._send(
            (
                Alert(
                    kind=AlertKind.DRIFT,
                    key=f"drift:{stack}",
                    resolved=True,
                    severity=Severity.INFO,
                    title=f"{stack}: the stack is no longer looked at",
                    since=known.alert_since or self.now(),
                    tenant=tenant,
                    stack=stack,
                    environment=known.environment or None,
                ),
            )
        )

    def _submit(
        self,
        tenant: str,
        change: str,
        source: str,
        patterns: tuple[str, ...],
        who: Principal,
        task: DriftTask,
        operation: Operation,
        reason: str,
    ) -> None:
        write_options(self.stores.of(tenant).encrypted, change, ChangeOptions(drift=task))
        ChangeRows(self.database).submit(
            NewChange(
                id=change,
                tenant=tenant,
                operation=operation,
                source=source,
                requester=who,
                patterns=patterns,
                reason=reason,
                priority=PRIORITY,
            )
        )


def raise_alerts(database: Database, stores: TenantStores, alerts: Sequence[Alert]) -> None:
    """Into the outbox of their tenant, from which the server's notifier sends them."""
    for alert in alerts:
        tenant = alert.tenant or DEFAULT_TENANT
        with database.transaction() as connection:
            raise_alert(connection, stores.within(tenant, connection).encrypted, tenant, alert)


# Pure


def _who(tenant: str, role: Role) -> Principal:
    return Principal(id="", name="drift", kind=SCHEDULE, role=role, tenant=tenant)


def _end(
    look: EndedLook, known: StackDrift | None, now: datetime, *, due: datetime | None, attempts: int = 0
) -> LookEnd:
    """A stack that was not looked at is not in sync; what was known of its findings stays."""
    if known is None:
        return LookEnd(
            due=due,
            attempts=attempts,
            status=StackStatus.NOT_CHECKED.value,
            unapplied=look.unapplied,
            findings=look.findings,
            checked=look.checked,
            tried=now,
        )
    return LookEnd(
        due=due,
        attempts=attempts,
        status=known.status.value,
        unapplied=known.unapplied,
        findings=len(known.open),
        checked=known.checked,
        tried=known.tried,
    )
