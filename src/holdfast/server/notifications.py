"""Tells people what happens on the server, over the channels of `notify` in server.yaml.

One server at a time works on the outbox of a tenant (`store/alert_signals.py`): it puts what was signalled
into the outbox, in one transaction, and sends what is due.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from holdfast.config.notify import NotifySettings
from holdfast.config.secret_refs import SecretRef
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.secret import Secret
from holdfast.notify.alerts.delivery import Attempt, Delivery
from holdfast.notify.alerts.outbox import Outbox, with_alerts
from holdfast.notify.alerts.server_sink import alert_from
from holdfast.notify.alerts.status import status_of
from holdfast.notify.alerts.stored_outbox import StoredOutbox
from holdfast.notify.channels.interface import Access
from holdfast.secrets.reader import SecretReader
from holdfast.secrets.redact import Redactor
from holdfast.server.alert_sources import AlertSources
from holdfast.server.audit_log import TenantStores
from holdfast.server.delivery_loop import hold_delivery
from holdfast.server.edge import Log
from holdfast.store.alert_signals import (
    OUTBOX,
    AlertCounts,
    AlertSignals,
    TakenOutbox,
    read_raised,
    remove_raised,
    taken_signals,
)
from holdfast.store.database_blobs import tenants
from holdfast.system import clock
from holdfast.system.environment import Environment

INTERVAL: Final = 1.0
MARKS_INTERVAL: Final = 15.0
"""Seconds between two looks at the break-glass marks."""


class ServerChannels(Struct, frozen=True, kw_only=True):
    """The channels of server.yaml, for the outbox of any tenant."""

    stores: TenantStores
    settings: NotifySettings
    environment: Environment
    """Of the server: its certificates, proxies and secrets."""
    folder: Path
    """Of server.yaml: what paths of secrets are relative to."""
    log: Log

    def delivery(self, tenant: str) -> Delivery:
        """Secrets are read when they are used, so that a new one counts at once."""
        redactor, secrets = Redactor(), SecretReader(self.environment, self.folder)

        def read(ref: SecretRef) -> Secret:
            secret = secrets.read(ref)
            redactor.register(secret)
            return secret

        def report(attempt: Attempt) -> None:
            facts = {"tenant": tenant, "channel": attempt.channel, "message": attempt.message}
            if attempt.error is None:
                self.log.info("notification delivered", **facts)
            else:
                self.log.error("notification not delivered", **facts, reason=attempt.error, dead=attempt.dead)

        def say(line: str) -> None:
            self.log.info("notification", tenant=tenant, text=line)

        return Delivery(
            outbox=StoredOutbox(self.stores.of(tenant).encrypted, OUTBOX),
            settings=self.settings,
            access=Access(environment=self.environment, secret=read, say=say, now=clock.now),
            clean=redactor.clean,
            report=report,
        )


class NotificationWork(Struct, frozen=True, kw_only=True):
    signals: AlertSignals
    channels: ServerChannels
    sources: AlertSources

    def take(self) -> TakenOutbox | None:
        return self.signals.take() if self.channels.settings.routes else None

    def send(self, taken: TakenOutbox) -> None:
        due: datetime | None = clock.now()
        counts: AlertCounts | None = None
        try:
            self._collect(taken.tenant)
            delivery = self.channels.delivery(taken.tenant)
            due = delivery.deliver()
            counts = _counts(delivery)
        finally:
            self.signals.release(taken, due, counts)

    def report(self, error: Exception) -> None:
        known = isinstance(error, HoldfastError)
        reason = error.problem.code if known else type(error).__name__  # type: ignore[attr-defined]
        self.channels.log.error("notifications wait", reason=reason)

    def _collect(self, tenant: str) -> None:
        """What was signalled is in the outbox, or it is still signalled."""
        stores = self.channels.stores
        stores.of(tenant).id()  # Written with the first use, before the transaction.
        with self.signals.database.transaction() as connection:
            encrypted = stores.within(tenant, connection).encrypted
            signalled = taken_signals(connection, tenant)
            if not signalled:
                return
            ids = [signal.subject for signal in signalled if signal.kind == "alert"]
            raised = read_raised(connection, encrypted, ids)
            remove_raised(connection, tenant, ids)

            def step(outbox: Outbox) -> tuple[Outbox, None]:
                for signal in dict.fromkeys(signalled):
                    if signal.kind == "alert":
                        content = raised.get(signal.subject)
                        found = [] if content is None else [alert_from(content)]
                    else:
                        found = list(self.sources.alerts(tenant, signal, outbox))
                    alerts = tuple(structs.replace(alert, tenant=tenant) for alert in found)
                    outbox = with_alerts(outbox, alerts, clock.now(), clock.new_id)
                return outbox, None

            StoredOutbox(encrypted, OUTBOX).change(step)


def _counts(delivery: Delivery) -> AlertCounts:
    status = status_of(delivery.outbox.read(), delivery.rules, delivery.access.now())
    dead = sum(message.dead is not None for message in status.messages)
    return AlertCounts(open=len(status.alerts), pending=len(status.messages) - dead, dead=dead)


class _MarksWatch:
    """Signals that break-glass marks changed, whoever wrote them."""

    def __init__(self, work: NotificationWork) -> None:
        self._work = work
        self._seen: dict[str, tuple[tuple[str, str], ...]] = {}

    def look(self) -> None:
        signals = self._work.signals
        if not self._work.channels.settings.routes:
            signals.discard()
            return
        for tenant in tenants(signals.database):
            marks = signals.marks(tenant)
            if marks != self._seen.get(tenant):
                signals.signal(tenant, "acts")
                self._seen[tenant] = marks


@contextmanager
def hold_notifications(
    work: NotificationWork, *, interval: float = INTERVAL, marks_interval: float = MARKS_INTERVAL
) -> Iterator[None]:
    ended, watch = threading.Event(), _MarksWatch(work)

    def look() -> None:
        while True:
            try:
                watch.look()
            except Exception as error:  # noqa: BLE001 - the next look tries again
                work.report(error)
            if ended.wait(marks_interval):
                return

    thread = threading.Thread(target=look, name="holdfast-marks", daemon=True)
    thread.start()
    try:
        with hold_delivery(work, interval=interval, name="notifications"):
            yield
    finally:
        ended.set()
        thread.join(5)
