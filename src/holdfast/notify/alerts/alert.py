"""An alert: one issue that people should know of, from its start until it is over."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct


class AlertKind(StrEnum):
    """What a route can select (`what` in `notify.routes`)."""

    DRIFT = "drift"
    FAILED = "failed"
    WAITING = "waiting"
    BREAK_GLASS = "break_glass"
    UNKNOWN = "unknown"
    GATE_FAILED = "gate_failed"
    BUDGET_EXCEEDED = "budget_exceeded"
    CHANNEL_BROKEN = "channel_broken"


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


class Alert(Struct, frozen=True, kw_only=True):
    """Raised as often as its state changes: the same key is the same issue, and `resolved` ends it.

    Every text is masked by whoever raises it, and once more before it is sent.
    """

    kind: AlertKind
    key: str
    """Such as `drift:prod/network`: stable for as long as the issue lasts."""
    resolved: bool = False
    severity: Severity = Severity.WARNING
    title: str
    """One line: what happened, where."""
    details: tuple[str, ...] = ()
    """Lines of evidence, the most important first."""
    next_step: str | None = None
    """A command or a place to go to."""
    link: str | None = None
    since: datetime
    tenant: str | None = None
    stack: str | None = None
    environment: str | None = None
    production: bool = False
    target: str | None = None
    run: str | None = None
