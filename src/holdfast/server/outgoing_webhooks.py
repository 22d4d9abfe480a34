"""Sends the deliveries of outgoing webhooks. The rows are the queue (`store/outgoing_webhooks.py`).

A delivery arrives at least once: a server that dies after its receiver answered did not record that. Every
attempt has the same `webhook-id`, by which a receiver recognises a repeated one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

from msgspec import Struct, field

from holdfast.kernel.errors import HoldfastError
from holdfast.notify.outgoing_webhooks import TEST, body_of, retry_delay, signed_headers
from holdfast.server.audit_log import TenantStores
from holdfast.server.delivery_loop import hold_delivery
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
_LARGEST_ANSWER: Final = 64 * 1024
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

    def report(self, error: Exception) -> None:
        self.log.error("outgoing webhooks wait", reason=_reason(error))

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


@contextmanager
def hold_outgoing_webhooks(work: OutgoingWork, *, interval: float = INTERVAL) -> Iterator[None]:
    with hold_delivery(work, interval=interval, name="outgoing-webhooks"):
        yield


def _reason(error: Exception) -> str:
    """Without an address, a header or a body."""
    match error:
        case HttpError():
            return error.reason[:200]
        case HoldfastError():
            return error.problem.code
        case _:
            return type(error).__name__
