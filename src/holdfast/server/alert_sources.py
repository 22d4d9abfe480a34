"""Alerts about what happens on the server: runs, events of devices, break-glass acts.

A signal says only what to look at: the alert is what is true when it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.audit.break_glass import open_break_glass
from holdfast.changes.alerts import alerts_from_acts, key_of, resolved
from holdfast.database.database import Database
from holdfast.notify.alerts.alert import Alert, AlertKind, Severity
from holdfast.notify.alerts.outbox import Outbox
from holdfast.server.audit_log import TenantStores
from holdfast.store.alert_signals import Signal
from holdfast.store.database_blobs import read_several
from holdfast.store.fleet.rows import Event, FleetRows
from holdfast.store.fleet.rules import EventStatus
from holdfast.store.run_store import RunStore
from holdfast.store.server_runs.contents import result_name
from holdfast.store.server_runs.phases import Operation, RunPhase
from holdfast.store.server_runs.rows import ChangeRows, Run, RunRows
from holdfast.system import clock

_ENDED: Final = (AlertKind.FAILED, AlertKind.UNKNOWN, AlertKind.WAITING)
_GOOD: Final = frozenset({"applied", "unchanged"})


class AlertSources(Struct, frozen=True, kw_only=True):
    database: Database
    stores: TenantStores
    url: str | None = None
    """Where people reach the server."""

    def alerts(self, tenant: str, signal: Signal, outbox: Outbox) -> Iterator[Alert]:
        match signal.kind:
            case "run":
                run = RunRows(self.database).of(signal.subject)
                if run is not None:
                    yield from self._of_run(run)
            case "event":
                event = FleetRows(self.database).event(signal.subject)
                if event is not None:
                    yield from self._of_event(event)
            case "acts":
                yield from self._of_acts(tenant, outbox)

    def _of_run(self, run: Run) -> Iterator[Alert]:
        change = ChangeRows(self.database).of(run.change)
        device = change is not None and change.event is not None
        now = clock.now()
        if run.phase is not RunPhase.WAITING:
            yield resolved(AlertKind.WAITING, run.stack, now)
        if run.phase is RunPhase.WAITING and run.status == "waiting":
            title = f"{run.stack}: a plan waits for approval"
            decide = f"holdfast runs approve {run.id} --server"
            step = f"holdfast runs show {run.id} --plan --server, then: {decide}"
            yield self._alert(AlertKind.WAITING, Severity.INFO, run, title, step)
        if run.phase is not RunPhase.DONE or run.operation is Operation.PLAN or device:
            return  # The event of a device says how it ended: a failed attempt may be repeated.
        if run.status in _GOOD:
            yield resolved(AlertKind.FAILED, run.stack, now)
            yield resolved(AlertKind.UNKNOWN, run.stack, now)
        elif run.status == "failed":
            if run.operation is Operation.RECONCILE:
                yield resolved(AlertKind.UNKNOWN, run.stack, now)
            title = f"{run.stack}: the {run.operation} failed"
            step = f"holdfast runs log {run.id} --server"
            yield self._alert(AlertKind.FAILED, Severity.ERROR, run, title, step)
        elif run.status == "unknown":
            title = f"{run.stack}: the outcome of the {run.operation} is unknown"
            step = f"holdfast runs reconcile {run.id} --server"
            yield self._alert(AlertKind.UNKNOWN, Severity.CRITICAL, run, title, step)

    def _alert(self, kind: AlertKind, severity: Severity, run: Run, title: str, step: str) -> Alert:
        result = self._result(run.tenant, run.id)
        production = result.get("production") is not False
        if severity is Severity.ERROR and not production:
            severity = Severity.WARNING
        return Alert(
            kind=kind,
            key=key_of(kind, run.stack),
            severity=severity,
            title=title,
            details=tuple(_reasons(result)),
            next_step=step,
            link=self._link(f"runs/{run.id}"),
            since=run.since or run.ended or run.created,
            tenant=run.tenant,
            stack=run.stack,
            environment=run.environment,
            production=production,
            target=run.target,
            run=run.id,
        )

    def _of_event(self, event: Event) -> Iterator[Alert]:
        now = clock.now()
        if event.status is EventStatus.SUCCEEDED:
            yield from (resolved(kind, event.stack, now) for kind in _ENDED)
            return
        if event.status not in {EventStatus.FAILED, EventStatus.UNKNOWN}:
            return
        unknown = event.status is EventStatus.UNKNOWN
        kind = AlertKind.UNKNOWN if unknown else AlertKind.FAILED
        if not unknown:
            yield resolved(AlertKind.UNKNOWN, event.stack, now)
        device = f"{event.blueprint} {event.resource_id}"
        how = "has an unknown outcome" if unknown else "failed"
        reconcile = f"holdfast runs reconcile {event.run} --server"
        error = event.error or {}
        shown = f"{error['code']}: {error.get('message')}" if error.get("code") else None
        yield Alert(
            kind=kind,
            key=key_of(kind, event.stack),
            severity=Severity.CRITICAL if unknown else Severity.ERROR,
            title=f"{device}: {event.action} {how}",
            details=(shown,) if shown else tuple(_reasons(self._result(event.tenant, event.run))),
            next_step=reconcile if unknown else f"holdfast events show {event.id}",
            link=self._link(f"events/{event.id}"),
            since=event.updated,
            tenant=event.tenant,
            stack=event.stack,
            production=True,
            run=event.run,
        )

    def _of_acts(self, tenant: str, outbox: Outbox) -> Iterator[Alert]:
        store: RunStore = self.stores.of(tenant)
        told = {
            issue.alert.stack
            for issue in outbox.open
            if issue.alert.kind is AlertKind.BREAK_GLASS and issue.alert.stack is not None
        }
        now: datetime = clock.now()
        for alert in alerts_from_acts(open_break_glass(store), told, {}, link=None, now=now):
            yield msgspec.structs.replace(alert, tenant=tenant)

    def _result(self, tenant: str, run: str) -> dict[str, Any]:
        """What the worker stored of the run, as `holdfast plan --json` prints it."""
        name = result_name(run)
        blob = read_several(self.stores.of(tenant).encrypted, [name]).get(name)
        return msgspec.json.decode(blob.data, type=dict[str, Any]) if blob is not None else {}

    def _link(self, path: str) -> str | None:
        return f"{self.url.rstrip('/')}/api/v1/{path}" if self.url is not None else None


def _reasons(result: dict[str, Any]) -> Iterator[str]:
    match result.get("error"):
        case {"code": str(code), "message": str(message)}:
            yield f"{code}: {message}"
    match result.get("guard"):
        case {"reasons": [*reasons]}:
            for reason in reasons:
                match reason:
                    case {"message": str(message)}:
                        yield message
