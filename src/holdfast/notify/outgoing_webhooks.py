"""Outgoing webhooks: kinds of events, signatures by the Standard Webhooks specification, retries. Pure."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterator
from datetime import datetime
from typing import Final

import msgspec

TEST: Final = "webhook.test"
"""Sent on request, whatever the events of the webhook are."""
KINDS: Final = ("event.succeeded", "event.failed", "event.cancelled", "event.superseded", "event.unknown")
"""What a webhook can be for. A new kind is a line here; its documents come from the server."""
SECRET_BYTES: Final = 32
_PREFIX: Final = "whsec_"
_FIRST: Final = 5.0
_FACTOR: Final = 4
_ATTEMPTS: Final = 9
"""The last one about a day after the first."""
_SPREAD: Final = 0.2


def event_patterns() -> Iterator[str]:
    """What the events of a webhook can be: kinds, and `event.*` for all that begin so."""
    yield from KINDS
    yield from sorted({f"{kind.partition('.')[0]}.*" for kind in KINDS})


def new_secret(random: bytes) -> str:
    return _PREFIX + base64.b64encode(random).decode()


def body_of(kind: str, created: datetime, document: object) -> bytes:
    return msgspec.json.encode({"type": kind, "timestamp": created, "data": document})


def signed_headers(secret: str, id_: str, at: datetime, body: bytes) -> dict[str, str]:
    """The headers of a delivery. The signature covers its id, the time of this attempt and the body."""
    key, seconds = base64.b64decode(secret.removeprefix(_PREFIX)), str(int(at.timestamp()))
    digest = hmac.new(key, f"{id_}.{seconds}.".encode() + body, hashlib.sha256).digest()
    return {
        "content-type": "application/json",
        "webhook-id": id_,
        "webhook-timestamp": seconds,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def retry_delay(attempts: int, chance: float) -> float | None:
    """Seconds until the next attempt after so many failed ones; None: there is none.

    `chance` is from 0 to 1: receivers that failed together are not tried again together.
    """
    if attempts >= _ATTEMPTS:
        return None
    return float(_FIRST * _FACTOR ** (attempts - 1) * (1 - _SPREAD * chance))
