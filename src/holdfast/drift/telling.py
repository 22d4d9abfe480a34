"""Hand alerts about drift to whoever sends them, and remember what people were told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from holdfast.drift.alerts import alert_digest, due_alert, with_alert
from holdfast.drift.result import DriftResult
from holdfast.notify.alerts.alert import Alert
from holdfast.store.drift import StackDrift
from holdfast.store.run_store import RunStore
from holdfast.system import clock

AlertSink = Callable[[Sequence[Alert]], None]
"""Takes alerts and answers for them from then on. What it raises is not remembered as told."""


def tell_drift(
    store: RunStore,
    results: Iterable[DriftResult],
    sink: AlertSink,
    *,
    now: Callable[[], datetime] = clock.now,
) -> int:
    """How many alerts were raised, changed or closed. An alert may be handed over twice, never not at all."""
    moment = now()
    due: list[tuple[StackDrift, Alert]] = []
    for result in results:
        stack = result.stack
        about = {
            "environment": stack.environment,
            "production": stack.production,
            "target": stack.target.name if stack.target is not None else None,
        }
        alert = due_alert(result.known, moment, **about)
        if alert is not None:
            due.append((result.known, alert))
    if due:
        sink([alert for _, alert in due])
    for known, _ in due:
        remember(store, known, moment)
    return len(due)


def remember(store: RunStore, told: StackDrift, moment: datetime) -> None:
    digest = alert_digest(told)
    store.drift.update(told.stack, lambda known: with_alert(known or told, digest, moment))
