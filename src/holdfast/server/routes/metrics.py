"""For Prometheus: `/metrics`. Totals without names: of the tenant of the token, or of all."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.plugins.prometheus import PrometheusConfig, PrometheusMiddleware
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, Gauge, generate_latest

from holdfast.identity.principal import ALL_TENANTS, Principal
from holdfast.identity.roles import Permission
from holdfast.store.alert_signals import AlertSignals
from holdfast.store.drift import StackStatus
from holdfast.store.outgoing_webhooks import OutgoingWebhookRows
from holdfast.store.server_drift.rows import DriftRows
from holdfast.store.server_states.rows import StateRows
from holdfast.store.server_states.versions import StateVersions

STATE_PATH = "/state"


@get("/metrics", opt={"permission": Permission.READ}, include_in_schema=False, sync_to_thread=True)
def metrics(
    principal: NamedDependency[Principal],
    rows: NamedDependency[StateRows],
    outgoing: NamedDependency[OutgoingWebhookRows],
    signals: NamedDependency[AlertSignals],
    drift: NamedDependency[DriftRows],
) -> Response[bytes]:
    tenant = None if principal.tenant == ALL_TENANTS else principal.tenant
    counts, registry = StateVersions(rows).count_secrets(tenant), CollectorRegistry()
    for name, help_, value in (
        ("secrets", "Attributes with secrets in the current versions of states.", counts.current),
        ("versions_with_secrets", "Versions of states that contain secrets, also old ones.", counts.versions),
        ("versions_not_scanned", "Versions that were not scanned for secrets.", counts.not_scanned),
    ):
        Gauge(f"holdfast_state_{name}", help_, registry=registry).set(value)
    deliveries = Gauge(
        "holdfast_webhook_deliveries",
        "Deliveries of outgoing webhooks that have not arrived.",
        ["state"],
        registry=registry,
    )
    for state, count in outgoing.count(tenant)._asdict().items():
        deliveries.labels(state).set(count)
    notifications = Gauge(
        "holdfast_notifications",
        "Open alerts, and messages about them that have not arrived.",
        ["state"],
        registry=registry,
    )
    for state, count in signals.count(tenant)._asdict().items():
        notifications.labels(state).set(count)
    stacks = Gauge(
        "holdfast_drift_stacks", "Stacks by what the last look for drift said.", ["status"], registry=registry
    )
    findings = Gauge("holdfast_drift_findings", "Findings of drift that are open.", registry=registry)
    overdue = Gauge(
        "holdfast_drift_overdue", "Stacks that should have been looked at an hour ago.", registry=registry
    )
    counted = {each.status: each for each in drift.counts(tenant)}
    for status in StackStatus:
        stacks.labels(status.value).set(counted[status].stacks if status in counted else 0)
    findings.set(sum(each.findings for each in counted.values()))
    overdue.set(sum(each.overdue for each in counted.values()))
    text = generate_latest(REGISTRY) + generate_latest(registry)
    return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})


class _MetricsByRoute(PrometheusMiddleware):
    """A label for each state would grow without end."""

    def _get_default_labels(self, request: Request[Any, Any, Any]) -> dict[str, str | int | float]:
        labels = super()._get_default_labels(request)
        return {**labels, "path": request.scope["path_template"] or STATE_PATH}


def request_metrics() -> PrometheusConfig:
    """Of every request."""
    return PrometheusConfig(app_name="holdfast", prefix="holdfast", middleware_class=_MetricsByRoute)
