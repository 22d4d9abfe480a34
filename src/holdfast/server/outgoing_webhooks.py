"""Sends the deliveries of outgoing webhooks. The rows are the queue (`store/outgoing_webhooks.py`).

A delivery arrives at least once: a server that dies after its receiver answered did not record that. Every
attempt has the same `webhook-id`, by which a receiver recognises a repeated one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

from msgspec import Struct, field

from holdfast.kernel.errors import HoldfastError
from holdfast.notify.outgoing_webhooks import TEST, body_of, retry_delay, signed_headers
from holdfast.server.audit_log import TenantStores
from holdfast.server.edge import Log
from holdfast.store.outgoing_webhooks import OutgoingWebhookRows, TakenDelivery, WebhookTarget, read_targets
from holdfast.system import clock, http
from holdfast.system.addresses import AddressRules
from holdfast.system.environment import Environment
from holdfast.system.http import HttpError

INTERVAL: Final = 1.0
"""Seconds between two looks at the rows."""
_SECONDS: Final = 10.0
"""For one attempt."""
_AT_ONCE: Final = 8
_LARGEST_ANSWER: Final = 64 * 1024
_STOP_SECONDS: Final = 5.0
"""What is not finished then is sent again by the next start."""
_GONE: Final = "410: the receiver is gone"
DocumentOf = Callable[[str, str], object | None]
"""What the API shows of a subject, by its tenant and id. None: it was removed."""


class OutgoingWork(Struct, frozen=True, kw_only=True):
    rows: OutgoingWebhookRows
    stores: TenantStores
    rules: AddressRules
    environment: Environment
    """For certificates."""
    log: Log
    documents: Mapping[str, DocumentOf] = field(default_factory=dict)
    """By what the kind of a delivery begins with, such as `event`."""
    delay: Callable[[int], float | None] = lambda attempts: retry_delay(attempts, clock.chance())
    seconds: float = _SECONDS

    def take(self) -> TakenDelivery | None:
        return self.rows.take([TEST.partition(".")[0], *self.documents])

    def send(self, taken: TakenDelivery) -> None:
        """One attempt, and what became of it."""
        try:
            error = self._attempt(taken)
        except Exception as failure:  # noqa: BLE001 - the others go on
            error = _reason(failure)
        facts = {"id": taken.id, "webhook": taken.webhook, "kind": taken.kind, "attempt": taken.attempts}
        if error is None:
            self.rows.finish(taken)
            self.log.info("webhook delivered", **facts)
        elif error == _GONE:
            self.rows.disable(taken, error)
            self.log.error("webhook disabled", **facts, reason=error)
        else:
            delay = self.delay(taken.attempts)
            self.rows.fail(taken, error, delay)
            self.log.error("webhook not delivered", **facts, reason=error, dead=delay is None)

    def _attempt(self, taken: TakenDelivery) -> str | None:
        """Why it failed; None: it was delivered."""
        target = read_targets(self.stores.of(taken.tenant).encrypted, [taken.webhook]).get(taken.webhook)
        document = self._document(taken)
        if target is None or document is None:
            return "what it is about was removed"
        status = self._post(taken, target, body_of(taken.kind, taken.created, document))
        if status == HTTPStatus.GONE:
            return _GONE
        return None if HTTPStatus(200) <= status < HTTPStatus(300) else f"the receiver answered {status}"

    def _document(self, taken: TakenDelivery) -> object | None:
        if taken.kind == TEST:
            return {"webhook": taken.webhook}
        return self.documents[taken.kind.partition(".")[0]](taken.tenant, taken.subject)

    def _post(self, taken: TakenDelivery, target: WebhookTarget, body: bytes) -> int:
        return http.request(
            "POST",
            target.url,
            environment=self.environment,
            headers=signed_headers(target.secret, taken.id, clock.now(), body),
            body=body,
            seconds=self.seconds,
            max_bytes=_LARGEST_ANSWER,
            rules=self.rules,
        ).status


class _DeliveryLoop:
    """A thread that takes deliveries, and one for each that is being sent."""

    def __init__(self, work: OutgoingWork, interval: float) -> None:
        self._work = work
        self._interval = interval
        self._ended = threading.Event()
        self._free = threading.Semaphore(_AT_ONCE)
        self._thread = threading.Thread(target=self._run, name="holdfast-outgoing-webhooks", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Waits a while for what is being sent."""
        self._ended.set()
        until = clock.monotonic() + _STOP_SECONDS
        self._thread.join(_STOP_SECONDS)
        for _ in range(_AT_ONCE):
            self._free.acquire(timeout=max(0.0, until - clock.monotonic()))

    def _run(self) -> None:
        while not self._ended.is_set():
            if not self._begin_next():
                self._ended.wait(self._interval)

    def _begin_next(self) -> bool:
        """False: there is nothing to send, or all threads are busy."""
        if not self._free.acquire(timeout=self._interval):
            return False
        taken = None
        try:
            taken = self._work.take()
        except Exception as error:  # noqa: BLE001 - such as a database that cannot be used at the moment
            self._report(error)
        if taken is None:
            self._free.release()
            return False
        threading.Thread(target=self._send, args=(taken,), name="holdfast-webhook", daemon=True).start()
        return True

    def _send(self, taken: TakenDelivery) -> None:
        try:
            self._work.send(taken)
        except Exception as error:  # noqa: BLE001 - its lease ends, and it is sent again
            self._report(error)
        finally:
            self._free.release()

    def _report(self, error: Exception) -> None:
        self._work.log.error("outgoing webhooks wait", reason=_reason(error))


@contextmanager
def hold_outgoing_webhooks(work: OutgoingWork, *, interval: float = INTERVAL) -> Iterator[None]:
    """A slow receiver delays only what is sent to itself. Several servers on one database share the work."""
    loop = _DeliveryLoop(work, interval)
    try:
        yield
    finally:
        loop.end()


def _reason(error: Exception) -> str:
    """Without an address, a header or a body."""
    match error:
        case HttpError():
            return error.reason[:200]
        case HoldfastError():
            return error.problem.code
        case _:
            return type(error).__name__
