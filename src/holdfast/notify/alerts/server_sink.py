"""Raise an alert on a server, in the transaction of what happened. Its notifier tells the channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.notify.alerts.alert import Alert
from holdfast.store.alert_signals import signal_alert
from holdfast.store.blobs import EncryptedBlobs

if TYPE_CHECKING:
    from psycopg import Connection

_DECODER = msgspec.json.Decoder(Alert)


def raise_alert(connection: Connection[Any], encrypted: EncryptedBlobs, tenant: str, alert: Alert) -> None:
    """Also the end of one (`resolved`). `encrypted`: the run store of the tenant."""
    signal_alert(connection, encrypted, tenant, msgspec.json.encode(alert))


def alert_from(content: bytes) -> Alert:
    return _DECODER.decode(content)
