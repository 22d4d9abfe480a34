"""Alerts, configurations of `notify` and an outbox in memory, with a clock that a test moves."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from ciphers import encrypted_on
from memory_blobs import MemoryBlobs

from holdfast.config.notify import NotifySettings
from holdfast.config.read import parse
from holdfast.notify.alerts.alert import Alert, AlertKind, Severity
from holdfast.notify.alerts.delivery import Attempt, Delivery
from holdfast.notify.alerts.stored_outbox import StoredOutbox, outbox_name
from holdfast.notify.channels.interface import Access
from holdfast.secrets.reader import SecretReader
from holdfast.secrets.redact import Redactor
from holdfast.store.blobs import BlobStore
from holdfast.system.environment import Environment

START = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)


def settings_of(notify: str) -> NotifySettings:
    """From the YAML below `notify:`."""
    text = f"version: 1\nnotify: {notify}\n"
    return parse(text, file="holdfast.yaml", root=Path("/"), path=Path("/holdfast.yaml")).notify


def made_alert(stack: str = "prod/network", **given: Any) -> Alert:
    known: dict[str, Any] = {
        "kind": AlertKind.FAILED,
        "key": f"{given.get('kind', AlertKind.FAILED)}:{stack}",
        "severity": Severity.ERROR,
        "title": f"{stack}: the apply failed",
        "details": ("HF-TF-1: aws_eip.a: quota exceeded",),
        "next_step": "holdfast runs log 01JD",
        "link": "https://ci.example/runs/1",
        "since": START,
        "stack": stack,
        "environment": "prod",
        "production": True,
        "target": "aws",
        "run": "01JD",
    }
    return Alert(**{**known, **given})


class MadeOutbox:
    """An outbox and who sends it. Any number of them may share the blobs."""

    def __init__(
        self,
        notify: str,
        secrets: Mapping[str, str] | None = None,
        *,
        blobs: BlobStore | None = None,
        variables: Mapping[str, str] | None = None,
        first_id: int = 1,
    ) -> None:
        self.blobs = blobs or MemoryBlobs()
        self.now = START
        self.lines: list[str] = []
        self.attempts: list[Attempt] = []
        self.redactor = Redactor()
        self.environment = Environment({**(secrets or {}), **(variables or {})})
        numbers = count(first_id)
        reader = SecretReader(self.environment, Path("/"))

        def read(ref: Any) -> Any:
            secret = reader.read(ref)
            self.redactor.register(secret)
            return secret

        self.delivery = Delivery(
            outbox=StoredOutbox(encrypted_on(self.blobs), outbox_name("example.com/acme/infra")),
            settings=settings_of(notify),
            access=Access(
                environment=self.environment,
                secret=read,
                say=self.lines.append,
                now=lambda: self.now,
                seconds=5,
            ),
            clean=self.redactor.clean,
            new_id=lambda: f"{next(numbers):026}",
            delay=lambda attempts: 5.0 * 4 ** (attempts - 1) if attempts < 9 else None,
            report=self.attempts.append,
        )

    @property
    def outbox(self) -> Any:
        return self.delivery.outbox.read()

    def raise_(self, *alerts: Alert) -> None:
        self.delivery.raise_alerts(alerts)

    def deliver(self, later: float = 0.0) -> datetime | None:
        """What is due so many seconds later."""
        self.now += timedelta(seconds=later)
        due = self.now
        next_: datetime | None = due
        for _ in range(100):
            next_ = self.delivery.deliver()
            if next_ is None or next_ > self.now:
                break
        return next_
