"""A receiver of outgoing webhooks on loopback, which verifies signatures as a user's program would."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from answering import Answer, Answering, Asked


def is_signed(asked: Asked, secret: str) -> bool:
    """By the specification of Standard Webhooks."""
    content = f"{asked.headers['webhook-id']}.{asked.headers['webhook-timestamp']}.".encode() + asked.body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signature = base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
    return f"v1,{signature}" in asked.headers["webhook-signature"].split(" ")


class Receiver(Answering):
    """Use it as a context."""

    def __init__(self, status: Callable[[Asked], int] = lambda _: 204, *, port: int = 0) -> None:
        super().__init__(self._receive, port=port)
        self.most_at_once: Counter[str] = Counter()
        """By path."""
        self._status = status
        self._now: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def ids(self) -> list[str]:
        return [asked.headers["webhook-id"] for asked in self.asked]

    @property
    def documents(self) -> list[Any]:
        return [json.loads(asked.body) for asked in self.asked]

    def answer(self, asked: Asked) -> Answer:
        with self._lock:
            self._now[asked.path] += 1
            self.most_at_once[asked.path] = max(self.most_at_once[asked.path], self._now[asked.path])
        try:
            return super().answer(asked)
        finally:
            with self._lock:
                self._now[asked.path] -= 1

    def _receive(self, asked: Asked) -> Answer:
        status = self._status(asked)
        return Answer(status=status, headers={"Location": "/elsewhere"} if status in {302, 307} else {})
